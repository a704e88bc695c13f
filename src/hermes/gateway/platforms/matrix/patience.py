"""Calls that must be made sooner or later, and calls that only would be nice."""

import logging
from collections.abc import Awaitable, Callable
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


async def tried(work: Awaitable[Any], what: str) -> None:
    """For calls beside everything else: one that fails is left undone."""
    try:
        await work
    except TROUBLE as error:
        log.debug("%s was left undone: %s", what, error)
