"""Watching the output of a background command for lines, without flooding whoever is told."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from hermes.terminal.output import cut_line, plain

LONGEST_LINE = 8_192
"""Bytes of a line that are looked at."""
SHOWN = 500
"""Characters of a matching line that are told."""


class WatchLimits(msgspec.Struct, frozen=True):
    seconds: float = 10
    """At most one match of a process is told in this time; the others are counted."""
    flood: int = 20
    """Matches held back in that time that make it a flood."""
    floods: int = 3
    """After so many in a row the watch is switched off."""


class Watch:
    """Tells of each line that contains one of `patterns`, once, and not too often."""

    def __init__(
        self,
        patterns: Sequence[str],
        limits: WatchLimits,
        matched: Callable[[str], None],
        muted: Callable[[str], None],
    ) -> None:
        self.patterns = tuple(pattern for pattern in patterns if pattern)
        self._limits, self._matched, self._muted = limits, matched, muted
        self._line = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._held_back = 0
        self._latest = ""
        self._floods = 0

    def add(self, data: bytes) -> None:
        if not self.patterns:
            return
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._collect(line)
            self._look()
        self._collect(rest)

    def end(self) -> None:
        """No more comes: the last line counts, and what was held back is told."""
        self._look()
        if self._held_back:
            self._tell()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _collect(self, data: bytes) -> None:
        self._line += data[: LONGEST_LINE - len(self._line)]

    def _look(self) -> None:
        line = plain(self._line.decode("utf-8", "replace"))
        self._line.clear()
        if not any(pattern in line for pattern in self.patterns):
            return
        self._latest = cut_line(line, SHOWN)
        self._held_back += 1
        if self._timer is None:
            self._tell()

    def _tell(self) -> None:
        """The latest line, with the number of those that were held back before it."""
        before = self._held_back - 1
        self._held_back = 0
        note = f"\n[{before} more matching lines before this one]" if before else ""
        self._timer = asyncio.get_running_loop().call_later(self._limits.seconds, self._time_is_up)
        self._matched(self._latest + note)

    def _time_is_up(self) -> None:
        self._timer = None
        self._floods = self._floods + 1 if self._held_back >= self._limits.flood else 0
        if self._floods >= self._limits.floods:
            self.patterns, self._held_back = (), 0
            self._muted(f"too many lines match, the watch is off; the latest: {self._latest}")
        elif self._held_back:
            self._tell()
