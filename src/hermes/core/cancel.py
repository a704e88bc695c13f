"""One token that stops a turn: it reaches every model call and every tool."""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TypeVar

from hermes.core.errors import Interrupted

T = TypeVar("T")


class CancelToken:
    """Stops everything that was given this token.

    Work that awaits does so inside `scope` (or through `guard` and `iterate`): when the token is
    set, the await is cancelled and `Interrupted` is raised in its place, as `asyncio.timeout` does
    with `TimeoutError`. An item of a stream therefore costs no extra task.
    """

    def __init__(self) -> None:
        self._waiting: list[asyncio.Task[object]] = []
        self._set = False
        self.reason = ""

    @property
    def cancelled(self) -> bool:
        return self._set

    def cancel(self, reason: str = "stopped by the user") -> None:
        """Stop everything under this token. Call it in the event loop's own thread."""
        if self._set:
            return
        self._set, self.reason = True, reason
        for task in self._waiting:
            loop = task.get_loop()
            if asyncio.current_task(loop) is task:
                # The work that waits set the token itself and may end without another await.
                loop.call_soon(self._cancel_waiting, task)
            else:
                task.cancel()

    def _cancel_waiting(self, task: asyncio.Task[object]) -> None:
        if task in self._waiting:
            task.cancel()

    def check(self) -> None:
        if self._set:
            raise Interrupted(self.reason)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Within it, setting the token raises `Interrupted` in the current task."""
        self.check()
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("CancelToken.scope() needs a running task")
        before = task.cancelling()
        self._waiting.append(task)
        try:
            yield
        except asyncio.CancelledError:
            if self._set and task.uncancel() <= before:
                raise Interrupted(self.reason) from None
            raise
        finally:
            self._waiting.remove(task)

    async def guard(self, work: Awaitable[T]) -> T:
        """Return the result of `work`. Raises `Interrupted` as soon as the token is set."""
        if self._set and isinstance(work, Coroutine):
            work.close()  # It never begins, and Python would warn that it was not awaited.
        with self.scope():
            return await work
