"""The engine of an open store: one writer thread and up to four reader threads."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from hermes.core.errors import StoreError
from hermes.store.backend import Backend, Database
from hermes.store.writer import JobResult, StoreJob, Writer, deliver

T = TypeVar("T")
Work = Callable[[Database], T]

MAX_READERS = 4


class ReaderPool:
    """Threads that read for event loops, so that a long search does not block a loop.

    Threads are started as needed, up to `MAX_READERS`. This is not an executor, because the
    futures of an executor cost a tenth of a millisecond more for each read.
    """

    def __init__(self, read: Callable[[Work[Any]], Any]) -> None:
        self._read = read
        self._jobs: queue.SimpleQueue[StoreJob | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._active = 0
        self._closed = False

    def submit_from_loop(self, work: Work[T]) -> "asyncio.Future[T]":
        """Return a future of the result of `work`, which must not write."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        with self._lock:
            if self._closed:
                raise StoreError("the session store is closed")
            self._active += 1
            if self._active > len(self._threads) < MAX_READERS:
                thread = threading.Thread(target=self._run, name="store-read", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._jobs.put(StoreJob(work, done, loop))
        return done

    def close(self) -> None:
        """Finish the submitted jobs and end the threads."""
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, []
        for _ in threads:
            self._jobs.put(None)
        for thread in threads:
            thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            result = self._run_job(job)
            with self._lock:
                self._active -= 1
            deliver([result])

    def _run_job(self, job: StoreJob) -> JobResult:
        if not job.is_wanted():
            return JobResult(job)
        try:
            return JobResult(job, self._read(job.work))
        except Exception as error:  # noqa: BLE001 - every error belongs to the waiting caller
            return JobResult(job, error=error)


class Engine:
    """Runs work on a database. It opens the database at the first use.

    Any thread may use it. Readers do not wait for each other, and the writer does not wait for
    readers.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._writer = Writer(backend)
        self._readers = ReaderPool(self.read)
        self._lock = threading.Lock()
        self._idle: list[Database] = []
        self._closed = False

    def write(self, work: Callable[[Database], T]) -> Future[T]:
        """Return a future of the result of `work`, set after the commit. `work` may run more than
        once."""
        return self._writer.submit(work)

    def write_from_loop(
        self, work: Callable[[Database], T], *, is_small: bool
    ) -> "asyncio.Future[T]":
        """`write` for a coroutine. Small work may run in the event loop itself."""
        is_quick = is_small and self.backend.is_local
        return self._writer.submit_from_loop(work, is_small=is_quick)

    def read(self, work: Callable[[Database], T]) -> T:
        """Return the result of `work`, which must not write."""
        try:
            result: T = self.backend.with_retries(lambda: self._read(work))
        except self.backend.errors as error:
            raise self.backend.as_store_error(error) from error
        return result

    def read_from_loop(self, work: Callable[[Database], T]) -> "asyncio.Future[T]":
        """`read` for a coroutine."""
        return self._readers.submit_from_loop(work)

    def _read(self, work: Callable[[Database], T]) -> T:
        database = self._acquire()
        try:
            return work(database)
        finally:
            self._release(database)

    def close(self) -> None:
        """Finish pending writes and close all connections. Further calls have no effect."""
        self._writer.close()
        self._readers.close()
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for database in idle:
            database.close()

    def _acquire(self) -> Database:
        while True:
            with self._lock:
                if self._closed:
                    raise StoreError("the session store is closed")
                database = self._idle.pop() if self._idle else None
            if database is None:
                return self.backend.connect()
            if not self.backend.is_stale(database):
                return database
            database.close()

    def _release(self, database: Database) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(database)
                return
        database.close()
