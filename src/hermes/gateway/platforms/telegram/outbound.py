"""Sends and edits messages, and finds out whether an uncertain message was delivered.

Each send is recorded in the journal before and after, so that a crash leaves a trace of it.
"""

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
    TelegramRateLimited,
    chat_of_message,
    error_mentions,
    format_message_id,
    map_connect_error,
    map_error,
    message_number,
    send_thread,
)
from hermes.gateway.platforms.telegram.journal import (
    BegunEntry,
    JournaledSend,
    TelegramChats,
    TelegramJournal,
)
from hermes.store.records import OutboxRow

MAX_CAPTION = 1024
"""UTF-16 units of visible text."""
MAX_PHOTO = 10_000_000
MAX_BUTTON_BYTES = 64
"""Bytes of the data of a button."""
BUTTONS_IN_ROW = 2
PHOTO_TYPES = frozenset({"image/jpeg", "image/png", "image/webp"})
VOICE_EXTENSIONS = frozenset({".ogg", ".oga", ".opus", ".mp3", ".m4a"})
PARSE_ERRORS = ("can't parse entities", "can't parse message text")
FALLBACK_METHODS: dict[str, tuple[tuple[str, ...], str]] = {
    "photo": (
        (
            "photo_invalid_dimensions",
            "image_process_failed",
            "photo_save_file_invalid",
            "photo_ext_invalid",
        ),
        "document",
    ),
    # Users may block voice messages.
    "voice": (("voice_messages_forbidden", "restricted receiving of voice"), "audio"),
}
"""Telegram's reasons to reject a file sent by this method, and the method to use instead."""
NOT_MODIFIED = "message is not modified"
MAX_GAP = 40
MAX_NUMBERS = 400
STALE_SECONDS = 3600.0
"""After this time an uncertain message has a lower number than those seen since."""
MAX_PAUSE = 20.0
"""Longest pause between two probes that we accept from Telegram."""


class MessagePart(msgspec.Struct, frozen=True):
    text: str = ""
    """HTML; with a file it is the caption."""
    plain: str = ""
    media: Media | None = None
    path: Path | None = None
    data: bytes = b""
    """Content of the file, once it is read."""
    method: str = "message"
    """`photo` for `sendPhoto`."""
    buttons: tuple[Button, ...] = ()
    reply_to: str = ""
    silent: bool = False


def split_parts(message: OutgoingMessage, max_upload: int) -> tuple[MessagePart, ...]:
    """Split a message into the Telegram messages it needs; at least one. Short text becomes the
    caption of the first file, longer text precedes it. Raises `SendRefused` for files and buttons
    that Telegram does not accept."""
    check_buttons(message.buttons)
    files = []
    for media in message.media:
        path = open_upload(media, max_upload)
        files.append(MessagePart(media=media, path=path, method=send_method(media, path)))
    words = MessagePart(message.text, message.plain or message.text, buttons=message.buttons)
    if not files:
        parts = [words]
    elif not message.text or utf16_length(words.plain) <= MAX_CAPTION:
        first = msgspec.structs.replace(
            files[0], text=words.text, plain=words.plain, buttons=words.buttons
        )
        parts = [first, *files[1:]]
    else:
        parts = [words, *files]
    parts[0] = msgspec.structs.replace(parts[0], reply_to=message.reply_to)
    return tuple(msgspec.structs.replace(part, silent=message.silent) for part in parts)


def send_method(media: Media, path: Path) -> str:
    """Return the kind of message that shows a file best."""
    mime = media.mime or guess_mime(media.name or path.name)
    match media.kind:
        case "image" if mime in PHOTO_TYPES and path.stat().st_size <= MAX_PHOTO:
            return "photo"
        case "image" if mime == "image/gif":
            return "animation"
        case "voice" if Path(media.name or path.name).suffix.lower() in VOICE_EXTENSIONS:
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


def button_signature(buttons: Sequence[Button]) -> str:
    """Return a string that tells different buttons apart."""
    return "|".join(each.data for each in buttons)


