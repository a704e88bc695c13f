"""A circuit breaker: pauses calls of a service after failures in a row."""

import math
from collections import deque
from collections.abc import Callable


class CircuitBreaker:
    """After `failures` in a row, all within `window` seconds, it opens for `first_pause` seconds.

    After each pause it is half open: one attempt is made, and another failure doubles the pause, up
    to `longest_pause`. Failures of calls that began before it opened do not prolong the pause. Not
    thread-safe.
    """

    def __init__(
        self,
        failures: int,
        first_pause: float,
        longest_pause: float,
        now: Callable[[], float],
        *,
        window: float = math.inf,
    ) -> None:
        self._first, self._longest, self._window = first_pause, longest_pause, window
        self._now = now
        self._recent: deque[float] = deque(maxlen=failures)
        self._pause = 0.0  #: The last pause; 0 while the circuit is closed.
        self._until = 0.0
        self.failures = 0  #: Failures in a row.
        self.reason = ""  #: The last failure; empty after a success.

    @property
    def remaining(self) -> float:
        """Seconds until the next attempt; 0 when it may be made now."""
        return max(0.0, self._until - self._now()) if self._until else 0.0

    @property
    def is_half_open(self) -> bool:
        return self._pause > 0 and not self.remaining

    def record_failure(self, reason: str, pause: float | None = None) -> None:
        """Count a failure; `pause` opens the circuit at once, for so many seconds."""
        self.failures, self.reason = self.failures + 1, reason
        if pause is None and self.remaining:
            return
        now, recent = self._now(), self._recent
        recent.append(now)
        if pause is None and self._pause:
            pause = self._pause = min(self._pause * 2, self._longest)
        elif pause is None and len(recent) == recent.maxlen and now - recent[0] <= self._window:
            pause = self._pause = self._first
        if pause is not None:
            self._until = now + min(pause, self._longest)

    def record_success(self) -> None:
        self._recent.clear()
        self.failures, self._pause, self._until, self.reason = 0, 0.0, 0.0, ""
