"""Sends and edits messages."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, Message, ReplyParameters
from telegram.constants import ParseMode
from telegram.error import BadRequest, ChatMigrated, TelegramError

from hermes.sdk.platforms import (
    Button,
    ChatTarget,
    Media,
    OutgoingMessage,
    SendLater,
    SendRefused,
    guess_mime,
    open_upload,
    remember,
)
from hermes_plugins.platforms.telegram.client import (
    MovedEntry,
    TelegramChats,
    TelegramState,
    chat_of_message,
    error_mentions,
    format_message_id,
    message_number,
    send_thread,
    translate_send_errors,
)

MAX_CAPTION = 1024  #: UTF-16 units of visible text.
MAX_PHOTO = 10_000_000
MAX_BUTTON_BYTES = 64  #: Bytes of the data of a button.
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
MAX_UNFINISHED = 200  #: Incomplete messages whose delivered parts are remembered.


class MessagePart(msgspec.Struct, frozen=True):
    text: str = ""  #: HTML; with a file it is the caption.
    plain: str = ""
    media: Media | None = None
    path: Path | None = None
    data: bytes = b""  #: Content of the file, once it is read.
    method: str = "message"  #: `photo` for `sendPhoto`.
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


def check_buttons(buttons: Sequence[Button]) -> None:
    for each in buttons:
        if not 0 < len(each.data.encode()) <= MAX_BUTTON_BYTES or not each.label.strip():
            raise SendRefused(f"Telegram does not accept the button {each.label!r}")


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 units, as Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class TelegramSender:
    def __init__(self, bot: Bot, state: TelegramState, chats: TelegramChats, limit: int) -> None:
        self._bot, self._state, self._chats, self._max_upload = bot, state, chats, limit
        self._delivered: dict[str, list[str]] = {}
        """Ids of the delivered parts of messages that are not complete, by key."""

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        """Send all parts and return the id of the first. After `SendLater` only the missing parts
        are sent again; an uncertain message is sent again as a whole, because of its mark."""
        parts = split_parts(message, self._max_upload)
        chat_id = await self._chats.resolve(target)
        ids = self._delivered.pop(key, [])
        try:
            for part in parts[len(ids) :]:
                ids.append(await self._send_part(chat_id, target, part))
        except SendLater:
            remember(self._delivered, key, ids, MAX_UNFINISHED)
            raise
        return ids[0]

    async def edit(self, target: ChatTarget, name: str, message: OutgoingMessage) -> None:
        check_buttons(message.buttons)
        # Use the chat of the id: numbers of a group start again when it becomes a supergroup.
        where: dict[str, Any] = {
            "chat_id": chat_of_message(name) or await self._chats.resolve(target),
            "message_id": message_number(name),
            "reply_markup": keyboard(message.buttons),
        }
        with translate_send_errors():
            try:
                await self._edit(message.text, ParseMode.HTML, where, message.plain or message.text)
            except TelegramError as error:
                if not error_mentions(error, NOT_MODIFIED):
                    raise

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

    async def _send_part(self, chat_id: int, target: ChatTarget, part: MessagePart) -> str:
        part, chat_id = await _load_file(part), self._state.current_chat(chat_id)
        with translate_send_errors():
            try:
                sent = await self._send_with_fallbacks(chat_id, target, part)
            except ChatMigrated as error:
                self._state.record(MovedEntry(chat_id, error.new_chat_id))
                chat_id = error.new_chat_id
                sent = await self._send_with_fallbacks(chat_id, target, part)
        return format_message_id(chat_id, sent.message_id)

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


async def _load_file(part: MessagePart) -> MessagePart:
    if part.path is None or part.data:
        return part
    try:
        data = await asyncio.to_thread(part.path.read_bytes)
    except OSError as error:
        raise SendRefused(f"{part.path.name} cannot be read: {error.strerror}") from error
    return msgspec.structs.replace(part, data=data)