def check_buttons(buttons: Sequence[Button]) -> None:
    for each in buttons:
        if not 0 < len(each.data.encode()) <= MAX_BUTTON_BYTES or not each.label.strip():
            raise SendRefused(f"Telegram does not accept the button {each.label!r}")


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 units, as Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class TelegramSender:
    def __init__(
        self,
        bot: Bot,
        journal: TelegramJournal,
        chats: TelegramChats,
        clock: Clock,
        max_upload: int,
    ) -> None:
        self._bot, self._journal, self._chats, self._clock = bot, journal, chats, clock
        self._max_upload = max_upload
        self._gates: dict[int, _SendGate] = {}

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        """Send all parts and return the id of the first. Parts delivered by an earlier attempt are
        not sent again."""
        parts = split_parts(message, self._max_upload)
        chat_id = await self._chats.resolve(target)
        async with self._gate(chat_id).sending():
            known = self._journal.sends.get(key)
            done = len(known.numbers) if known is not None and not known.is_complete else 0
            for part in parts[done:]:
                await self._send_part(chat_id, target, part, key, len(parts))
        sending = self._journal.sends[key]
        return format_message_id(sending.begun.chat_id, sending.numbers[0])

    @asynccontextmanager
    async def pause_sends(self, chat_id: int) -> AsyncIterator[None]:
        """Wait for running sends to the chat, and block new ones."""
        async with self._gate(chat_id).pause_sends():
            yield

    async def edit(self, target: ChatTarget, name: str, message: OutgoingMessage) -> None:
        check_buttons(message.buttons)
        # Use the chat of the id: numbers of a group start again when it becomes a supergroup.
        chat_id, number = (
            chat_of_message(name) or await self._chats.resolve(target),
            message_number(name),
        )
        where: dict[str, Any] = {
            "chat_id": chat_id,
            "message_id": number,
            "reply_markup": keyboard(message.buttons),
        }
        try:
            await self._edit(message.text, ParseMode.HTML, where, message.plain or message.text)
        except TelegramError as error:
            if not error_mentions(error, NOT_MODIFIED):
                raise map_error(error) from None

    async def _edit(self, text: str, mode: str | None, where: dict[str, Any], plain: str) -> None:
        try:
            await self._bot.edit_message_text(text=text, parse_mode=mode, **where)
        except BadRequest as error:
            if error_mentions(error, "there is no text in the message"):
                await self._bot.edit_message_caption(caption=text, parse_mode=mode, **where)
            elif mode and error_mentions(error, *PARSE_ERRORS):
                await self._edit(plain, None, where, plain)
            else:
                raise

    async def _send_part(
        self, chat_id: int, target: ChatTarget, part: MessagePart, key: str, parts: int
    ) -> None:
        part = await _load_file(part)
        after = self._journal.newest_number(chat_id)
        markup, now = button_signature(part.buttons), self._clock.now().timestamp()
        self._journal.record_start(BegunEntry(key, chat_id, after, now, parts, markup))
        try:
            sent = await self._send_with_fallbacks(chat_id, target, part)
        except ChatMigrated as error:
            self._journal.record_absent(key)
            if chat_id == error.new_chat_id:
                raise map_error(error) from None
            self._journal.record_move(chat_id, error.new_chat_id)
            await self._send_part(error.new_chat_id, target, part, key, parts)
        except TelegramError as error:
            failure = map_error(error)
            if not isinstance(failure, SendUnsure):
                self._journal.record_absent(key)
            raise failure from None
        else:
            self._journal.record_delivered(key, sent.message_id)

    async def _send_with_fallbacks(
        self, chat_id: int, target: ChatTarget, part: MessagePart
    ) -> Message:
        """Send the part as it is, or in the plainest form that Telegram accepts."""
        mode: str | None = ParseMode.HTML
        while True:
            try:
                return await self._call(chat_id, target, part, mode)
            except BadRequest as error:
                reasons, instead = FALLBACK_METHODS.get(part.method, ((), ""))
                if mode and error_mentions(error, *PARSE_ERRORS):
                    part, mode = msgspec.structs.replace(part, text=part.plain), None
                elif error_mentions(error, *reasons):
                    part = msgspec.structs.replace(part, method=instead)
                else:
                    raise

    async def _call(
        self, chat_id: int, target: ChatTarget, part: MessagePart, mode: str | None
    ) -> Message:
        here = chat_of_message(part.reply_to) in (chat_id, None)
        reply = message_number(part.reply_to) if here else 0
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

    def _gate(self, chat_id: int) -> "_SendGate":
        return self._gates.setdefault(chat_id, _SendGate())


