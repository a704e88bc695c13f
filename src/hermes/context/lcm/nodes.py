"""The nodes of the DAG and what their ids are made of."""

import hashlib
import re
from collections.abc import Iterable, Sequence

import msgspec

from hermes.core.messages import Assistant, Image, Message, ToolResult, User
from hermes.util.text import clean

ID_DIGITS = 8
CHECK_DIGITS = 6

_RUN = re.compile(rf"(~?)(\d+)-(\d+)/([0-9a-f]{{{CHECK_DIGITS}}})")


class Run(msgspec.Struct, frozen=True):
    """Neighbouring messages by their positions in the log, the last one included."""

    first: int
    last: int
    check: str
    """Of their content, so that another message is never taken for one of them."""
    aside: bool = False
    """They are in no log; the positions are those of the engine's own copies."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{'~' if self.aside else ''}{self.first}-{self.last}/{self.check}"

    @classmethod
    def parse(cls, text: str) -> "Run | None":
        match = _RUN.fullmatch(text)
        if match is None or int(match[2]) > int(match[3]):
            return None
        return cls(int(match[2]), int(match[3]), match[4], aside=bool(match[1]))


class Node(msgspec.Struct, frozen=True):
    """A note: a leaf has `runs`, an inner node `children`."""

    id: str
    text: str
    runs: tuple[Run, ...] = ()
    children: tuple[str, ...] = ()


def fingerprint(message: Message) -> bytes:
    """Of what was said; how it came about (thoughts, finish reason) and what no store can hold do
    not count."""
    parts = map(clean, (message.role, *_essence(message)))
    return hashlib.sha256("\0".join(parts).encode()).digest()[:16]


def _essence(message: Message) -> Iterable[str]:
    if isinstance(message, User):
        return [part.url if isinstance(part, Image) else part.text for part in message.parts]
    if isinstance(message, Assistant):
        calls = (text for call in message.calls for text in (call.id, call.name, call.arguments))
        return (message.text, *calls)
    if isinstance(message, ToolResult):
        return (message.call_id, message.text)
    return (message.text,)


def check_of(prints: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(prints)).hexdigest()[:CHECK_DIGITS]


def leaf_id(prints: Iterable[bytes]) -> str:
    return hashlib.sha256(b"leaf" + b"".join(prints)).hexdigest()[:ID_DIGITS]


def inner_id(children: Sequence[str]) -> str:
    return hashlib.sha256(f"inner {' '.join(children)}".encode()).hexdigest()[:ID_DIGITS]
