"""An event loop in a thread of its own, for callers that are not async."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import wait
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE = 5
"""Seconds for work that was told to stop."""


class LoopThread:
    """Runs coroutines one after another or side by side, from any other thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], stop: Callable[[], object] = bool) -> T:
        """The result of `work`. Ctrl-C calls `stop` and gives `work` a moment to end."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            stop()
            wait({future}, PATIENCE)
            future.cancel()
            raise

    def tell(self, function: Callable[[], object]) -> None:
        """Call `function` in the loop's thread, without waiting."""
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """May be called again."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()
