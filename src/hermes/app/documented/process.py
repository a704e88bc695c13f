"""What the documented functions share in a process: a home, an event loop, plugins, models."""

import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hermes.app.extensions import Extensions
from hermes.app.providers import Providers
from hermes.config.home import Home, current_home
from hermes.config.loader import Loaded, load
from hermes.core.errors import UsageError
from hermes.util.clock import SystemClock
from hermes.util.loop_thread import LoopThread

T = TypeVar("T")
THREAD = "hermes-documented"


class Process:
    """Made for one home when a documented function first needs it. The settings are those of that
    moment. `hermes run` closes it; elsewhere whatever it started ends with this process."""

    def __init__(self, home: Home) -> None:
        self.home: Home = home
        self.loaded: Loaded = load(home)
        self._loop = LoopThread(THREAD)
        self._own_extensions: Extensions | None = None
        self._providers: Providers | None = None
        self.at_end: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Called in the loop before the rest is closed."""

    def run(self, work: Coroutine[Any, Any, T], stop: Callable[[], object] = bool) -> T:
        """The result of `work`. Ctrl-C calls `stop` in the loop's thread."""
        if threading.current_thread().name == THREAD:
            work.close()
            raise UsageError(
                "this function waits for the event loop it is called in",
                hint="call it from code that is not async, or with asyncio.to_thread",
            )
        return self._loop.run(work, lambda: self._loop.tell(stop))

    @property
    def extensions(self) -> Extensions:
        """The plugins of the conversation in this process; without one they are loaded here."""
        if in_force := Extensions.in_force():
            return in_force
        if self._own_extensions is None:
            self._own_extensions = Extensions(self.home, self.loaded, tell)
        return self._own_extensions

    @property
    def providers(self) -> Providers:
        if self._providers is None:
            self._providers = Providers(self.home, self.loaded, SystemClock(), TextProgress())
        return self._providers

    def close(self) -> None:
        self._loop.run(self._close())
        self._loop.close()

    async def _close(self) -> None:
        for ending in self.at_end:
            await ending()
        if self._own_extensions is not None:
            await self._own_extensions.close()
        if self._providers is not None:
            await self._providers.close()


_made: dict[Home, Process] = {}


def process() -> Process:
    """That of the home in force."""
    home = current_home()
    if home not in _made:
        _made[home] = Process(home)
    return _made[home]


def close_all() -> None:
    """End whatever documented functions started."""
    while _made:
        _made.popitem()[1].close()


def tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


class TextProgress:
    """A `Progress` that prints messages, but no percentages."""

    def report(self, label: str, done: int, total: int) -> None:
        """Do nothing: progress is reported too often for lines of text."""

    def say(self, text: str) -> None:
        tell(text)
