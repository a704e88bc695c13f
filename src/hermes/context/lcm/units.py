"""What a plan for a compaction is made of."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from hermes.core.messages import Message, ToolResult

CEILING = 1.5
"""How far the tail may exceed its budget for a good reason."""

T = TypeVar("T")


class Limits(msgspec.Struct, frozen=True):
    tail_tokens: int
    first: int
    """Messages of the head."""
    last: int
    """Messages of the tail, unless they are far too long."""
    request_tokens: int
    """A longer request is compacted like any other message when it lies too far back."""


class Unit(msgspec.Struct, frozen=True):
    """Messages that stay together: a tool-call group, or one message. `start` ≤ index < `stop`."""

    start: int
    stop: int
    tokens: int

    def __len__(self) -> int:
        return self.stop - self.start


def of_units(items: Sequence[T], units: Iterable[Unit]) -> list[T]:
    return [item for unit in units for item in items[unit.start : unit.stop]]


def holds(units: Iterable[Unit], index: int) -> bool:
    return any(unit.start <= index < unit.stop for unit in units)


class Plan(msgspec.Struct, frozen=True):
    head: tuple[Unit, ...]
    middle: tuple[Unit, ...]
    """To be compacted."""
    tail: tuple[Unit, ...]
    role: str
    """Of the message between head and tail."""
    joined: bool = False
    """That message has to take in the first of the tail, a message of the user."""


def units_of(messages: Sequence[Message], sizes: Sequence[int]) -> Iterator[Unit]:
    start = 0
    for stop in range(1, len(messages) + 1):
        if stop == len(messages) or not isinstance(messages[stop], ToolResult):
            yield Unit(start, stop, sum(sizes[start:stop]))
            start = stop


def tokens_of(units: Iterable[Unit]) -> int:
    return sum(unit.tokens for unit in units)
