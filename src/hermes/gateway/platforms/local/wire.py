"""What goes over the socket of a local platform: one JSON object a line, told apart by `op`.

Whoever connects says `hello` first, as the gateway or as a person. A request with a number `n` gets
an `answer` with the same number.
"""

import asyncio
from typing import Any, Literal

import msgspec

from hermes.gateway.events import Button, ChatType, MediaKind

MAX_LINE = 16 * 1024 * 1024


class Attached(msgspec.Struct, frozen=True):
    """A file that a person sends: where it is on this machine."""

    kind: MediaKind
    path: str
    name: str = ""
    mime: str = ""


class Said(msgspec.Struct, frozen=True, tag_field="op", tag="said", omit_defaults=True):
    """A message of a person, or a button they pressed."""

    id: str
    chat: str
    user: str
    text: str = ""
    chat_type: ChatType = "dm"
    thread: str = ""
    reply_to: str = ""
    reply_text: str = ""
    reply_to_us: bool = False
    files: tuple[Attached, ...] = ()
    bot: bool = False
    button: str = ""
    at: float = 0.0


class Shown(msgspec.Struct, frozen=True, tag_field="op", tag="shown", omit_defaults=True):
    """A message of the gateway as people see it."""

    id: str
    chat: str
    text: str
    key: str = ""
    """What the gateway calls it. Twice the same key means that it was sent twice."""
    thread: str = ""
    reply_to: str = ""
    media: tuple[str, ...] = ()
    buttons: tuple[Button, ...] = ()
    edits: int = 0
    at: float = 0.0


class Edited(msgspec.Struct, frozen=True, tag_field="op", tag="edited"):
    id: str
    text: str


class Kept(msgspec.Struct, frozen=True, tag_field="op", tag="kept"):
    """The gateway has a message of a person; it does not come again."""

    id: str


class NotKept(msgspec.Struct, frozen=True, tag_field="op", tag="not_kept"):
    """The gateway could not keep it; it comes again."""

    id: str


class Hello(msgspec.Struct, frozen=True, tag_field="op", tag="hello"):
    n: int = 0
    role: Literal["gateway", "person"] = "person"
    token: str = ""


class Send(msgspec.Struct, frozen=True, tag_field="op", tag="send", omit_defaults=True):
    n: int
    chat: str
    text: str
    key: str
    thread: str = ""
    reply_to: str = ""
    media: tuple[str, ...] = ()
    buttons: tuple[Button, ...] = ()


class Edit(msgspec.Struct, frozen=True, tag_field="op", tag="edit"):
    n: int
    id: str
    text: str


class Find(msgspec.Struct, frozen=True, tag_field="op", tag="find"):
    """Was the message with this key shown? The answer's value is its id or null."""

    n: int
    key: str


class Typing(msgspec.Struct, frozen=True, tag_field="op", tag="typing"):
    n: int
    chat: str


class React(msgspec.Struct, frozen=True, tag_field="op", tag="react"):
    n: int
    id: str
    emoji: str
    on: bool = True


class Chats(msgspec.Struct, frozen=True, tag_field="op", tag="chats"):
    """The answer's value: a list of [chat, type]."""

    n: int


class Ping(msgspec.Struct, frozen=True, tag_field="op", tag="ping"):
    n: int


class Say(msgspec.Struct, frozen=True, tag_field="op", tag="say"):
    """A person writes. The answer's value is the id of the message."""

    chat: str
    user: str
    text: str = ""
    n: int = 0
    chat_type: ChatType = "dm"
    thread: str = ""
    reply_to: str = ""
    files: tuple[Attached, ...] = ()
    bot: bool = False


class Press(msgspec.Struct, frozen=True, tag_field="op", tag="press"):
    """A person presses a button of a message."""

    id: str
    data: str
    user: str
    n: int = 0


class Look(msgspec.Struct, frozen=True, tag_field="op", tag="look"):
    """The answer's value: the messages of the gateway in a chat, or in all."""

    n: int = 0
    chat: str = ""


class Watch(msgspec.Struct, frozen=True, tag_field="op", tag="watch"):
    """From now on every message that is shown or edited comes over this connection."""

    n: int = 0


class Answer(msgspec.Struct, frozen=True, tag_field="op", tag="answer", omit_defaults=True):
    n: int
    value: Any = None
    error: str = ""
    seconds: float = 0.0


Request = (
    Hello
    | Kept
    | NotKept
    | Send
    | Edit
    | Find
    | Typing
    | React
    | Chats
    | Ping
    | Say
    | Press
    | Look
    | Watch
)
News = Answer | Said | Shown
Recorded = Said | Kept | Shown | Edited
"""A line of the journal."""

_encoder = msgspec.json.Encoder()


async def write(writer: asyncio.StreamWriter, frame: msgspec.Struct) -> None:
    writer.write(line(frame))
    await writer.drain()


def line(frame: msgspec.Struct) -> bytes:
    return _encoder.encode(frame) + b"\n"
