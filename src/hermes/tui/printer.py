"""Finished lines on their way to the terminal, a few frames a second at most."""

import asyncio
from collections.abc import Callable, Iterable

from hermes.tui.area import Area

INTERVAL = 0.03
"""Seconds between frames while lines pour in. The first line of a burst does not wait."""


class Printer:
    """Prints above the area. Called in the event loop's thread."""

    def __init__(self, area: Area, *, before: Callable[[], None] = lambda: None) -> None:
        """`before` is called ahead of each frame that new lines or `refresh` cause."""
        self._area, self._before = area, before
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stale = False
        self._next = 0.0

    def lines(self, lines: Iterable[str]) -> None:
        self._lines += lines
        self.refresh()

    def refresh(self, *, at_once: bool = False) -> None:
        """Something in the area has changed."""
        self._stale = True
        if at_once:
            self.flush()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            wait = self._next - loop.time()
            if wait <= 0:
                self.flush()
            else:
                self._timer = loop.call_later(wait, self.flush)

    def flush(self) -> None:
        """Everything is on the terminal when this returns."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._next = asyncio.get_running_loop().time() + INTERVAL
        self._before()
        if self._lines:
            text = "".join(f"{line}\n" for line in self._lines)
            self._lines.clear()
            self._area.print_above(text)
        elif self._stale:
            self._area.draw()
        self._stale = False
