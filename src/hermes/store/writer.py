"""Writes to the store: one transaction at a time per process, with group commit.

A thread runs the writes. Writes that wait at the same moment share one transaction, and each caller
gets its result after the commit. Handing a small write to the thread and its result back costs as
much as the write itself. So a single small write from an event loop runs inline, in the loop, if
nothing else is queued; it waits neither for a lock nor for the disk.
"""

import asyncio
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from hermes.core.errors import StoreError
from hermes.store.backend import Backend, Database


class StoreJob(NamedTuple):
    """Work for a thread, and the future that gets its result."""

    work: Callable[[Database], Any]
    """May run more than once, each time in a new transaction, so it must have no side effects."""
    done: "Future[Any] | asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop | None = None
    """The loop of `done`, if it is an asyncio future."""
    is_small: bool = False  #: Takes a fraction of a millisecond.

    def is_wanted(self) -> bool:
        """Return False if the caller has cancelled. Call it once, before the work."""
        if isinstance(self.done, Future):
            return self.done.set_running_or_notify_cancel()
        return not self.done.cancelled()


class JobResult(NamedTuple):
    job: StoreJob
    result: Any = None
    error: Exception | None = None

    def set(self) -> None:
        """Set the future. Must be called in its event loop."""
        if self.job.done.cancelled():
            return
        if self.error is None:
            self.job.done.set_result(self.result)
        else:
            self.job.done.set_exception(self.error)


def deliver(results: Iterable[JobResult]) -> None:
    """Set the futures of jobs, from any thread. Each event loop is woken only once."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[JobResult]] = defaultdict(list)
    for result in results:
        if result.job.loop is None:
            result.set()
        else:
            by_loop[result.job.loop].append(result)
    for loop, some in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, and no caller is left in it
            loop.call_soon_threadsafe(_set_all, some)


def _set_all(results: list[JobResult]) -> None:
    for result in results:
        result.set()


T = TypeVar("T")
Work = Callable[[Database], T]

GROUP_LIMIT = 256
MAX_INLINE_WRITES = 49
"""After this many the thread gets the next one, so that it can do the maintenance that follows a
commit and may wait for the disk."""


class Writer:
    """Runs write jobs. The thread starts with the first job; if the store cannot be opened, the
    next job tries again."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._jobs: queue.SimpleQueue[StoreJob | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        """Held while assigning a job to the thread or to the event loop."""
        self._writing = threading.Lock()  #: Held while writing.
        self._submitted: defaultdict[asyncio.AbstractEventLoop, list[StoreJob]] = defaultdict(list)
        """The jobs that each event loop submitted in its current iteration."""
        self._inline_writes = 0
        self._queued = 0  #: Unfinished jobs of the thread. An inline write must not overtake them.
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ending = False
        self._database: Database | None = None

    def submit(self, work: Work[T]) -> "Future[T]":
        """Return a future of the result of `work`, done once it is committed."""
        done: Future[T] = Future()
        with self._lock:
            self._refuse_closed()
            self._enqueue(StoreJob(work, done))
        return done

    def submit_from_loop(self, work: Work[T], *, is_small: bool) -> "asyncio.Future[T]":
        """`submit` for a coroutine. The jobs of one iteration of the loop form a group, and their
        results arrive with one wake-up of the loop."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        with self._lock:
            self._refuse_closed()
            submitted = self._submitted[loop]
            submitted.append(StoreJob(work, done, loop, is_small))
            if len(submitted) == 1:
                loop.call_soon(self._start_jobs, loop)
        return done

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError("the session store is closed")

    def _start_jobs(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the jobs of one iteration of the loop."""
        with self._lock:
            jobs = self._submitted.pop(loop, [])
            alone = len(jobs) == 1 and jobs[0].is_small and not self._queued
            if not alone or not self._writing.acquire(blocking=False):
                for job in jobs:
                    self._enqueue(job)
                return
        result = None
        try:
            result = self._run_inline(jobs[0])
        finally:
            self._writing.release()
        if result is not None:
            result.set()
        else:
            with self._lock:
                self._enqueue(jobs[0])

    def _run_inline(self, job: StoreJob) -> JobResult | None:
        """Run a small job in the event loop. Return None if the thread has to run it."""
        database = self._database
        if (
            database is None
            or self._inline_writes >= MAX_INLINE_WRITES
            or self._backend.is_stale(database)
            or not job.is_wanted()
        ):
            return None
        try:
            with self._backend.transaction(database, waits=False):
                result = job.work(database)
        except Exception as error:  # noqa: BLE001 - every error belongs to the waiting caller
            if self._backend.is_busy(error):
                return None
            return JobResult(job, error=self._backend.as_store_error(error))
        self._inline_writes += 1
        return JobResult(job, result)

    def _enqueue(self, job: StoreJob) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="store-write", daemon=True)
            self._thread.start()
        self._queued += 1
        self._jobs.put(job)

    def close(self) -> None:
        """Finish the submitted jobs and end the thread."""
        with self._lock:
            self._closed = True
            for jobs in self._submitted.values():
                for job in jobs:
                    self._enqueue(job)
            self._submitted.clear()
            thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            thread.join()

    def _run(self) -> None:
        while group := self._next_group():
            with self._writing:
                self._commit(group)
            self._finished(len(group))
        with self._writing:
            self._disconnect()

    def _finished(self, count: int) -> None:
        with self._lock:
            self._queued -= count

    def _next_group(self) -> list[StoreJob]:
        """Wait for a job and return it with all others that are queued; empty if closed."""
        group: list[StoreJob] = []
        while not self._ending and len(group) < GROUP_LIMIT:
            try:
                job = self._jobs.get(block=not group)
            except queue.Empty:
                break
            if job is None:
                self._ending = True
            elif job.is_wanted():
                group.append(job)
            else:
                self._finished(1)
        return group

    def _commit(self, group: Sequence[StoreJob]) -> None:
        """Commit the group and deliver the results. If a job fails, the others run without it."""
        try:
            results = self._backend.with_retries(lambda: self._transaction(group))
        except Exception as error:  # noqa: BLE001 - every error belongs to the waiting caller
            self._fail(group, error)
            return
        deliver(JobResult(job, result) for job, result in zip(group, results, strict=True))
        if self._database is not None:
            written, self._inline_writes = len(group) + self._inline_writes, 0
            self._backend.after_writes(self._database, written)

    def _fail(self, group: Sequence[StoreJob], error: Exception) -> None:
        if len(group) > 1 and not self._backend.is_busy(error):
            for job in group:
                self._commit([job])
            return
        store_error = self._backend.as_store_error(error)
        deliver(JobResult(job, error=store_error) for job in group)

    def _transaction(self, group: Sequence[StoreJob]) -> list[Any]:
        if self._database is not None and self._backend.is_stale(self._database):
            self._disconnect()
        if self._database is None:
            self._database = self._backend.connect()
        with self._backend.transaction(self._database):
            return [job.work(self._database) for job in group]

    def _disconnect(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()
