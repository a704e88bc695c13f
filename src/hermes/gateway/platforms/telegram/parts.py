"""One message of the gateway as the messages that Telegram needs for it."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from telegram import InlineKeyboardButton, InlineKeyboardMarkup

from hermes.gateway.events import Button, Media, Outgoing
from hermes.gateway.platforms.base import SendRefused
from hermes.gateway.platforms.kit.media import mime_of, to_upload

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


def parts_of(message: Outgoing, max_upload: int) -> tuple[Part, ...]:
    """At least one. Words go beside the first file when they are short enough, else before it.
    Raises `SendRefused` for files and buttons that Telegram would not take."""
    check_buttons(message.buttons)
    files = []
    for media in message.media:
        path = to_upload(media, max_upload)
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
    mime = media.mime or mime_of(media.name or path.name)
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
