"""A clock for adapters under test."""

from hermes.util.concurrency import SystemClock


class Hasty(SystemClock):
    """Does not wait long for anything."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.02))
