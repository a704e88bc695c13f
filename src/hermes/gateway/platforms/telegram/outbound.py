"""Sends and edits. Each send is noted before and after, so that a crash leaves a trace of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, Message, ReplyParameters
from telegram.constants import ChatType, ParseMode
from telegram.error import BadRequest, ChatMigrated, TelegramError

from hermes.core.ports import Clock
from hermes.gateway.platforms.kit.contract import (
    Button,
    ChatTarget,
    DeliveryUnknown,
    Media,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.kit.media import guess_mime, open_upload
from hermes.gateway.platforms.telegram.client import (
    TooOften,
    chat_in,
    message_name,
    number_of,
    of_call,
    of_connecting,
    says,
    send_thread,
)
from hermes.gateway.platforms.telegram.journal import Begun, Chats, Journal, Sending
from hermes.store.records import OutboxRow

# One message of the gateway as the messages that Telegram needs for it.

MAX_CAPTION = 1024
"""UTF-16 units that people see."""
MAX_PHOTO = 10_000_000
MAX_DATA = 64
"""Bytes of a button."""
BUTTONS_IN_ROW = 2
PHOTOS = frozenset({"image/jpeg", "image/png", "image/webp"})
VOICES = frozenset({".ogg", ".oga", ".opus", ".mp3", ".m4a"})


class Part(msgspec.Struct, frozen=True):
    text: str = ""
    """HTML; beside a file it is the caption."""
    plain: str = ""
    media: Media | None = None
    path: Path | None = None
    data: bytes = b""
    """Of the file, once it is read."""
    method: str = "message"
    """`photo` of `sendPhoto`."""
    buttons: tuple[Button, ...] = ()
    reply_to: str = ""
    silent: bool = False


def parts_of(message: OutgoingMessage, max_upload: int) -> tuple[Part, ...]:
    """At least one. Words go beside the first file when they are short enough, else before it.
    Raises `SendRefused` for files and buttons that Telegram would not take."""
    check_buttons(message.buttons)
    files = []
    for media in message.media:
        path = open_upload(media, max_upload)
        files.append(Part(media=media, path=path, method=method_of(media, path)))
    words = Part(message.text, message.plain or message.text, buttons=message.buttons)
    if not files:
        parts = [words]
    elif not message.text or units(words.plain) <= MAX_CAPTION:
        first = msgspec.structs.replace(
            files[0], text=words.text, plain=words.plain, buttons=words.buttons
        )
        parts = [first, *files[1:]]
    else:
        parts = [words, *files]
    parts[0] = msgspec.structs.replace(parts[0], reply_to=message.reply_to)
    return tuple(msgspec.structs.replace(part, silent=message.silent) for part in parts)


def method_of(media: Media, path: Path) -> str:
    """Which kind of message shows a file best."""
    mime = media.mime or guess_mime(media.name or path.name)
    match media.kind:
        case "image" if mime in PHOTOS and path.stat().st_size <= MAX_PHOTO:
            return "photo"
        case "image" if mime == "image/gif":
            return "animation"
        case "voice" if Path(media.name or path.name).suffix.lower() in VOICES:
            return "voice"
        case "voice" | "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return "document"


def keyboard(buttons: Sequence[Button]) -> InlineKeyboardMarkup | None:
    if not buttons:
        return None
    keys = [InlineKeyboardButton(each.label, callback_data=each.data) for each in buttons]
    rows = [keys[start : start + BUTTONS_IN_ROW] for start in range(0, len(keys), BUTTONS_IN_ROW)]
    return InlineKeyboardMarkup(rows)


def markup_of(buttons: Sequence[Button]) -> str:
    """The buttons in a word, to tell messages apart."""
    return "|".join(each.data for each in buttons)


def check_buttons(buttons: Sequence[Button]) -> None:
    for each in buttons:
        if not 0 < len(each.data.encode()) <= MAX_DATA or not each.label.strip():
            raise SendRefused(f"Telegram does not take the button {each.label!r}")


def units(text: str) -> int:
    """UTF-16 units, as Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


UNREADABLE = ("can't parse entities", "can't parse message text")
REFUSED_AS: dict[str, tuple[tuple[str, ...], str]] = {
    "photo": (
        (
            "photo_invalid_dimensions",
            "image_process_failed",
            "photo_save_file_invalid",
            "photo_ext_invalid",
        ),
        "document",
    ),
    # People may keep voice messages away from themselves.
    "voice": (("voice_messages_forbidden", "restricted receiving of voice"), "audio"),
}
"""Why Telegram does not show a file in this way, and how it does."""
NOT_MODIFIED = "message is not modified"


