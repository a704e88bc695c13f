"""State of the gateway for `hermes gateway status`, /platforms, the API server and Prometheus."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hermes.core.errors import HermesError
from hermes.gateway.process import (
    AdapterState,
    GatewayState,
    ReadinessProblem,
    disk_problem,
    write_state,
)
from hermes.gateway.supervisor import Supervisor
from hermes.store import QueueCount
from hermes.util.extras import install_hint, is_installed

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

    from hermes.gateway.gateway import Gateway

log = logging.getLogger(__name__)


TurnOutcome = Literal["ok", "failed", "client_left"]
"""How a turn ended. `client_left`: the client of the API server closed the connection during it."""
BUCKETS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """Counts messages and answers for Prometheus; needs the package prometheus_client."""

    def __init__(self, status: "StatusReporter") -> None:
        # Here, because the package is optional: the gateway also runs without it.
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self._status = status
        self.registry = own = CollectorRegistry()
        where, received = ["platform"], "hermes_messages_received"
        self.messages = Counter(received, "Messages kept", where, registry=own)
        ends = [*where, "outcome"]
        self.answers = Counter("hermes_answers", "Turns that ended", ends, registry=own)
        name, about = "hermes_answer_seconds", "From message to answer"
        self.seconds = Histogram(name, about, where, buckets=BUCKETS, registry=own)
        own.register(self)

    def collect(self) -> "Iterator[GaugeMetricFamily]":
        """Yield the current state; called by the registry."""
        from prometheus_client.core import GaugeMetricFamily

        def gauge(name: str, about: str, *labels: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"hermes_{name}", about, labels=labels)

        up = gauge("platform_up", "Whether a platform is healthy", "platform")
        for platform, healthy in self._status.health().items():
            up.add_metric([platform], float(healthy))
        waiting = gauge("messages_waiting", "Messages on their way", "platform", "direction")
        lost = gauge("messages_not_sent", "Messages given up", "platform", "state")
        for each in self._status.counts:
            waiting.add_metric([each.platform, "in"], each.waiting_in)
            waiting.add_metric([each.platform, "out"], each.waiting_out)
            lost.add_metric([each.platform, "failed"], each.failed_out)
            lost.add_metric([each.platform, "uncertain"], each.uncertain_out)
        turns = gauge("turns_running", "Turns that run now")
        turns.add_metric([], self._status.turns)
        yield from (up, waiting, lost, turns)

    def text(self) -> bytes:
        from prometheus_client import generate_latest  # as above

        return generate_latest(self.registry)


@contextlib.asynccontextmanager
async def serve_metrics(port: int, metrics: Metrics | None) -> AsyncIterator[str]:
    """Serve the metrics on 127.0.0.1 inside the block; port 0 disables it.

    Yields the reason if that is not possible, otherwise "": it must not keep the gateway from
    running.
    """
    if not port or metrics is None:
        hint = f"Prometheus metrics need another package; install it: {install_hint('metrics')}"
        yield f"no metrics are served: {hint}" if port else ""
        return
    from prometheus_client import start_http_server  # as above

    try:
        server, thread = start_http_server(port, "127.0.0.1", metrics.registry)
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
        await asyncio.to_thread(server.shutdown)
        server.server_close()
        thread.join()


INTERVAL_SECONDS = 10.0
STORE_SECONDS = 5.0  #: Seconds that the store has to answer.
PROBE_SECONDS = 120.0
"""Seconds without a successful probe after which a platform counts as not connected."""
STORE_HINT = "`hermes doctor` checks the store; messages wait until it answers"
MIN_PAUSE_SECONDS = 1.0  #: Minimum seconds between two writes.
STATE_NAMES = {"healthy": "connected", "failing": "waiting"}
"""User-visible names of supervisor states."""


class StatusReporter:
    def __init__(
        self,
        gateway: "Gateway",
        describe_jobs: Callable[[], str],
        unavailable: Sequence[AdapterState] = (),
    ) -> None:
        """`unavailable` are platforms that could not be started at all."""
        self._gateway, self._describe_jobs, self._unavailable = gateway, describe_jobs, unavailable
        self.metrics = Metrics(self) if is_installed("prometheus_client") else None
        self._direct_turns = 0  #: Turns that adapters run themselves, such as the API server.
        self._last_direct_in: dict[str, float] = {}
        self._last_direct_out: dict[str, float] = {}
        self._started = gateway.now()
        self.counts: tuple[QueueCount, ...] = ()
        self._wake = asyncio.Event()
        self.state = "starting"
        self.troubles: list[str] = []
        self._disk: ReadinessProblem | None = None
        self._store_error = ""  #: Why the store could not be read; "" if it could.

    def count_message(self, platform: str) -> None:
        if self.metrics is not None:
            self.metrics.messages.labels(platform).inc()
        self.changed()

    def count_answer(self, platform: str, seconds: float, outcome: TurnOutcome) -> None:
        if self.metrics is not None:
            self.metrics.answers.labels(platform, outcome).inc()
            self.metrics.seconds.labels(platform).observe(max(seconds, 0.0))
        self.changed()

    def count_direct_turn(self, platform: str) -> Callable[[TurnOutcome], None]:
        """Count a turn of an adapter, which calls the result at the end, with the outcome."""
        clock = self._gateway.clock
        began = clock.monotonic()
        self._direct_turns += 1
        self._last_direct_in[platform] = self._gateway.now()
        self.count_message(platform)

        def end(outcome: TurnOutcome) -> None:
            self._direct_turns -= 1
            self._last_direct_out[platform] = self._gateway.now()
            self.count_answer(platform, clock.monotonic() - began, outcome)

        return end

    def changed(self, state: str = "") -> None:
        """Write the state file soon; `state` is the new state of the gateway, if it changed."""
        self.state = state or self.state
        self._wake.set()

    async def run(self) -> None:
        """Write the state file at intervals and after each change, until cancelled."""
        while True:
            await self.write()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL_SECONDS):
                    await self._wake.wait()
                    await asyncio.sleep(MIN_PAUSE_SECONDS)
            self._wake.clear()

    async def write(self) -> None:
        """Check the store and the disk, and write the state file."""
        root, settings = self._gateway.app.home.root, self._gateway.settings.gateway
        try:
            async with asyncio.timeout(STORE_SECONDS):
                self.counts = await self._gateway.store.queue_counts()
            self._store_error = ""
        except TimeoutError:
            self._store_error = f"it did not answer within {STORE_SECONDS:g} seconds"
        except HermesError as error:
            self._store_error = str(error)
        if self._store_error:
            log.error("the session store is unavailable: %s", self._store_error)
        self._disk = await asyncio.to_thread(disk_problem, root, settings.min_free_mb)
        try:
            await asyncio.to_thread(write_state, root, self._state())
        except HermesError as error:
            self._disk = self._disk or ReadinessProblem("disk", str(error), error.hint)
            log.error("the state of the gateway cannot be written: %s", error)

    def problems(self) -> tuple[ReadinessProblem, ...]:
        """Return why the gateway is not ready to work; empty if it is."""
        leases, found = self._gateway.leases, []
        if self._gateway.draining:
            found.append(ReadinessProblem("shutdown", "the gateway is stopping"))
        store = leases.problem or self._store_error
        if not store and leases.shared and leases.silent_seconds > 2 * leases.seconds:
            store = f"it has not answered for {leases.silent_seconds:.0f} seconds"
        if store:
            reason = f"the session store is unavailable: {store}"
            found.append(ReadinessProblem("store", reason, STORE_HINT))
        found += [self._disk] if self._disk else []
        for each in self._gateway.supervisors:
            health, part = each.health, f"platform:{each.health.platform}"
            silent = self._gateway.now() - (health.last_probe or self._gateway.now())
            if health.state != "healthy":
                reason = health.last_error or health.state
                found.append(ReadinessProblem(part, f"not connected: {reason}", health.hint))
            elif silent > PROBE_SECONDS:
                reason = f"no sign of life for {silent:.0f} seconds"
                found.append(ReadinessProblem(part, reason, "hermes gateway restart"))
        found += [
            ReadinessProblem(f"platform:{each.platform}", f"not started: {each.detail}", each.hint)
            for each in self._unavailable
            if each.state == "failed"
        ]
        return tuple(found)

    def health(self) -> dict[str, bool]:
        states = [each.health for each in self._gateway.supervisors]
        return {each.platform: each.state == "healthy" for each in states}

    @property
    def turns(self) -> int:
        return self._gateway.running_turns + self._direct_turns

    def _adapter(self, supervisor: Supervisor, counts: dict[str, QueueCount]) -> AdapterState:
        health, address = supervisor.health, supervisor.adapter.address
        count = counts.get(health.platform, QueueCount(""))
        return AdapterState(
            platform=health.platform,
            state="failed" if health.refused else STATE_NAMES.get(health.state, health.state),
            account=health.account,
            detail=address if health.state == "healthy" else health.last_error,
            hint=supervisor.adapter.access_hint if health.state == "healthy" else health.hint,
            since=health.since,
            last_in=count.last_in or self._last_direct_in.get(health.platform),
            last_out=count.last_out or self._last_direct_out.get(health.platform),
            waiting_out=count.waiting_out,
        )

    def _state(self) -> GatewayState:
        counts = {each.platform: each for each in self.counts}
        tried = tuple(self._adapter(each, counts) for each in self._gateway.supervisors)
        adapters = (*tried, *self._unavailable)
        return GatewayState(
            pid=os.getpid(),
            state=self.state,
            started_at=self._started,
            updated_at=self._gateway.now(),
            adapters=adapters,
            waiting_in=sum(each.waiting_in for each in self.counts),
            waiting_out=sum(each.waiting_out for each in self.counts),
            unreadable_in=sum(each.unreadable_in for each in self.counts),
            turns=self.turns,
            cron=self._describe_jobs(),
            troubles=tuple(self.troubles),
            problems=self.problems(),
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
