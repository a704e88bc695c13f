"""Calls that must be made sooner or later, and calls that only would be nice."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from hermes.core.ports import Clock
from hermes.gateway.platforms.matrix.failures import is_login_refused
from hermes.gateway.platforms.matrix.wire import TROUBLE, Refusal

log = logging.getLogger(__name__)

LONGEST_PAUSE = 30.0
MOST_FAULTS = 8
"""Of the homeserver in one call, in about a minute. One broken room must not hold up the others."""
Found = TypeVar("Found")


async def insistently(
    call: Callable[[], Awaitable[Found]], clock: Clock, otherwise: Found, what: str
) -> Found:
    """What the call gives, however long it takes to reach the homeserver; `otherwise` when that
    refuses it for good or cannot do it, again and again. Raises `Refusal` when it refuses us."""
    pause, faults = 0.2, 0
    while True:
        try:
            return await call()
        except TROUBLE as error:
            if is_login_refused(error):
                raise
            faults += isinstance(error, Refusal) and error.status >= 500
            if _is_final(error) or faults >= MOST_FAULTS:
                log.error("%s cannot be had: %s", what, error)
                return otherwise
            log.warning("%s cannot be had yet: %s", what, type(error).__name__)
            wished = error.seconds if isinstance(error, Refusal) else 0.0
        await clock.sleep(max(pause, wished))
        pause = min(pause * 2, LONGEST_PAUSE)


def _is_final(error: Exception) -> bool:
    return isinstance(error, Refusal) and error.status < 500 and error.status != 429


class Errands:
    """Small calls beside everything else. One that fails is left undone."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, Any], what: str) -> None:
        task = asyncio.create_task(_try(work, what))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _try(work: Coroutine[Any, Any, Any], what: str) -> None:
    try:
        await work
    except TROUBLE as error:
        log.debug("%s was left undone: %s", what, error)
