"""One token that stops a turn: it reaches every model call and every tool."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
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

    async def iterate(self, items: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """Yield the items of `items` until the token is set; `items` is always closed."""
        async with aclosing(items):
            while True:
                with self.scope():
                    try:
                        item = await anext(items)
                    except StopAsyncIteration:
                        return
                yield item
