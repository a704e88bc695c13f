"""How long a call may take, and how long it may bring nothing new."""

import asyncio
from types import TracebackType
from typing import Self

from hermes.core.errors import StreamStalled


class Watch:
    """Raises `StreamStalled` in the task that waits for a reply which takes too long.

    There is one timer for the whole call, not one for each chunk: when it fires, it looks whether
    time is really up. While the consumer of the reply is busy with its own work (between `pause`
    and `resume`) the clock stands still, and nothing is ever raised there.
    """

    def __init__(self, provider: str, whole: float, stale: float) -> None:
        """`whole` seconds for everything, `stale` seconds without anything new."""
        self._provider, self._whole, self._stale = provider, whole, stale
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        """Whoever waits for us; None while we wait for him."""
        self._cancelling = 0
        self._complaint = ""

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._stopped_at = self._loop.time()
        self._end = self._stopped_at + self._whole
        self.resume()
        return self

    def news(self) -> None:
        """Something new has come."""
        self._news_at = self._loop.time()

    def pause(self) -> None:
        self._task = None
        self._stopped_at = self._loop.time()

    def resume(self) -> None:
        now = self._news_at = self._loop.time()
        self._end += now - self._stopped_at
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        if self._timer is None:
            self._timer = self._loop.call_at(self._due(), self._fire)

    def _due(self) -> float:
        return min(self._end, self._news_at + self._stale)

    def _fire(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if self._loop.time() < (due := self._due()):
            self._timer = self._loop.call_at(due, self._fire)
            return
        late = self._loop.time() >= self._end
        self._complaint = (
            f"{self._provider} did not finish its reply within {self._whole:g} s"
            if late
            else f"{self._provider} sent nothing new for {self._stale:g} s"
        )
        self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._complaint or self._task is None:
            return
        ours = self._task.uncancel() <= self._cancelling
        if ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            hint = "try again; `timeouts` in config.yaml holds the limits"
            raise StreamStalled(self._complaint, provider=self._provider, hint=hint) from error