class Sender:
    def __init__(
        self, bot: Bot, journal: Journal, chats: Chats, clock: Clock, max_upload: int
    ) -> None:
        self._bot, self._journal, self._chats, self._clock = bot, journal, chats, clock
        self._max_upload = max_upload
        self._flows: dict[int, _Flow] = {}

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        """The name of its first part. What is there of an earlier attempt is not sent again."""
        parts = parts_of(message, self._max_upload)
        chat_id = await self._chats.find(target)
        async with self._flow(chat_id).sending():
            known = self._journal.sends.get(key)
            done = len(known.numbers) if known is not None and not known.complete else 0
            for part in parts[done:]:
                await self._send_part(chat_id, target, part, key, len(parts))
        sending = self._journal.sends[key]
        return message_name(sending.begun.chat_id, sending.numbers[0])

    @asynccontextmanager
    async def quiet(self, chat_id: int) -> AsyncIterator[None]:
        """Nothing is on its way to the chat, and nothing starts."""
        async with self._flow(chat_id).quiet():
            yield

    async def edit(self, target: ChatTarget, name: str, message: OutgoingMessage) -> None:
        check_buttons(message.buttons)
        # In its own chat: numbers of a group begin anew when it becomes a supergroup.
        chat_id, number = chat_in(name) or await self._chats.find(target), number_of(name)
        where: dict[str, Any] = {
            "chat_id": chat_id,
            "message_id": number,
            "reply_markup": keyboard(message.buttons),
        }
        try:
            await self._edit(message.text, ParseMode.HTML, where, message.plain or message.text)
        except TelegramError as error:
            if not says(error, NOT_MODIFIED):
                raise of_call(error) from None

    async def _edit(self, text: str, mode: str | None, where: dict[str, Any], plain: str) -> None:
        try:
            await self._bot.edit_message_text(text=text, parse_mode=mode, **where)
        except BadRequest as error:
            if says(error, "there is no text in the message"):
                await self._bot.edit_message_caption(caption=text, parse_mode=mode, **where)
            elif mode and says(error, *UNREADABLE):
                await self._edit(plain, None, where, plain)
            else:
                raise

    async def _send_part(
        self, chat_id: int, target: ChatTarget, part: Part, key: str, parts: int
    ) -> None:
        part = await _loaded(part)
        after = self._journal.after(chat_id)
        markup, now = markup_of(part.buttons), self._clock.now().timestamp()
        self._journal.begin(Begun(key, chat_id, after, now, parts, markup))
        try:
            sent = await self._formatted(chat_id, target, part)
        except ChatMigrated as error:
            self._journal.absent(key)
            if chat_id == error.new_chat_id:
                raise of_call(error) from None
            self._journal.move(chat_id, error.new_chat_id)
            await self._send_part(error.new_chat_id, target, part, key, parts)
        except TelegramError as error:
            failure = of_call(error)
            if not isinstance(failure, SendUnsure):
                self._journal.absent(key)
            raise failure from None
        else:
            self._journal.arrive(key, sent.message_id)

    async def _formatted(self, chat_id: int, target: ChatTarget, part: Part) -> Message:
        """Sent as it is, or in the plainest way that Telegram takes."""
        mode: str | None = ParseMode.HTML
        while True:
            try:
                return await self._call(chat_id, target, part, mode)
            except BadRequest as error:
                reasons, instead = REFUSED_AS.get(part.method, ((), ""))
                if mode and says(error, *UNREADABLE):
                    part, mode = msgspec.structs.replace(part, text=part.plain), None
                elif says(error, *reasons):
                    part = msgspec.structs.replace(part, method=instead)
                else:
                    raise

    async def _call(
        self, chat_id: int, target: ChatTarget, part: Part, mode: str | None
    ) -> Message:
        here = chat_in(part.reply_to) in (chat_id, None)
        reply = number_of(part.reply_to) if here else 0
        common: dict[str, Any] = {
            "chat_id": chat_id,
            "message_thread_id": send_thread(target.thread_id),
            "parse_mode": mode,
            "disable_notification": part.silent,
            "reply_markup": keyboard(part.buttons),
            "reply_parameters": (
                ReplyParameters(reply, allow_sending_without_reply=True) if reply else None
            ),
        }
        if part.path is None or part.media is None:
            return await self._bot.send_message(text=part.text, **common)
        send: Callable[..., Awaitable[Message]] = getattr(self._bot, f"send_{part.method}")
        name = part.media.name or part.path.name
        given = {part.method: part.data, "filename": name, "caption": part.text or None}
        return await send(**given, **common)

    def _flow(self, chat_id: int) -> "_Flow":
        return self._flows.setdefault(chat_id, _Flow())


