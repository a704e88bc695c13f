"""State of the gateway for `hermes gateway status`, /platforms, the API server and Prometheus."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from hermes.core.errors import HermesError
from hermes.core.ports import Clock
from hermes.gateway.process import AdapterState, GatewayState, write_state
from hermes.gateway.supervisor import Supervisor
from hermes.store.records import QueueCount

if TYPE_CHECKING:
    from hermes.gateway.gateway import Gateway

log = logging.getLogger(__name__)

BUCKETS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)


class PlatformHealth(Protocol):
    @property
    def platform(self) -> str: ...

    @property
    def state(self) -> str: ...


class Metrics:
    """Counts messages and answers, and renders the metrics for Prometheus."""

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

    def count_message(self, platform: str) -> None:
        self._in.labels(platform).inc()

    def count_answer(self, platform: str, seconds: float, *, failed: bool) -> None:
        self._answers.labels(platform, "failed" if failed else "ok").inc()
        self._seconds.labels(platform).observe(max(seconds, 0.0))

    def text(
        self, counts: Iterable[QueueCount], health: Iterable[PlatformHealth], turns: int
    ) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        for count in counts:
            self._waiting.labels(count.platform, "in").set(count.waiting_in)
            self._waiting.labels(count.platform, "out").set(count.waiting_out)
            self._lost.labels(count.platform, "failed").set(count.failed_out)
            self._lost.labels(count.platform, "uncertain").set(count.uncertain_out)
        for each in health:
            self._up.labels(each.platform).set(each.state == "healthy")
        self._turns.set(turns)
        return generate_latest(self._registry)


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_REQUEST_BYTES = 8_192
REQUEST_SECONDS = 10.0


@contextlib.asynccontextmanager
async def serve_metrics(port: int, text: Callable[[], bytes]) -> AsyncIterator[str]:
    """Serve `GET /metrics` on 127.0.0.1 inside the block; port 0 disables it.

    Yields the reason if the port cannot be used, otherwise "": an unavailable port must not keep
    the gateway from running.
    """
    if not port:
        yield ""
        return
    try:
        server = await asyncio.start_server(
            lambda reader, writer: _serve_request(reader, writer, text),
            "127.0.0.1",
            port,
            limit=MAX_REQUEST_BYTES,
        )
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        yield (
            f"no metrics are served: gateway.metrics_port {port} cannot be used: {reason.lower()};"
            " set another, or 0 for none, and restart the gateway"
        )
        return
    try:
        yield ""
    finally:
        server.close()


async def _serve_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: Callable[[], bytes]
) -> None:
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            wanted = head.split(b" ", 2)[:2]
            found = wanted == [b"GET", b"/metrics"]
            body = text() if found else b"only GET /metrics is here\n"
            status = "200 OK" if found else "404 Not Found"
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
    except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        log.debug("a metrics request was aborted: %r", error)
    finally:
        writer.close()


class DirectTurns:
    """The turns that adapters run themselves, such as those of the API server."""

    def __init__(self, status: "StatusReporter", clock: Clock) -> None:
        self._counters, self._clock = status, clock
        self.running = 0
        self._last_in: dict[str, float] = {}
        self._last_out: dict[str, float] = {}

    def begin(self, platform: str) -> "DirectTurn":
        self.running += 1
        self._last_in[platform] = self._clock.now().timestamp()
        self._counters.count_message(platform)
        return DirectTurn(self, platform, self._clock.monotonic())

    def turn_ended(self, platform: str, began: float, *, failed: bool) -> None:
        self.running -= 1
        self._last_out[platform] = self._clock.now().timestamp()
        self._counters.count_answer(platform, self._clock.monotonic() - began, failed=failed)

    def last_times(self, platform: str) -> tuple[float | None, float | None]:
        """Return the times of the last request and the last reply."""
        return self._last_in.get(platform), self._last_out.get(platform)


class DirectTurn:
    """One running turn."""

    def __init__(self, turns: DirectTurns, platform: str, began: float) -> None:
        self._turns, self._platform, self._began = turns, platform, began

    def end(self, *, failed: bool) -> None:
        self._turns.turn_ended(self._platform, self._began, failed=failed)


INTERVAL_SECONDS = 10.0
MIN_PAUSE_SECONDS = 1.0
"""Minimum seconds between two writes."""
STATE_NAMES = {"healthy": "connected", "failing": "waiting"}
"""User-visible names of supervisor states."""


class StatusReporter:
    def __init__(self, gateway: "Gateway", describe_jobs: Callable[[], str]) -> None:
        self._gateway, self._describe_jobs = gateway, describe_jobs
        self._metrics = Metrics()
        self.direct_turns = DirectTurns(self, gateway.clock)
        self._started = gateway.now()
        self._counts: tuple[QueueCount, ...] = ()
        self._wake = asyncio.Event()
        self.state = "starting"
        self.unavailable: list[AdapterState] = []
        """Platforms that could not be started at all."""
        self.troubles: list[str] = []

    def count_message(self, platform: str) -> None:
        self._metrics.count_message(platform)
        self.changed()

    def count_answer(self, platform: str, seconds: float, *, failed: bool) -> None:
        self._metrics.count_answer(platform, seconds, failed=failed)
        self.changed()

    def changed(self) -> None:
        self._wake.set()

    def set_state(self, state: str) -> None:
        self.state = state
        self.changed()

    async def run(self) -> None:
        """Write the state file at intervals and after each change, until cancelled."""
        while True:
            await self.write(self.state)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL_SECONDS):
                    await self._wake.wait()
                    await asyncio.sleep(MIN_PAUSE_SECONDS)
            self._wake.clear()

    async def write(self, state: str) -> None:
        self.state = state
        try:
            self._counts = await self._gateway.store.queue_counts()
            await asyncio.to_thread(write_state, self._gateway.app.home.root, self._state())
        except HermesError as error:
            log.error("the state of the gateway cannot be written: %s", error)

    @property
    def _turns(self) -> int:
        return self._gateway.running_turns + self.direct_turns.running

    def _adapter(self, supervisor: Supervisor, counts: dict[str, QueueCount]) -> AdapterState:
        health, address = supervisor.health, supervisor.adapter.address
        count = counts.get(health.platform, QueueCount(""))
        last_in, last_out = self.direct_turns.last_times(health.platform)
        return AdapterState(
            platform=health.platform,
            state="failed" if health.refused else STATE_NAMES.get(health.state, health.state),
            account=health.account,
            detail=address if health.state == "healthy" else health.last_error,
            hint="" if health.state == "healthy" else health.hint,
            since=health.since,
            last_in=count.last_in or last_in,
            last_out=count.last_out or last_out,
            waiting_out=count.waiting_out,
        )

    def _state(self) -> GatewayState:
        counts = {each.platform: each for each in self._counts}
        tried = tuple(self._adapter(each, counts) for each in self._gateway.supervisors)
        adapters = (*tried, *self.unavailable)
        return GatewayState(
            pid=os.getpid(),
            state=self.state,
            started_at=self._started,
            updated_at=self._gateway.now(),
            adapters=adapters,
            waiting_in=sum(each.waiting_in for each in self._counts),
            waiting_out=sum(each.waiting_out for each in self._counts),
            unreadable_in=sum(each.unreadable_in for each in self._counts),
            turns=self._turns,
            cron=self._describe_jobs(),
            troubles=tuple(self.troubles),
            last_in=max((each.last_in or 0.0 for each in adapters), default=0.0) or None,
            last_out=max((each.last_out or 0.0 for each in adapters), default=0.0) or None,
        )

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self._state())
        return found

    def summary(self) -> str:
        return "\n".join(
            f"- **{each.platform}**: {each.state}{f' ({each.detail})' if each.detail else ''}"
            for each in self._state().adapters
        )

    def metrics(self) -> bytes:
        health = [each.health for each in self._gateway.supervisors]
        return self._metrics.text(self._counts, health, self._turns)
