"""The engine of an open store: one writer thread and up to four reader threads.

`Database` and `Backend` are what it needs of a database. Statements are written in the SQL that
SQLite and PostgreSQL share, with `?` for a value; `Backend` covers what differs.
"""

import asyncio
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from hermes.core.errors import StoreError
from hermes.store.records import Candidate, SearchRequest, StoreSizes

if TYPE_CHECKING:
    from hermes.store.search import Query

T = TypeVar("T")
Row = tuple[Any, ...]
Progress = Callable[[int, int], None]  #: Called with the number of steps done and the total.


def ignore_progress(_done: int, _total: int) -> None:
    """A `Progress` that does nothing."""


class Database(Protocol):
    """One connection, used by one thread at a time."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return all rows of its result."""
        ...

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement that changes rows and return how many it changed."""
        ...

    def close(self) -> None: ...


class Backend(Protocol):
    """The operations that differ between the databases."""

    where: str  #: The file or the address (without its password), for messages.
    is_local: bool  #: True if a small write takes a fraction of a millisecond.
    errors: tuple[type[Exception], ...]  #: The exceptions of the database driver.

    def connect(self) -> Database:
        """Open a connection; create, migrate or repair the store first if needed. Raises
        `StoreError`."""
        ...

    def is_stale(self, database: Database) -> bool:
        """Return whether the connection no longer leads to the store and must be replaced."""
        ...

    def transaction(
        self, database: Database, *, waits: bool = True
    ) -> AbstractContextManager[None]:
        """Return a write transaction, committed if the block succeeds and rolled back otherwise.
        With `waits=False` it fails at once if another process holds the store."""
        ...

    def with_retries(self, work: Callable[[], Any]) -> Any:
        """Run `work`, repeating it for a while as long as other processes hold the store."""
        ...

    def as_store_error(self, error: Exception) -> Exception:
        """Return the `StoreError` for a driver error, or `error` itself if it is another one."""
        ...

    def is_busy(self, error: Exception) -> bool:
        """Return whether the whole transaction failed because of other processes, and not because
        of one of its writes."""
        ...

    def after_writes(self, database: Database, count: int) -> None:
        """Called after each commit with the number of its writes."""
        ...

    def now(self, database: Database) -> float:
        """Return the time of the clock that all users of the store share."""
        ...

    def insert_message(self, database: Database, columns: Sequence[str], row: Row) -> int:
        """Insert into `messages` and its search index, and return the new id."""
        ...

    def find(self, database: Database, query: "Query", request: SearchRequest) -> list[Candidate]:
        """Return the newest messages that match, best first."""
        ...

    def vocabulary(self, database: Database, word: str, *, typos: bool) -> list[str]:
        """Return words of messages, in the form of the index, among which are those that differ
        from `word` by their ending and, with `typos`, by a typing error."""
        ...

    def reindex(self, database: Database, progress: Progress) -> int:
        """Rebuild the search index and return the number of messages in it."""
        ...

    def vacuum(self, database: Database) -> None:
        """Return unused space to the disk."""
        ...

    def sizes(self, database: Database) -> StoreSizes: ...

    def backup(self, database: Database, target: Path, progress: Progress) -> None:
        """Copy the whole store to a new file while others write."""
        ...


# Writes: one transaction at a time per process, with group commit.
#
# A thread runs the writes. Writes that wait at the same moment share one transaction, and each
# caller gets its result after the commit. Handing a small write to the thread and its result back
# costs as much as the write itself. So a single small write from an event loop runs inline, in the
# loop, if nothing else is queued; it waits neither for a lock nor for the disk.

Work = Callable[[Database], T]


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
            if len(group) > 1 and not self._backend.is_busy(error):
                for job in group:
                    self._commit([job])
                return
            store_error = self._backend.as_store_error(error)
            deliver(JobResult(job, error=store_error) for job in group)
            return
        deliver(JobResult(job, result) for job, result in zip(group, results, strict=True))
        if self._database is not None:
            written, self._inline_writes = len(group) + self._inline_writes, 0
            self._backend.after_writes(self._database, written)

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
            result = JobResult(job)
            if job.is_wanted():
                try:
                    result = JobResult(job, self._read(job.work))
                except Exception as error:  # noqa: BLE001 - it belongs to the waiting caller
                    result = JobResult(job, error=error)
            with self._lock:
                self._active -= 1
            deliver([result])


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

        def attempt() -> T:
            database = self._acquire()
            try:
                return work(database)
            finally:
                self._release(database)

        try:
            result: T = self.backend.with_retries(attempt)
        except self.backend.errors as error:
            raise self.backend.as_store_error(error) from error
        return result

    def read_from_loop(self, work: Callable[[Database], T]) -> "asyncio.Future[T]":
        """`read` for a coroutine."""
        return self._readers.submit_from_loop(work)

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