class _SendGate:
    """Lets the sends of a chat run concurrently; `pause_sends` waits for them and blocks new
    ones."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()
        self._count = 0

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        async with self._lock:
            self._count += 1
            self._idle.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._idle.set()

    @asynccontextmanager
    async def pause_sends(self) -> AsyncIterator[None]:
        async with self._lock:
            await self._idle.wait()
            yield


class MessageOwner(Enum):
    OURS = "a message of ours, with these buttons"
    CHANGED = "a message of ours that had other buttons"
    OTHERS = "a message of another author"
    NOBODY = "not a message of this chat"


class DeliveryCheck:
    """Finds out whether an uncertain message was delivered.

    Telegram knows no key of ours and offers no chat history. It has message numbers that only grow,
    and `editMessageReplyMarkup`: setting the buttons a message already has changes nothing and
    answers "message is not modified" for our message, "message can't be edited" for another
    author's, and "message to edit not found" for a number that is not in the chat.

    1. The journal has Telegram's answer: the message was delivered under that id.
    2. The journal says that it was rejected or never left: it was not delivered.
    3. Otherwise every number is probed, from the newest one known before the send to the newest
       known now, and on until `MAX_GAP` numbers in a row are not in the chat. All pending updates
       are read first, so that the newest known number is current, and `settle` seconds must have
       passed since the send, so that a request still being processed has finished. Our messages in
       the journal do not count.
       - None of ours found: it was not delivered and may be sent again.
       - As many as there are uncertain messages in the chat: all were delivered, in order.
       - Any other count: `DeliveryUnknown`, and it is not sent again.

    Sending again after step 3 is safe: a delivered message has a number above the newest one known
    before. It could be missed only behind `MAX_GAP` unseen numbers that are not in the chat: that
    many messages deleted in a row in a supergroup, or that many messages in basic groups hidden
    from the bot. More than `MAX_NUMBERS` numbers are not probed: `DeliveryUnknown`.

    In a channel the bot may edit the posts of others, so they look like ours: `DeliveryUnknown`.

    A probe changes one of our messages if its buttons differ. That needs a second uncertain message
    with other buttons in the chat; when the journal has one, nothing is probed (`DeliveryUnknown`).
    It can happen only after the journal was lost.
    """

    def __init__(
        self,
        bot: Bot,
        journal: TelegramJournal,
        chats: TelegramChats,
        sender: TelegramSender,
        clock: Clock,
        catch_up: Callable[[], Awaitable[None]],
        settle: float,
    ) -> None:
        """`catch_up` returns when no update is pending; it raises `NotConnected`."""
        self._bot, self._journal, self._sender, self._clock = bot, journal, sender, clock
        self._chats, self._catch_up, self._settle = chats, catch_up, settle

    async def was_delivered(
        self, row: OutboxRow, target: ChatTarget, message: OutgoingMessage
    ) -> str | None:
        chat_id = await self._chats.resolve(target)
        async with self._sender.pause_sends(chat_id):
            sending = self._journal.sends.get(row.key)
            if sending is not None and not sending.open:
                return _delivered_id(sending)
            if sending is not None and sending.begun.chat_id != chat_id:
                raise DeliveryUnknown("the Telegram group became a supergroup while we wrote to it")
            after = _last_known_number(row, sending)
            doubts = self._uncertain_sends(chat_id, sending, message, after)
            after = min([after, *(each.begun.after for each in doubts if each is not sending)])
            await self._wait_until_settled(sending)
            await self._catch_up()
            buttons = message.buttons if sending is None or sending.begun.markup else ()
            if await self._is_channel(chat_id):
                raise DeliveryUnknown("in a Telegram channel we may edit what others posted too")
            found = await self._find_own_messages(chat_id, after, buttons)
            return self._decide(row.key, sending, doubts, found)

    def _uncertain_sends(
        self, chat_id: int, sending: JournaledSend | None, message: OutgoingMessage, after: int
    ) -> list[JournaledSend]:
        """Return the uncertain messages of the chat, including this one, except old ones with lower
        numbers, which can never be decided."""
        now = self._clock.now().timestamp()
        doubts = [
            each
            for each in self._journal.uncertain(chat_id)
            if each is sending or each.begun.after >= after or each.begun.at > now - STALE_SECONDS
        ]
        markup = sending.begun.markup if sending else button_signature(message.buttons)
        if any(each.begun.markup != markup for each in doubts):
            raise DeliveryUnknown("two messages with different buttons are uncertain in one chat")
        return doubts

    async def _wait_until_settled(self, sending: JournaledSend | None) -> None:
        if sending is not None:
            age = self._clock.now().timestamp() - sending.begun.at
            if 0 <= age < self._settle:
                await self._clock.sleep(self._settle - age)

    async def _find_own_messages(
        self, chat_id: int, after: int, buttons: Sequence[Button]
    ) -> list[int]:
        """Return the numbers of our messages that are not in the journal."""
        newest, known = self._journal.newest_number(chat_id), self._journal.own_numbers(chat_id)
        found: list[int] = []
        quiet, number = 0, after
        while quiet < MAX_GAP:
            number += 1
            if number - after > MAX_NUMBERS:
                raise DeliveryUnknown("too much was written since to find the message")
            owner = (
                MessageOwner.OTHERS
                if number in known
                else await self._probe_owner(chat_id, number, buttons)
            )
            if owner is MessageOwner.CHANGED:
                raise DeliveryUnknown("there is a message of ours that this gateway did not send")
            if owner is MessageOwner.OURS:
                found.append(number)
            quiet = quiet + 1 if owner is MessageOwner.NOBODY and number > newest else 0
        return found

    async def _probe_owner(
        self, chat_id: int, number: int, buttons: Sequence[Button]
    ) -> MessageOwner:
        markup = keyboard(buttons)
        for _ in range(3):
            try:
                await self._bot.edit_message_reply_markup(chat_id, number, reply_markup=markup)
            except BadRequest as error:
                return _owner_from_error(error)
            except TelegramRateLimited as error:
                if error.seconds > MAX_PAUSE:
                    raise SendLater("Telegram asks us to wait", seconds=error.seconds) from None
                await self._clock.sleep(error.seconds)
            except TelegramError as error:
                raise map_connect_error(error) from None
            else:
                return MessageOwner.CHANGED
        raise SendLater("Telegram asks us to wait")

    async def _is_channel(self, chat_id: int) -> bool:
        try:
            return (await self._bot.get_chat(chat_id)).type == ChatType.CHANNEL
        except TelegramError as error:
            raise map_connect_error(error) from None

    def _decide(
        self, key: str, sending: JournaledSend | None, doubts: list[JournaledSend], found: list[int]
    ) -> str | None:
        if not found:
            for each in doubts:
                self._journal.record_absent(each.begun.key)
            return None
        if sending is None or len(found) != len(doubts):
            raise DeliveryUnknown(f"{len(found)} messages of ours could be the uncertain one")
        for each, number in zip(doubts, found, strict=True):
            self._journal.record_delivered(each.begun.key, number)
        return _delivered_id(self._journal.sends[key])


async def _load_file(part: MessagePart) -> MessagePart:
    if part.path is None or part.data:
        return part
    try:
        data = await asyncio.to_thread(part.path.read_bytes)
    except OSError as error:
        raise SendRefused(f"{part.path.name} cannot be read: {error.strerror}") from error
    return msgspec.structs.replace(part, data=data)


def _owner_from_error(error: BadRequest) -> MessageOwner:
    if error_mentions(error, NOT_MODIFIED):
        return MessageOwner.OURS
    if error_mentions(error, "message can't be edited"):
        return MessageOwner.OTHERS
    if error_mentions(error, "not found", "message_id_invalid"):
        return MessageOwner.NOBODY
    raise DeliveryUnknown(f"Telegram does not say whose message it is: {error.message}")


def _delivered_id(sending: JournaledSend) -> str | None:
    """Return the message id; None when parts are missing: sending again sends only those."""
    if not sending.is_complete:
        return None
    return format_message_id(sending.begun.chat_id, sending.numbers[0])


def _last_known_number(row: OutboxRow, sending: JournaledSend | None) -> int:
    numbers = [message_number(row.after_id), sending.begun.after if sending else 0]
    after = max(numbers)
    if not after:
        raise DeliveryUnknown("nothing is known about the chat before the message was sent")
    return after
