"""Where compacted messages are: in the log of the conversation, else in copies of our own."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from hermes.context.engine import Dicts
from hermes.context.lcm.nodes import Node, Run, check_of, fingerprint
from hermes.context.lcm.notes import Notes, notes_in
from hermes.core.messages import Message
from hermes.core.openai_format import from_dict

History = Callable[[], Dicts]

MOST_ALIKE = 200
"""Equal messages of the log that are considered for one of the context."""


class Held(NamedTuple):
    """A compacted message. `key` tells it from every other one, however many nodes have it."""

    key: tuple[bool, int]
    message: Message


class Archive:
    """The log as it is now, with copies (`aside`) of messages that are not in it."""

    def __init__(self, history: History | None, aside: Iterable[Message] = ()) -> None:
        self._log: Dicts = history() if history is not None else []
        self.aside = list(aside)

    @cached_property
    def notes(self) -> dict[int, Notes]:
        """The compactions in the log, by position."""
        found = ((position, notes_in(each)) for position, each in enumerate(self._log))
        return {position: notes for position, notes in found if notes is not None}

    @cached_property
    def _prints(self) -> list[bytes]:
        return [fingerprint(from_dict(each)) for each in self._log]

    def nodes(self) -> Iterator[Node]:
        """Those of every compaction in the log, oldest first."""
        for notes in self.notes.values():
            yield from notes.nodes

    def find(self, messages: Sequence[Message]) -> list[int | None]:
        """The position of each message of a context in the log; None for one that is not there."""
        positions = [each for each in range(len(self._log)) if each not in self.notes]
        placed = align(
            [fingerprint(message) for message in messages],
            [self._prints[position] for position in positions],
        )
        return [None if place is None else positions[place] for place in placed]

    def keep(self, messages: Sequence[Message], positions: Sequence[int | None]) -> tuple[Run, ...]:
        """The runs these messages are in. Those without a position are copied aside."""
        runs: list[tuple[bool, list[int], list[bytes]]] = []
        for message, position in zip(messages, positions, strict=True):
            aside = position is None
            if position is None:
                position = len(self.aside)
                self.aside.append(message)
            if not runs or runs[-1][0] != aside or runs[-1][1][-1] != position - 1:
                runs.append((aside, [], []))
            runs[-1][1].append(position)
            runs[-1][2].append(fingerprint(message))
        return tuple(
            Run(places[0], places[-1], check_of(prints), aside) for aside, places, prints in runs
        )

    def read(self, run: Run) -> list[Held] | None:
        """The messages of a run; None when they are nowhere any more."""
        if run.aside:
            copies = self.aside[run.first : run.last + 1]
            if check_of(map(fingerprint, copies)) == run.check:
                return [Held((True, run.first + n), copy) for n, copy in enumerate(copies)]
        start = self._start(run)
        if start is None:
            return None
        found = self._log[start : start + len(run)]
        return [Held((False, start + n), from_dict(each)) for n, each in enumerate(found)]

    def _start(self, run: Run) -> int | None:
        """Where the run begins: where it says, else wherever the same messages are now. A branch
        of a conversation that went on, say, has them elsewhere."""
        there = self._log[run.first : run.last + 1]
        if not run.aside and check_of(fingerprint(from_dict(m)) for m in there) == run.check:
            return run.first
        for start in range(len(self._log) - len(run) + 1):
            if check_of(self._prints[start : start + len(run)]) == run.check:
                return start
        return None


def align(these: Sequence[bytes], log: Sequence[bytes]) -> list[int | None]:
    """For each of `these` its place in `log`, in order: as many as possible, the latest ones."""
    placed: list[int | None] = [None] * len(these)
    rest, end = len(these), len(log)
    while rest and end and these[rest - 1] == log[end - 1]:
        rest, end = rest - 1, end - 1
        placed[rest] = end
    for index, place in _longest_common(these[:rest], log[:end]):
        placed[index] = place
    return placed


class _Link(NamedTuple):
    number: int
    place: int
    later: "_Link | None"


def _longest_common(these: Sequence[bytes], log: Sequence[bytes]) -> Iterable[tuple[int, int]]:
    """The pairs of a longest common subsequence (Hunt and Szymanski), from the end backwards."""
    places: dict[bytes, list[int]] = defaultdict(list)
    for place, print_ in enumerate(log):
        places[print_].append(place)
    best: list[int] = []
    """For each length the (negated) place of the earliest pair; the later it is, the better."""
    links: list[_Link] = []
    for index in range(len(these) - 1, -1, -1):
        for place in places.get(these[index], ())[-MOST_ALIKE:]:
            size = bisect_left(best, -place)
            link = _Link(index, place, links[size - 1] if size else None)
            best[size : size + 1], links[size : size + 1] = [-place], [link]
    link_now = links[-1] if links else None
    while link_now is not None:
        yield link_now.number, link_now.place
        link_now = link_now.later
