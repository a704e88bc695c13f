"""A store in use: one writer, and a connection for each reader at work."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from hermes.core.errors import StoreError
from hermes.store.backend import Backend, Database
from hermes.store.writer import Answer, Job, Writer, give

# The threads that read for an event loop, so that a long search does not hold it up.

T = TypeVar("T")
Work = Callable[[Database], T]

MOST = 4


class Readers:
    """Threads are started as they are needed, up to `MOST`. An executor would do, but its futures
    cost a tenth of a millisecond more for each read."""

    def __init__(self, read: Callable[[Work[Any]], Any]) -> None:
        self._read = read
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._at_work = 0
        self._closed = False

    def submit_from_loop(self, work: Work[T]) -> "asyncio.Future[T]":
        """The result of `work`, which must not write."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        with self._gate:
            if self._closed:
                raise StoreError("the session store is closed")
            self._at_work += 1
            if self._at_work > len(self._threads) < MOST:
                thread = threading.Thread(target=self._run, name="store-read", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._jobs.put(Job(work, done, loop))
        return done

    def close(self) -> None:
        """Finish what was submitted and end the threads."""
        with self._gate:
            self._closed = True
            threads, self._threads = self._threads, []
        for _ in threads:
            self._jobs.put(None)
        for thread in threads:
            thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            answer = self._answer(job)
            with self._gate:
                self._at_work -= 1
            give([answer])

    def _answer(self, job: Job) -> Answer:
        if not job.is_wanted():
            return Answer(job)
        try:
            return Answer(job, self._read(job.work))
        except Exception as error:  # noqa: BLE001 - whatever went wrong belongs to the waiting caller
            return Answer(job, error=error)


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
