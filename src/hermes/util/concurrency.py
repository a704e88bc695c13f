"""Threads, event loops, lock files and the clock."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from hermes.util.files import file_lock

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return the result of a function that blocks, run in a thread of its own.

    Unlike with `asyncio.to_thread`, a cancelled caller leaves the thread behind at once, and the
    program does not wait for it at its end: a function that never returns blocks nothing.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[R] = loop.create_future()

    def settle(give: Callable[[Any], None], outcome: Any) -> None:
        if not done.done():
            give(outcome)

    def work() -> None:
        give: Callable[[Any], None] = done.set_result
        try:
            outcome: Any = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is awaited
            if isinstance(error, StopIteration | SystemExit | KeyboardInterrupt):
                # A future cannot hold the first, and the others would end the event loop.
                error = RuntimeError(f"{type(error).__name__}: {error}")
            give, outcome = done.set_exception, error
        try:
            loop.call_soon_threadsafe(settle, give, outcome)
        except RuntimeError:  # the loop is closed: no task waits any more
            return

    threading.Thread(target=work, name=f"hermes-{function.__name__}", daemon=True).start()
    return await done


T = TypeVar("T")
PATIENCE = 5  #: Seconds for cancelled work to end.


class LoopThread:
    """Runs coroutines one after another or concurrently, from any other thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], stop: Callable[[], object] = bool) -> T:
        """Return the result of `work`. Ctrl-C calls `stop` and gives `work` a moment to end."""
        future = self.submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            stop()
            wait({future}, PATIENCE)
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` without waiting for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call `function` in the loop's thread, without waiting."""
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """Stop the thread. It may be called again."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC).astimezone()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_session: ContextVar[str] = ContextVar("hermes_session", default="")


def current_session() -> str:
    return _session.get()


@contextmanager
def in_session(session_id: str) -> Iterator[None]:
    """Add `session_id` to every record logged in the block, also by tasks started in it."""
    token = _session.set(session_id)
    try:
        yield
    finally:
        _session.reset(token)


POLL_SECONDS = 0.05


@asynccontextmanager
async def async_file_lock(
    path: Path, seconds: float, on_wait: Callable[[], None] = lambda: None
) -> AsyncIterator[None]:
    """Hold the lock file; `on_wait` is called once if another process holds it.

    Raises `TimeoutError` after `seconds`, and `OSError`.
    """
    loop = asyncio.get_running_loop()
    deadline, waited = loop.time() + seconds, False
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(file_lock(path, 0))
                break
            except TimeoutError:
                if loop.time() >= deadline:
                    raise
                if not waited:
                    on_wait()
                waited = True
                await asyncio.sleep(POLL_SECONDS)
        yield
