"""Sends and edits. Each send is noted before and after, so that a crash leaves a trace of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from telegram import Bot, Message, ReplyParameters
from telegram.constants import ParseMode
from telegram.error import BadRequest, ChatMigrated, TelegramError

from hermes.core.ports import Clock
from hermes.gateway.events import Outgoing, Target
from hermes.gateway.platforms.base import SendRefused, SendUnsure
from hermes.gateway.platforms.telegram.chats import Chats
from hermes.gateway.platforms.telegram.failures import of_call, says
from hermes.gateway.platforms.telegram.journal import Begun, Journal
from hermes.gateway.platforms.telegram.naming import chat_in, message_name, number_of, send_thread
from hermes.gateway.platforms.telegram.parts import (
    Part,
    check_buttons,
    keyboard,
    markup_of,
    parts_of,
)

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

    async def send(self, target: Target, message: Outgoing, key: str) -> str:
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

    async def edit(self, target: Target, name: str, message: Outgoing) -> None:
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
        self, chat_id: int, target: Target, part: Part, key: str, parts: int
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

    async def _formatted(self, chat_id: int, target: Target, part: Part) -> Message:
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

    async def _call(self, chat_id: int, target: Target, part: Part, mode: str | None) -> Message:
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
