"""A store in use: one writer, and a connection for each reader at work."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from hermes.core.errors import StoreError
from hermes.store.readers import Readers
from hermes.store.sql import Backend, Database
from hermes.store.writer import Writer

T = TypeVar("T")


class Engine:
    """Opened by the first use. Any thread may use it; readers do not wait for one another, nor
    does the writer wait for them."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._writer = Writer(backend)
        self._readers = Readers(self.read)
        self._gate = threading.Lock()
        self._idle: list[Database] = []
        self._closed = False

    def write(self, work: Callable[[Database], T]) -> Future[T]:
        """The result of `work`, once it is committed. `work` may run more than once."""
        return self._writer.submit(work)

    def write_from_loop(
        self, work: Callable[[Database], T], *, is_small: bool
    ) -> "asyncio.Future[T]":
        """`write` for a coroutine. A small one may be done right here."""
        is_quick = is_small and self.backend.is_on_this_machine
        return self._writer.submit_from_loop(work, is_small=is_quick)

    def read(self, work: Callable[[Database], T]) -> T:
        """The result of `work`, which must not write."""
        try:
            result: T = self.backend.patiently(lambda: self._read(work))
        except self.backend.errors as error:
            raise self.backend.as_store_error(error) from error
        return result

    def read_from_loop(self, work: Callable[[Database], T]) -> "asyncio.Future[T]":
        """`read` for a coroutine."""
        return self._readers.submit_from_loop(work)

    def _read(self, work: Callable[[Database], T]) -> T:
        database = self._take()
        try:
            return work(database)
        finally:
            self._give_back(database)

    def close(self) -> None:
        """Finish pending writes and let go of the store. May be called again."""
        self._writer.close()
        self._readers.close()
        with self._gate:
            self._closed = True
            idle, self._idle = self._idle, []
        for database in idle:
            database.close()

    def _take(self) -> Database:
        while True:
            with self._gate:
                if self._closed:
                    raise StoreError("the session store is closed")
                database = self._idle.pop() if self._idle else None
            if database is None:
                return self.backend.connect()
            if not self.backend.is_stale(database):
                return database
            database.close()

    def _give_back(self, database: Database) -> None:
        with self._gate:
            if not self._closed:
                self._idle.append(database)
                return
        database.close()
