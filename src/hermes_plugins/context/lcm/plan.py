"""Decides which messages stay word for word."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from hermes.sdk import Assistant, Message, System, ToolResult, User

CEILING = 1.5  #: Factor by which the tail may exceed its budget, to keep the request with its work.

T = TypeVar("T")


class PlanLimits(msgspec.Struct, frozen=True):
    tail_tokens: int
    first: int  #: Messages of the head.
    last: int  #: Messages of the tail, unless they are far too long.
    request_tokens: int
    """A longer request is compacted like any other message when it lies too far back."""


class MessageUnit(msgspec.Struct, frozen=True):
    """Messages that stay together: a tool-call group, or one message. `start` ≤ index < `stop`."""

    start: int
    stop: int
    tokens: int

    def __len__(self) -> int:
        return self.stop - self.start


def of_units(items: Sequence[T], units: Iterable[MessageUnit]) -> list[T]:
    return [item for unit in units for item in items[unit.start : unit.stop]]


def contains(units: Iterable[MessageUnit], index: int) -> bool:
    return any(unit.start <= index < unit.stop for unit in units)


class CompactionPlan(msgspec.Struct, frozen=True):
    head: tuple[MessageUnit, ...]
    middle: tuple[MessageUnit, ...]  #: To be compacted.
    tail: tuple[MessageUnit, ...]
    role: str  #: Of the message between head and tail.
    joined: bool = False
    """That message has to take in the first of the tail, a message of the user."""


def units_of(messages: Sequence[Message], sizes: Sequence[int]) -> Iterator[MessageUnit]:
    start = 0
    for stop in range(1, len(messages) + 1):
        if stop == len(messages) or not isinstance(messages[stop], ToolResult):
            yield MessageUnit(start, stop, sum(sizes[start:stop]))
            start = stop


def tokens_of(units: Iterable[MessageUnit]) -> int:
    return sum(unit.tokens for unit in units)


# Place the notes so that two messages of one role never follow each other.


class Split(msgspec.Struct, frozen=True):
    units: Sequence[MessageUnit]
    messages: Sequence[Message]
    head: int
    start: int
    pinned: tuple[int, ...]
    """Units of the middle that stay in front of the tail: the request, and what precedes it."""
    asked: int | None

    def plan(self, role: str, *, joined: bool = False) -> CompactionPlan:
        middle = [
            unit
            for number, unit in enumerate(self.units[self.head : self.start], self.head)
            if number not in self.pinned
        ]
        tail = (*(self.units[number] for number in self.pinned), *self.units[self.start :])
        return CompactionPlan(tuple(self.units[: self.head]), tuple(middle), tail, role, joined)

    def takes(self, role: str) -> bool:
        """Return whether notes of that role fit there without an equal neighbour."""
        before = self.messages[self.units[self.head - 1].stop - 1] if self.head else None
        first = self.pinned[0] if self.pinned else self.start
        after = self.messages[self.units[first].start] if first < len(self.units) else None
        if role == "user":
            return not isinstance(before, User) and not isinstance(after, User)
        # A conversation does not begin with an answer.
        fits = isinstance(before, User | ToolResult)
        return fits and not isinstance(after, Assistant)


def place_notes(split: Split, limits: PlanLimits) -> CompactionPlan:
    """Return the plan with a role for the notes, preferably the user's.

    Two messages of one role never follow each other: more of the tail is kept, or less of the head
    or the tail, or the request becomes part of the notes.
    """
    wider = list(_wider_tails(split, limits))
    tries = [(each, role) for role in ("user", "assistant") for each in wider]
    others = (*_shorter_heads(split), *_shorter_tails(split), *_with_answer(split, limits))
    tries += [(each, role) for each in others for role in ("user", "assistant")]
    found = next((each.plan(role) for each, role in tries if each.takes(role)), None)
    return found or _joined(split)


def _joined(split: Split) -> CompactionPlan:
    last = split.head - 1
    if last >= 0 and isinstance(split.messages[split.units[last].start], User):
        split = msgspec.structs.replace(split, head=last, pinned=(last, *split.pinned))
    return split.plan("user", joined=True)


def _with_answer(split: Split, limits: PlanLimits) -> Iterator[Split]:
    """Yield the split that also keeps the short message before a pinned request."""
    before = split.pinned[0] - 1 if split.pinned else -1
    if before < split.head or split.units[before].tokens > limits.tail_tokens // 2:
        return
    wider = msgspec.structs.replace(split, pinned=(before, *split.pinned))
    if wider.plan("user").middle:
        yield wider


def _wider_tails(split: Split, limits: PlanLimits) -> Iterator[Split]:
    yield split
    if split.pinned:
        return
    for start in range(split.start - 1, split.head, -1):
        if tokens_of(split.units[start:]) > CEILING * limits.tail_tokens:
            return
        yield msgspec.structs.replace(split, start=start)


def _shorter_heads(split: Split) -> Iterator[Split]:
    for head in range(split.head - 1, 0, -1):
        if isinstance(split.messages[split.units[head].start], System) or head == split.asked:
            return
        yield msgspec.structs.replace(split, head=head)


def _shorter_tails(split: Split) -> Iterator[Split]:
    if not split.pinned and split.asked is not None:
        for start in range(split.start + 1, split.asked + 1):
            yield msgspec.structs.replace(split, start=start)


LEAST_TAIL = 3  #: Messages that stay in any case.
LEAST_SHARE = 0.05
"""A middle that is a smaller part of the conversation is not worth a compaction."""


def make_plan(
    messages: Sequence[Message],
    sizes: Sequence[int],
    limits: PlanLimits,
    head_end: int,
    request: int,
) -> CompactionPlan | None:
    """Return the plan, or None if nothing is worth compacting.

    The head ends before message `head_end`, where earlier notes were. `request` is the index of the
    newest message of the user, -1 if there is none.
    """
    units = list(units_of(messages, sizes))
    asked = _request_unit(units, request, limits)
    head = _head(units, messages, limits, head_end, asked)
    start = _tail_start(units, head, limits)
    pinned: tuple[int, ...] = ()
    if asked is not None and head <= asked < start:
        # The request stays. The work on it since then stays as well unless it is too long.
        if tokens_of(units[asked:]) <= CEILING * limits.tail_tokens:
            start = asked
        else:
            pinned = (asked,)
    split = Split(units, messages, head, start, pinned, asked)
    if tokens_of(split.plan("user").middle) <= LEAST_SHARE * sum(sizes):
        return None
    return place_notes(split, limits)


def _request_unit(units: Sequence[MessageUnit], request: int, limits: PlanLimits) -> int | None:
    for number, unit in enumerate(units):
        if unit.start == request and unit.tokens <= limits.request_tokens:
            return number
    return None


def _head(
    units: Sequence[MessageUnit],
    messages: Sequence[Message],
    limits: PlanLimits,
    head_end: int,
    asked: int | None,
) -> int:
    """Return the number of units of the head."""
    head = count = 0
    while head < len(units) and count < limits.first and units[head].start < head_end:
        count += len(units[head])
        head += 1
    system = sum(isinstance(messages[unit.start], System) for unit in units[:head])
    # A first exchange that would fill the context is compacted like any other.
    while (
        head > system
        and asked != head - 1
        and tokens_of(units[system:head]) > CEILING * limits.tail_tokens
    ):
        head -= 1
    return head


def _tail_start(units: Sequence[MessageUnit], head: int, limits: PlanLimits) -> int:
    by_budget = _walk_back(units, head, tokens=limits.tail_tokens, count=LEAST_TAIL)
    by_count = _walk_back(units, head, tokens=0, count=limits.last)
    if tokens_of(units[by_count:]) <= CEILING * limits.tail_tokens:
        return min(by_budget, by_count)
    return by_budget


def _walk_back(units: Sequence[MessageUnit], head: int, *, tokens: int, count: int) -> int:
    """Return the start of the last units with at most `tokens`, but at least `count` messages."""
    start, used, seen = len(units), 0, 0
    while start > head and (seen < count or used + units[start - 1].tokens <= tokens):
        start -= 1
        used += units[start].tokens
        seen += len(units[start])
    return start
