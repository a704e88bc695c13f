"""Which messages are kept at the start and at the end."""

from collections.abc import Sequence

import msgspec

from hermes.context.compressor.options import CompressionOptions, Sizes
from hermes.context.compressor.reading import calls_of, group_end, group_start
from hermes.context.compressor.summary_message import is_summary
from hermes.context.compressor.user_words import latest_request
from hermes.context.engine import Dicts

LEAST_TAIL = 3


class Bounds(msgspec.Struct, frozen=True):
    head: int
    """How many messages are kept at the start."""
    tail: int
    """The first message that is kept at the end."""
    request: int
    """The last message of the user; -1 when there is none. It may lie anywhere."""


def find_bounds(
    messages: Dicts, costs: Sequence[int], sizes: Sizes, options: CompressionOptions
) -> Bounds:
    """`costs` are the tokens of each message. An earlier summary is never in the head or tail."""
    summaries = [index for index, message in enumerate(messages) if is_summary(message)]
    request = latest_request(messages)
    head = group_end(messages, min(options.protect_first_n, len(messages)))
    if summaries:
        head = min(head, summaries[0])
    tail = _tail(messages, costs, sizes, options.protect_last_n)
    if 0 <= request < tail and sum(costs[request:]) <= sizes.ceiling:
        tail = request
    tail = max([tail, *(index + 1 for index in summaries)])
    tail = _not_after_user(messages, costs, head, tail, sizes)
    return Bounds(_not_ending_with_user(messages, head), tail, request)


def _tail(messages: Dicts, costs: Sequence[int], sizes: Sizes, protect_last_n: int) -> int:
    """The budget decides; `protect_last_n` messages are kept when they are small enough."""
    by_count = max(0, len(messages) - max(protect_last_n, LEAST_TAIL))
    start, spent = len(messages), 0
    while start > 0 and spent < sizes.tail and spent + costs[start - 1] <= sizes.ceiling:
        start -= 1
        spent += costs[start]
    if sum(costs[by_count:]) <= sizes.ceiling:
        start = min(start, by_count)
    start = min(start, max(0, len(messages) - LEAST_TAIL))
    begin, end = group_start(messages, start), group_end(messages, start)
    if sum(costs[begin:]) > sizes.ceiling and len(messages) - end >= LEAST_TAIL:
        return end  # the whole group is too much, and without it enough is left
    return begin


def _not_after_user(
    messages: Dicts, costs: Sequence[int], head: int, tail: int, sizes: Sizes
) -> int:
    """The summary has the user's role. A tail that begins with the user takes in what the
    assistant did before, if that is small and something is left to sum up."""
    if tail >= len(messages) or messages[tail]["role"] != "user" or tail - 1 <= head:
        return tail
    start = group_start(messages, tail - 1)
    small = sum(costs[start:tail]) <= sizes.tail // 2 and sum(costs[head:start]) >= sizes.least
    assistant = messages[start]["role"] == "assistant" and not is_summary(messages[start])
    whole = bool(calls_of(messages[start])) or start == tail - 1
    return start if start > head and small and assistant and whole else tail


def _not_ending_with_user(messages: Dicts, head: int) -> int:
    while head > 1 and messages[head - 1]["role"] == "user":
        head -= 1
    return head