class _Flow:
    """Sends of a chat go side by side; whoever needs it quiet waits for them and holds them up."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._none = asyncio.Event()
        self._none.set()
        self._count = 0

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        async with self._turn:
            self._count += 1
            self._none.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._none.set()

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        async with self._turn:
            await self._none.wait()
            yield


async def _loaded(part: Part) -> Part:
    if part.path is None or part.data:
        return part
    try:
        data = await asyncio.to_thread(part.path.read_bytes)
    except OSError as error:
        raise SendRefused(f"{part.path.name} cannot be read: {error.strerror}") from error
    return msgspec.structs.replace(part, data=data)


# Whether a message in doubt is there.
#
# Telegram has no key of ours for a message and no way to read a chat. What it has are numbers that
# only grow, and `editMessageReplyMarkup`: asked to give a message the buttons it has anyway, it
# changes nothing and says "message is not modified" for a message of ours, "message can't be
# edited"
# for one of somebody else, and "message to edit not found" for a number that is no message of this
# chat.
#
# 1. The journal says that Telegram answered us: the message is there, under that name.
# 2. The journal says that it was refused, or never left: it is not there.
# 3. Else every number is asked about, from the newest known before the sending up to the newest
# known
#    now, and on until `QUIET` numbers in a row are no message of the chat. First all updates that
#    wait for us are taken in, so that the newest known is the newest there is; and `settle`
# seconds
#    must have passed since the sending, so that a request that is still being worked on has come
# to
#    its end. Our messages that the journal knows do not count.
#    - None of ours: it is not there, and may be sent again.
#    - As many as the messages of the chat in doubt: all of them are there, in their order.
#    - Any other count: nobody knows (`DeliveryUnknown`), and it is not sent again.
#
# Why sending again is safe after 3: a message that is there has a number above the newest known
# before its sending. It could be overlooked only behind `QUIET` numbers that we never saw and that
# are no messages of this chat: in a supergroup that many messages deleted in a row, in a private
# chat that many messages in basic groups that hide them from the bot, all between our last look
# and
# the sending. More than `MOST` numbers are not asked about: `DeliveryUnknown`.
#
# In a channel the bot may edit the posts of others, so they look like ours: nothing is asked there
# (`DeliveryUnknown`).
#
# A message of ours that has other buttons than those asked with is changed by the question. That
# needs a second message in doubt in the same chat, with other buttons, and when the journal has
# one
# nothing is asked (`DeliveryUnknown`); only after the journal was lost can it happen.

QUIET = 40
MOST = 400
LONG_AGO = 3600.0
"""Seconds after which a message in doubt is below what was seen since."""
LONGEST_PAUSE = 20.0
"""Seconds that Telegram may have us wait between two questions."""


class Owner(Enum):
    OURS = "a message of ours, with these buttons"
    CHANGED = "a message of ours that had other buttons"
    OTHERS = "somebody else's message"
    NOBODY = "no message of this chat"


class Doubts:
    def __init__(
        self,
        bot: Bot,
        journal: Journal,
        chats: Chats,
        sender: Sender,
        clock: Clock,
        catch_up: Callable[[], Awaitable[None]],
        settle: float,
    ) -> None:
        """`catch_up` returns when no update waits for us; it raises `NotConnected`."""
        self._bot, self._journal, self._sender, self._clock = bot, journal, sender, clock
        self._chats, self._catch_up, self._settle = chats, catch_up, settle

    async def find(
        self, row: OutboxRow, target: ChatTarget, message: OutgoingMessage
    ) -> str | None:
        chat_id = await self._chats.find(target)
        async with self._sender.quiet(chat_id):
            sending = self._journal.sends.get(row.key)
            if sending is not None and not sending.open:
                return _name(sending)
            if sending is not None and sending.begun.chat_id != chat_id:
                raise DeliveryUnknown("the Telegram group became a supergroup while we wrote to it")
            after = _after(row, sending)
            doubts = self._doubts(chat_id, sending, message, after)
            after = min([after, *(each.begun.after for each in doubts if each is not sending)])
            await self._wait(sending)
            await self._catch_up()
            buttons = message.buttons if sending is None or sending.begun.markup else ()
            if await self._is_channel(chat_id):
                raise DeliveryUnknown("in a Telegram channel we may edit what others posted too")
            found = await self._ours(chat_id, after, buttons)
            return self._decide(row.key, sending, doubts, found)

    def _doubts(
        self, chat_id: int, sending: Sending | None, message: OutgoingMessage, after: int
    ) -> list[Sending]:
        """Messages of the chat in doubt, this one among them, without those that nobody could ever
        tell about and that have lower numbers."""
        now = self._clock.now().timestamp()
        doubts = [
            each
            for each in self._journal.doubts(chat_id)
            if each is sending or each.begun.after >= after or each.begun.at > now - LONG_AGO
        ]
        markup = sending.begun.markup if sending else markup_of(message.buttons)
        if any(each.begun.markup != markup for each in doubts):
            raise DeliveryUnknown("two messages with different buttons are in doubt in one chat")
        return doubts

    async def _wait(self, sending: Sending | None) -> None:
        if sending is not None:
            age = self._clock.now().timestamp() - sending.begun.at
            if 0 <= age < self._settle:
                await self._clock.sleep(self._settle - age)

    async def _ours(self, chat_id: int, after: int, buttons: Sequence[Button]) -> list[int]:
        """Numbers of our messages that the journal does not have."""
        newest, known = self._journal.after(chat_id), self._journal.ours(chat_id)
        found: list[int] = []
        quiet, number = 0, after
        while quiet < QUIET:
            number += 1
            if number - after > MOST:
                raise DeliveryUnknown("too much was written since to find the message")
            owner = Owner.OTHERS if number in known else await self._ask(chat_id, number, buttons)
            if owner is Owner.CHANGED:
                raise DeliveryUnknown("there is a message of ours that this gateway did not send")
            if owner is Owner.OURS:
                found.append(number)
            quiet = quiet + 1 if owner is Owner.NOBODY and number > newest else 0
        return found

    async def _ask(self, chat_id: int, number: int, buttons: Sequence[Button]) -> Owner:
        markup = keyboard(buttons)
        for _ in range(3):
            try:
                await self._bot.edit_message_reply_markup(chat_id, number, reply_markup=markup)
            except BadRequest as error:
                return _owner(error)
            except TooOften as error:
                if error.seconds > LONGEST_PAUSE:
                    raise SendLater("Telegram wants us to wait", seconds=error.seconds) from None
                await self._clock.sleep(error.seconds)
            except TelegramError as error:
                raise of_connecting(error) from None
            else:
                return Owner.CHANGED
        raise SendLater("Telegram wants us to wait")

    async def _is_channel(self, chat_id: int) -> bool:
        try:
            return (await self._bot.get_chat(chat_id)).type == ChatType.CHANNEL
        except TelegramError as error:
            raise of_connecting(error) from None

    def _decide(
        self, key: str, sending: Sending | None, doubts: list[Sending], found: list[int]
    ) -> str | None:
        if not found:
            for each in doubts:
                self._journal.absent(each.begun.key)
            return None
        if sending is None or len(found) != len(doubts):
            raise DeliveryUnknown(f"{len(found)} messages of ours could be the one in doubt")
        for each, number in zip(doubts, found, strict=True):
            self._journal.arrive(each.begun.key, number)
        return _name(self._journal.sends[key])


def _owner(error: BadRequest) -> Owner:
    if says(error, NOT_MODIFIED):
        return Owner.OURS
    if says(error, "message can't be edited"):
        return Owner.OTHERS
    if says(error, "not found", "message_id_invalid"):
        return Owner.NOBODY
    raise DeliveryUnknown(f"Telegram does not say whose message it is: {error.message}")


def _name(sending: Sending) -> str | None:
    """None when parts of it are missing: sending it again sends only those."""
    if not sending.complete:
        return None
    return message_name(sending.begun.chat_id, sending.numbers[0])


def _after(row: OutboxRow, sending: Sending | None) -> int:
    numbers = [number_of(row.after_id), sending.begun.after if sending else 0]
    after = max(numbers)
    if not after:
        raise DeliveryUnknown("nothing is known about the chat before the message was sent")
    return after
