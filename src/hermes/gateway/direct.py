"""Turns that pass neither inbox nor outbox, such as those of the API server: they are counted as
those of chats are."""

from hermes.core.ports import Clock
from hermes.gateway.house import Counters


class DirectTurns:
    def __init__(self, counters: Counters, clock: Clock) -> None:
        self._counters, self._clock = counters, clock
        self.running = 0
        self._last_in: dict[str, float] = {}
        self._last_out: dict[str, float] = {}

    def begin(self, platform: str) -> "DirectTurn":
        self.running += 1
        self._last_in[platform] = self._clock.now().timestamp()
        self._counters.received(platform)
        return DirectTurn(self, platform, self._clock.monotonic())

    def ended(self, platform: str, began: float, *, failed: bool) -> None:
        self.running -= 1
        self._last_out[platform] = self._clock.now().timestamp()
        self._counters.answered(platform, self._clock.monotonic() - began, failed=failed)

    def last(self, platform: str) -> tuple[float | None, float | None]:
        """When the last request came and the last answer went."""
        return self._last_in.get(platform), self._last_out.get(platform)


class DirectTurn:
    """One that runs."""

    def __init__(self, turns: DirectTurns, platform: str, began: float) -> None:
        self._turns, self._platform, self._began = turns, platform, began

    def end(self, *, failed: bool) -> None:
        self._turns.ended(self._platform, self._began, failed=failed)
