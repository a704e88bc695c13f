"""A circuit breaker: pauses calls of a service after failures in a row."""

from collections.abc import Callable


class CircuitBreaker:
    """After `failures` in a row it opens for `first_pause` seconds. After each pause one attempt is
    made; each further failure doubles the pause, up to `longest_pause`. Not thread-safe."""

    def __init__(
        self,
        failures: int,
        first_pause: float,
        longest_pause: float,
        now: Callable[[], float],
    ) -> None:
        self._threshold, self._first, self._longest = failures, first_pause, longest_pause
        self._now = now
        self._until = 0.0
        self.failures = 0  #: Failures in a row.
        self.reason = ""  #: The last failure; empty after a success.

    @property
    def remaining(self) -> float:
        """Seconds until the next attempt; 0 while the circuit is closed."""
        return max(0.0, self._until - self._now()) if self._until else 0.0

    def record_failure(self, reason: str, pause: float | None = None) -> None:
        """Count a failure; `pause` opens the circuit at once, for so many seconds."""
        self.failures, self.reason = self.failures + 1, reason
        beyond = self.failures - self._threshold
        if pause is None and beyond >= 0:
            pause = self._first * 2.0 ** min(beyond, 10)
        if pause is not None:
            self._until = self._now() + min(pause, self._longest)

    def record_success(self) -> None:
        self.failures, self._until, self.reason = 0, 0.0, ""
