"""Work on the store without holding up the event loop."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hermes.core.errors import StoreError
from hermes.store.engine import Engine
from hermes.store.sql import Database

T = TypeVar("T")

READERS = 4


class Access:
    def __init__(self, engine: Engine, now: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._now = now
        self._reads = ThreadPoolExecutor(READERS, thread_name_prefix="store-read")
        self._closed = False

    def close(self) -> None:
        """Finish pending writes and let go of the store. May be called again."""
        self._closed = True
        self._reads.shutdown(wait=True)
        self._engine.close()

    async def write(self, work: Callable[[Database], T], *, is_small: bool = False) -> T:
        """The result of `work`, once it is committed. A small one takes a fraction of a
        millisecond."""
        return await self._engine.write_from_loop(work, is_small=is_small)

    async def read(self, work: Callable[[Database], T]) -> T:
        if self._closed:
            raise StoreError("the session store is closed")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reads, self._engine.read, work)
