"""A server that fails again and again is left alone for a while."""

import math

from hermes.core.ports import Clock
from hermes.mcp.failures import Unavailable
from hermes.util.text import human_duration

FAILURES = 3
"""So many in a row open the breaker."""
FIRST_REST, LONGEST_REST = 30.0, 600.0


class Breaker:
    """Open, it lets one attempt through after each rest; each that fails doubles the rest."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name, self._clock = name, clock
        self._failures = 0
        self._until = -math.inf
        self.reason = ""
        """The last failure."""

    @property
    def is_open(self) -> bool:
        return self._clock.monotonic() < self._until

    def check(self) -> None:
        """Raises `Unavailable` while the server rests."""
        left = self._until - self._clock.monotonic()
        if left > 0:
            raise Unavailable(
                f"the MCP server {self._name} failed {self._failures} times in a row and is left "
                f"alone for {human_duration(math.ceil(left))}: {self.reason}",
                hint="go on without it, or tell the user",
            )

    def failed(self, reason: str) -> None:
        self._failures, self.reason = self._failures + 1, reason
        beyond = self._failures - FAILURES
        if beyond >= 0:
            rest = min(FIRST_REST * 2.0 ** min(beyond, 10), LONGEST_REST)
            self._until = self._clock.monotonic() + rest

    def succeeded(self) -> None:
        self._failures, self._until, self.reason = 0, -math.inf, ""
