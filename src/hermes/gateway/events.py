"""What comes in from a platform and what goes out to it."""

from typing import Literal

import msgspec

ChatType = Literal["dm", "group", "channel"]
MediaKind = Literal["image", "voice", "audio", "video", "document"]


class SessionSource(msgspec.Struct, frozen=True):
    """Where a message comes from and who wrote it, as the platform itself says. Nothing in here is
    ever taken from the text of a message."""

    platform: str
    chat_id: str
    """Under which its conversation is known."""
    chat_type: ChatType = "dm"
    user_id: str = ""
    user_name: str = ""
    chat_name: str = ""
    thread_id: str = ""
    account: str = ""
    """Which of our accounts got it; "" when there is only one."""
    is_bot: bool = False
    """Another program wrote it."""
    roles: tuple[str, ...] = ()
    """Ids of the roles the platform says the writer has there, where it has such a thing."""
    chat_now: str = ""
    """The id that the chat has now, when the platform gave it another one."""


class Media(msgspec.Struct, frozen=True):
    """A file that came with a message, or is to go with one."""

    kind: MediaKind
    name: str = ""
    mime: str = ""
    size: int = 0
    """Bytes, as far as known."""
    ref: str = ""
    """How the adapter finds it on the platform."""
    path: str = ""
    """Where it is on this machine, once it is."""


class MessageEvent(msgspec.Struct, frozen=True):
    source: SessionSource
    message_id: str
    """The platform's name for it, unique in the account: one that comes twice is taken once."""
    text: str = ""
    media: tuple[Media, ...] = ()
    reply_to_id: str = ""
    reply_to_text: str = ""
    addressed: bool = False
    """It mentions us, answers us, or is in a private chat."""
    sent_at: float = 0.0
    button: str = ""
    """The data of the button that was pressed, when it is no message."""


class Button(msgspec.Struct, frozen=True):
    label: str
    data: str
    """Comes back in `MessageEvent.button`; at most 60 bytes of ASCII."""


class Outgoing(msgspec.Struct, frozen=True):
    """One message that fits the platform, in its own format."""

    text: str = ""
    """In the dialect of the manifest."""
    plain: str = ""
    """The same without formatting, for when the platform refuses `text`."""
    media: tuple[Media, ...] = ()
    buttons: tuple[Button, ...] = ()
    reply_to: str = ""
    """The message it answers; "" for none."""
    silent: bool = False
    """Nobody's telephone rings."""
    subject: str = ""
    """Of mail; "" keeps that of the thread."""
    mirrored: str = ""
    """What the conversation of the chat is to know of it once it is there; no adapter shows it."""


class Target(msgspec.Struct, frozen=True):
    """Where a message goes."""

    platform: str
    chat_id: str
    thread_id: str = ""
    account: str = ""
