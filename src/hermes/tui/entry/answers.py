"""Lists that may take their time to be made, for a menu that may not."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

import msgspec

from hermes.tui.entry.offers import Offer, Shelf
from hermes.util.threads import in_thread

PATIENCE = 0.05
"""Seconds that a list is waited for when there is no older one."""
FRESH = 5.0
"""Seconds after which it is asked for again."""

MOST_KNOWN = 64
"""Lists that are kept."""

Source = Callable[[], Sequence[Offer]]
"""Called in a thread."""

_log = logging.getLogger(__name__)


class _Known(msgspec.Struct, frozen=True):
    shelf: Shelf
    at: float


class Answers:
    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.patience = PATIENCE
        self._known: dict[str, _Known] = {}
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._given_up: set[str] = set()
        self.news: Callable[[], None] = lambda: None
        """Called when a list has come that nobody waits for any more."""

    async def of(self, name: str, source: Source) -> Shelf:
        """What is known, at once; while it is old a new list is on its way."""
        known = self._known.get(name)
        if known is not None and self._now() - known.at < FRESH:
            return known.shelf
        task = self._asked.get(name)
        if task is None:
            task = self._asked[name] = asyncio.create_task(self._ask(name, source))
        if known is None:
            await asyncio.wait((task,), timeout=self.patience)
            known = self._known.get(name)
        if not task.done():
            self._given_up.add(name)
        return known.shelf if known else Shelf(())

    async def _ask(self, name: str, source: Source) -> None:
        before = self._known.get(name)
        shelf = await in_thread(_shelf, name, source, before.shelf if before else Shelf(()))
        self._known[name] = _Known(shelf, self._now())
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        del self._asked[name]
        if name in self._given_up:
            self._given_up.discard(name)
            if before is None or shelf is not before.shelf:
                self.news()


def _shelf(name: str, source: Source, before: Shelf) -> Shelf:
    """The one of before when nothing has changed."""
    try:
        offers = tuple(source())
    except Exception as error:  # noqa: BLE001 - a list that fails costs its entries in the menu
        _log.warning("no completions for %s: %s", name or "commands", error)
        return before
    return before if offers == before.offers else Shelf(offers)
