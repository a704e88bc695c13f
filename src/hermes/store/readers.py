"""The threads that read for an event loop, so that a long search does not hold it up."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from hermes.core.errors import StoreError
from hermes.store.answers import Answer, Job, give
from hermes.store.sql import Database

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
