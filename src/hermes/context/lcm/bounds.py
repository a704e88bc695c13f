"""Which messages stay word for word."""

from collections.abc import Sequence

from hermes.context.lcm.placing import Split, placed
from hermes.context.lcm.units import CEILING, Limits, Plan, Unit, tokens_of, units_of
from hermes.core.messages import Message, System

LEAST_TAIL = 3
"""Messages that stay in any case."""
LEAST_SHARE = 0.05
"""A middle that is a smaller part of the conversation is not worth a compaction."""


def make_plan(
    messages: Sequence[Message],
    sizes: Sequence[int],
    limits: Limits,
    head_end: int,
    request: int,
) -> Plan | None:
    """None when nothing is worth compacting. The head ends before message `head_end`, where notes
    stood before. `request` is the newest message of the user, -1 when there is none."""
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
    return placed(split, limits)


def _request_unit(units: Sequence[Unit], request: int, limits: Limits) -> int | None:
    for number, unit in enumerate(units):
        if unit.start == request and unit.tokens <= limits.request_tokens:
            return number
    return None


def _head(
    units: Sequence[Unit],
    messages: Sequence[Message],
    limits: Limits,
    head_end: int,
    asked: int | None,
) -> int:
    """How many units the head has."""
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


def _tail_start(units: Sequence[Unit], head: int, limits: Limits) -> int:
    by_budget = _walk_back(units, head, tokens=limits.tail_tokens, count=LEAST_TAIL)
    by_count = _walk_back(units, head, tokens=0, count=limits.last)
    if tokens_of(units[by_count:]) <= CEILING * limits.tail_tokens:
        return min(by_budget, by_count)
    return by_budget


def _walk_back(units: Sequence[Unit], head: int, *, tokens: int, count: int) -> int:
    """The first of the last units that have so many tokens, and at least `count` messages."""
    start, used, seen = len(units), 0, 0
    while start > head and (seen < count or used + units[start - 1].tokens <= tokens):
        start -= 1
        used += units[start].tokens
        seen += len(units[start])
    return start
