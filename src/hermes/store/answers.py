"""Work that a thread does for somebody who waits elsewhere, and how the answer gets back."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

from hermes.store.sql import Database


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
