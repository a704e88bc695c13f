"""Writes to the store: one at a time in this process, together where many wait.

A thread does them. Writes that wait at the same moment share one transaction, and a caller is told
only after the commit that holds its own. To hand a small write to a thread and its answer back
costs as much as the write itself, so a single small one that comes from an event loop, with nothing
else to do, is done at once, right there; it neither waits for a lock nor for the disk.
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

# Work that a thread does for somebody who waits elsewhere, and how the answer gets back.


class Job(NamedTuple):
    work: Callable[[Database], Any]
    """May run more than once, each time in a new transaction, so it must have no other effect."""
    done: "Future[Any] | asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop | None = None
    """Where `done` belongs to, if to any."""
    is_small: bool = False
    """Takes a fraction of a millisecond."""

    def is_wanted(self) -> bool:
        """To be asked once, before the work: who waits may have given up."""
        if isinstance(self.done, Future):
            return self.done.set_running_or_notify_cancel()
        return not self.done.cancelled()


class Answer(NamedTuple):
    job: Job
    result: Any = None
    error: Exception | None = None

    def give(self) -> None:
        """To be called where the job's future belongs to."""
        if self.job.done.cancelled():
            return
        if self.error is None:
            self.job.done.set_result(self.result)
        else:
            self.job.done.set_exception(self.error)


def give(answers: Iterable[Answer]) -> None:
    """From any thread. A loop is woken once for all that it gets."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.job.loop is None:
            answer.give()
        else:
            by_loop[answer.job.loop].append(answer)
    for loop, some in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended, and with it whoever waited
            loop.call_soon_threadsafe(_give_all, some)


def _give_all(answers: list[Answer]) -> None:
    for answer in answers:
        answer.give()


T = TypeVar("T")
Work = Callable[[Database], T]

GROUP_LIMIT = 256
MOST_AT_ONCE = 49
"""After so many the thread has the next, and with it the upkeep that may wait for the disk."""


class Writer:
    """Started by the first job; a store that cannot be opened is tried again by the next."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        """Held while deciding who gets a job."""
        self._turn = threading.Lock()
        """Held while writing."""
        self._asked: defaultdict[asyncio.AbstractEventLoop, list[Job]] = defaultdict(list)
        """What each loop asked for since it last came round."""
        self._done_at_once = 0
        self._handed_over = 0
        """Jobs that the thread has not finished. None may be overtaken."""
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ending = False
        self._database: Database | None = None

    def submit(self, work: Work[T]) -> "Future[T]":
        """The result of `work`, once it is committed."""
        done: Future[T] = Future()
        with self._gate:
            self._refuse_closed()
            self._put(Job(work, done))
        return done

    def submit_from_loop(self, work: Work[T], *, is_small: bool) -> "asyncio.Future[T]":
        """`submit` for a coroutine. What is asked for until the loop comes round is one group, and
        one wake-up of the loop brings all its answers."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        with self._gate:
            self._refuse_closed()
            asked = self._asked[loop]
            asked.append(Job(work, done, loop, is_small))
            if len(asked) == 1:
                loop.call_soon(self._go, loop)
        return done

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError("the session store is closed")

    def _go(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start what the loop asked for."""
        with self._gate:
            jobs = self._asked.pop(loop, [])
            alone = len(jobs) == 1 and jobs[0].is_small and not self._handed_over
            if not alone or not self._turn.acquire(blocking=False):
                for job in jobs:
                    self._put(job)
                return
        answer = None
        try:
            answer = self._at_once(jobs[0])
        finally:
            self._turn.release()
        if answer is not None:
            answer.give()
        else:
            with self._gate:
                self._put(jobs[0])

    def _at_once(self, job: Job) -> Answer | None:
        """None when it has to be done by the thread after all."""
        database = self._database
        if (
            database is None
            or self._done_at_once >= MOST_AT_ONCE
            or self._backend.is_stale(database)
            or not job.is_wanted()
        ):
            return None
        try:
            with self._backend.transaction(database, waits=False):
                result = job.work(database)
        except Exception as error:  # noqa: BLE001 - whatever went wrong belongs to the waiting caller
            if self._backend.is_busy(error):
                return None
            return Answer(job, error=self._backend.as_store_error(error))
        self._done_at_once += 1
        return Answer(job, result)

    def _put(self, job: Job) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="store-write", daemon=True)
            self._thread.start()
        self._handed_over += 1
        self._jobs.put(job)

    def close(self) -> None:
        """Finish what was submitted and end the thread."""
        with self._gate:
            self._closed = True
            for jobs in self._asked.values():
                for job in jobs:
                    self._put(job)
            self._asked.clear()
            thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            thread.join()

    def _run(self) -> None:
        while group := self._take():
            with self._turn:
                self._settle(group)
            self._finished(len(group))
        with self._turn:
            self._disconnect()

    def _finished(self, count: int) -> None:
        with self._gate:
            self._handed_over -= count

    def _take(self) -> list[Job]:
        """Wait for a job, then add all that are waiting. Empty means closed."""
        group: list[Job] = []
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

    def _settle(self, group: Sequence[Job]) -> None:
        """Commit the group and answer every caller; one that fails does not take others along."""
        try:
            results = self._backend.patiently(lambda: self._transaction(group))
        except Exception as error:  # noqa: BLE001 - whatever went wrong belongs to the waiting caller
            self._fail(group, error)
            return
        give(Answer(job, result) for job, result in zip(group, results, strict=True))
        if self._database is not None:
            written, self._done_at_once = len(group) + self._done_at_once, 0
            self._backend.after_writes(self._database, written)

    def _fail(self, group: Sequence[Job], error: Exception) -> None:
        if len(group) > 1 and not self._backend.is_busy(error):
            for job in group:
                self._settle([job])
            return
        told = self._backend.as_store_error(error)
        give(Answer(job, error=told) for job in group)

    def _transaction(self, group: Sequence[Job]) -> list[Any]:
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
