"""What the documented functions share in a process: a home, an event loop, plugins, models."""

import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hermes.app import Extensions, Providers, opened_store
from hermes.config.home import Home, current_home
from hermes.config.loader import Loaded, load
from hermes.core.errors import UsageError
from hermes.store import SessionStore
from hermes.util.concurrency import LoopThread, SystemClock

T = TypeVar("T")
THREAD = "hermes-documented"


class ScriptRuntime:
    """Created for a home when a documented function first needs it, with the settings of that
    moment. `hermes run` closes it; elsewhere it ends with the process."""

    def __init__(self, home: Home) -> None:
        self.home: Home = home
        self.loaded: Loaded = load(home)
        self._loop = LoopThread(THREAD)
        self._own_extensions: Extensions | None = None
        self._providers: Providers | None = None
        self.on_close: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Called in the event loop, in this order."""

    def run(self, work: Coroutine[Any, Any, T], stop: Callable[[], object] = bool) -> T:
        """Wait for `work` and return its result. Ctrl-C calls `stop` in the event loop."""
        if threading.current_thread().name == THREAD:
            work.close()
            raise UsageError(
                "this function waits for the event loop it is called in",
                hint="call it from code that is not async, or with asyncio.to_thread",
            )
        return self._loop.run(work, lambda: self._loop.call_soon(stop))

    def with_store(self, work: Callable[[SessionStore], Coroutine[Any, Any, T]]) -> T:
        """Run `work` on the store of the home, which is open only for this call."""

        async def run() -> T:
            async with opened_store(self.home, self.loaded.settings.store.url, tell) as store:
                return await work(store)

        return self.run(run())

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
        for close in self.on_close:
            await close()
        if self._own_extensions is not None:
            await self._own_extensions.close()
        if self._providers is not None:
            await self._providers.close()


_runtimes: dict[Home, ScriptRuntime] = {}


def script_runtime() -> ScriptRuntime:
    """Return the runtime of the current home."""
    home = current_home()
    if home not in _runtimes:
        _runtimes[home] = ScriptRuntime(home)
    return _runtimes[home]


def close_all() -> None:
    while _runtimes:
        _runtimes.popitem()[1].close()


def tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


class TextProgress:
    """A `Progress` that prints messages, but no percentages."""

    def __init__(self, write: Callable[[str], object] = tell) -> None:
        self._write = write

    def say(self, text: str) -> None:
        self._write(text)

    def report(self, label: str, done: int, total: int) -> None:
        """Do nothing: progress is reported too often for lines of text."""
