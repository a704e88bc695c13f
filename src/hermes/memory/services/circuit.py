"""A service that fails again and again is left alone for a while."""

import time
from collections.abc import Callable
from typing import TypeVar

from hermes.core.errors import ToolError
from hermes.memory.isolation import said_by

T = TypeVar("T")

FAILURES = 3
"""After so many in a row it rests."""
PAUSE, LONGEST_PAUSE = 60.0, 600.0
"""Seconds. Each further failure doubles the pause."""


class ServiceError(ToolError):
    """A service refused or failed. `pause` is how many seconds it is to be left alone at once; None
    when it may be asked again."""

    def __init__(self, message: str, *, pause: float | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.pause = pause


class NotFound(ServiceError):
    """What was asked about is not there; the service works."""


class Resting(ServiceError):
    """The service was not asked, because it failed a moment ago."""


class Circuit:
    """Counts failures of `service` in a row. It is used from one thread."""

    def __init__(self, service: str, now: Callable[[], float] = time.monotonic) -> None:
        self._service, self._now = service, now
        self._failures = 0
        self._until = 0.0
        self._reason = ""

    def run(self, work: Callable[[], T]) -> T:
        """What `work` returns. Raises `Resting` instead of doing it while the service rests."""
        left = self._until - self._now()
        if left > 0:
            raise Resting(f"{self._service} is asked again in {left:.0f} s; {self._reason}")
        try:
            result = work()
        except NotFound:
            self._failures = 0
            raise
        except ServiceError as error:
            self._rest(error)
            raise
        self._failures = 0
        return result

    def _rest(self, error: ServiceError) -> None:
        self._failures += 1
        self._reason = said_by(error)
        pause = error.pause
        if pause is None and self._failures >= FAILURES:
            pause = PAUSE * 2 ** (self._failures - FAILURES)
        if pause is not None:
            self._until = self._now() + min(pause, LONGEST_PAUSE)
