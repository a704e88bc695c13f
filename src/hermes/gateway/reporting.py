"""How the gateway fares, for `hermes gateway status`, /platforms, the API server and Prometheus."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.app.app import App
from hermes.core.errors import HermesError
from hermes.gateway.direct import DirectTurns
from hermes.gateway.floor import Floor
from hermes.gateway.metrics import Metrics
from hermes.gateway.process.state_file import AdapterState, GatewayState, write_state
from hermes.gateway.supervisor import Supervisor
from hermes.store.records import QueueCount

log = logging.getLogger(__name__)

EVERY = 10.0
AT_MOST = 1.0
"""Seconds between two writings when much happens."""
SHOWN = {"healthy": "connected", "failing": "waiting"}
"""States of a supervisor that people know by another name."""


class Reporting:
    def __init__(
        self,
        root: Path,
        app: App,
        floor: Floor,
        metrics: Metrics,
        direct: DirectTurns,
        supervisors: Callable[[], Sequence[Supervisor]],
    ) -> None:
        self._root, self._app, self._floor = root, app, floor
        self._metrics, self._direct, self._supervisors = metrics, direct, supervisors
        self._started = app.clock.now().timestamp()
        self._counts: tuple[QueueCount, ...] = ()
        self._wake = asyncio.Event()
        self.state = "starting"
        self.left_out: list[AdapterState] = []
        """Platforms that could not even be tried."""
        self.troubles: list[str] = []
        self.cron: Callable[[], str] = str
        """How scheduled jobs fare."""

    def changed(self) -> None:
        self._wake.set()

    def become(self, state: str) -> None:
        self.state = state
        self.changed()

    async def run(self) -> None:
        """Write the state file, now and then and whenever something changed."""
        while True:
            await self.last(self.state)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY):
                    await self._wake.wait()
                    await asyncio.sleep(AT_MOST)
            self._wake.clear()

    async def last(self, state: str) -> None:
        self.state = state
        try:
            self._counts = await self._app.store.queue_counts()
            await asyncio.to_thread(write_state, self._root, self._state())
        except HermesError as error:
            log.error("the state of the gateway cannot be written: %s", error)

    @property
    def _turns(self) -> int:
        return self._floor.turns + self._direct.running

    def _adapter(self, supervisor: Supervisor, counts: dict[str, QueueCount]) -> AdapterState:
        health, address = supervisor.health, supervisor.adapter.address
        count = counts.get(health.platform, QueueCount(""))
        last_in, last_out = self._direct.last(health.platform)
        return AdapterState(
            platform=health.platform,
            state="failed" if health.refused else SHOWN.get(health.state, health.state),
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
        tried = tuple(self._adapter(each, counts) for each in self._supervisors())
        adapters = (*tried, *self.left_out)
        return GatewayState(
            pid=os.getpid(),
            state=self.state,
            started_at=self._started,
            updated_at=self._app.clock.now().timestamp(),
            adapters=adapters,
            waiting_in=sum(each.waiting_in for each in self._counts),
            waiting_out=sum(each.waiting_out for each in self._counts),
            unreadable_in=sum(each.unreadable_in for each in self._counts),
            turns=self._turns,
            cron=self.cron(),
            troubles=tuple(self.troubles),
            last_in=max((each.last_in or 0.0 for each in adapters), default=0.0) or None,
            last_out=max((each.last_out or 0.0 for each in adapters), default=0.0) or None,
        )

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self._state())
        return found

    def lines(self) -> str:
        return "\n".join(
            f"- **{each.platform}**: {each.state}{f' ({each.detail})' if each.detail else ''}"
            for each in self._state().adapters
        )

    def metrics(self) -> bytes:
        health = [each.health for each in self._supervisors()]
        return self._metrics.text(self._counts, health, self._turns)
