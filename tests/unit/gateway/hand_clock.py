"""A clock that tests move: sleepers wake in order when their time has come."""

import asyncio
import heapq
import itertools
from datetime import UTC, datetime


class HandClock:
    def __init__(self, time: float = 1_000_000.0) -> None:
        self.time = time
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.time + seconds, next(self._numbers), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Let time pass, and let everybody who wakes do their work before more of it passes."""
        end = self.time + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, future = heapq.heappop(self._sleepers)
            if future.done():
                continue
            self.time = max(self.time, due)
            future.set_result(None)
            await settle()
        self.time = end


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
