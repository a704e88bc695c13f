"""Work on the store without holding up the event loop."""

import time
from collections.abc import Callable
from typing import TypeVar

from hermes.store.engine import Engine
from hermes.store.sql import Database

T = TypeVar("T")


class Access:
    def __init__(self, engine: Engine, now: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._now = now

    def close(self) -> None:
        """Finish pending writes and let go of the store. May be called again."""
        self._engine.close()

    async def write(self, work: Callable[[Database], T], *, is_small: bool = False) -> T:
        """The result of `work`, once it is committed. A small one takes a fraction of a
        millisecond."""
        return await self._engine.write_from_loop(work, is_small=is_small)

    async def read(self, work: Callable[[Database], T]) -> T:
        return await self._engine.read_from_loop(work)
