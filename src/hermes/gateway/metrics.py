"""Numbers for Prometheus: what came in, what went out, how long it took, how the platforms are."""

from collections.abc import Callable, Iterable
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from hermes.store.records import QueueCount

BUCKETS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)


class PlatformHealth(Protocol):
    @property
    def platform(self) -> str: ...

    @property
    def state(self) -> str: ...


class Metrics:
    """`house.Counters`, and what is read when somebody asks."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        own = self._registry
        self._in = Counter("hermes_messages_received", "Messages kept", ["platform"], registry=own)
        self._answers = Counter(
            "hermes_answers", "Turns that ended", ["platform", "outcome"], registry=own
        )
        self._seconds = Histogram(
            "hermes_answer_seconds",
            "From message to answer",
            ["platform"],
            buckets=BUCKETS,
            registry=own,
        )
        self._up = Gauge(
            "hermes_platform_up", "Whether a platform is healthy", ["platform"], registry=own
        )
        self._waiting = Gauge(
            "hermes_messages_waiting",
            "Messages on their way",
            ["platform", "direction"],
            registry=own,
        )
        self._lost = Gauge(
            "hermes_messages_not_sent", "Messages given up", ["platform", "state"], registry=own
        )
        self._turns = Gauge("hermes_turns_running", "Turns that run now", registry=own)

        self.changed: Callable[[], None] = lambda: None
        """Called when something was counted."""

    def received(self, platform: str) -> None:
        self._in.labels(platform).inc()
        self.changed()

    def answered(self, platform: str, seconds: float, *, failed: bool) -> None:
        self._answers.labels(platform, "failed" if failed else "ok").inc()
        self._seconds.labels(platform).observe(max(seconds, 0.0))
        self.changed()

    def text(
        self, counts: Iterable[QueueCount], health: Iterable[PlatformHealth], turns: int
    ) -> bytes:
        """In the text format of Prometheus."""
        for count in counts:
            self._waiting.labels(count.platform, "in").set(count.waiting_in)
            self._waiting.labels(count.platform, "out").set(count.waiting_out)
            self._lost.labels(count.platform, "failed").set(count.failed_out)
            self._lost.labels(count.platform, "uncertain").set(count.uncertain_out)
        for each in health:
            self._up.labels(each.platform).set(each.state == "healthy")
        self._turns.set(turns)
        return generate_latest(self._registry)
