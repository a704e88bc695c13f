"""A clock that only moves when it is reported to."""

import asyncio
from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)


class HandClock:
    """Sleeping moves it, and so does `pass_`."""

    def __init__(self, start: datetime = NOON) -> None:
        self._start, self._passed = start, 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed)

    @property
    def time(self) -> float:
        return self.now().timestamp()

    def monotonic(self) -> float:
        return self._passed

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.pass_(seconds)
        await asyncio.sleep(0)

    def pass_(self, seconds: float) -> None:
        self._passed += seconds
