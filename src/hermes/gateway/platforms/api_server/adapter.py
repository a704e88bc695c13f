"""The API server as a platform of the gateway."""

import asyncio
import gc
import logging
from collections.abc import Callable
from typing import Any

from hermes.app.app import App
from hermes.config.loader import describe
from hermes.core.ports import Scheduler
from hermes.gateway.direct import DirectTurns
from hermes.gateway.events import Outgoing, Target
from hermes.gateway.platforms.api_server.application import Application
from hermes.gateway.platforms.api_server.endpoints import Endpoints
from hermes.gateway.platforms.api_server.idempotency import Idempotency
from hermes.gateway.platforms.api_server.options import Options, read_options
from hermes.gateway.platforms.api_server.serving import Serving, serve
from hermes.gateway.platforms.api_server.turns import Turns
from hermes.gateway.platforms.base import (
    AdapterContext,
    BaseAdapter,
    NotConnected,
    Receive,
    SendRefused,
)
from hermes.util.hosts import from_here, http_address
from hermes.util.open_files import allow_many_open_files

log = logging.getLogger(__name__)

PROBE_SECONDS = 5.0


class ApiServer(BaseAdapter):
    """Serves `context.extra["app"]`. Nothing of it goes through inbox and outbox: who asks waits
    for the answer."""

    def __init__(self, context: AdapterContext, options: Options | None = None) -> None:
        """`options` instead of those of settings and variables."""
        super().__init__(context)
        self._options = options
        self._app: App = context.extra["app"]
        self._serving: Serving | None = None
        self._turns: Turns | None = None
        self._idempotency = Idempotency(self._app.clock)
        self._draining = False
        """It answers nobody new, and that is as it should be."""
        self.port = 0
        """Where it listens, once connected."""

    async def connect(self, receive: Receive) -> None:
        """Returns when /health answers; `receive` is not used."""
        del receive
        options = self._options = self._options or self._read_options()
        self._draining = False
        allow_many_open_files()
        extra = self.context.extra
        scheduler: Scheduler | None = extra.get("scheduler")
        status: Callable[[], dict[str, Any]] | None = extra.get("status")
        metrics: Callable[[], bytes] | None = extra.get("metrics")
        counted: DirectTurns | None = extra.get("turns")
        self._turns = Turns(self._app, options, extra.get("backend", ""), counted)
        endpoints = Endpoints(self._app, self._turns, options, scheduler, status, metrics)
        application = Application(options, endpoints.routes, self._idempotency)
        self._serving = await serve(application, options)
        self.port = self._serving.port
        self.address = http_address(options.host, self.port)
        await self.probe()
        # What the process is made of stays: looking through it for garbage, again and again, is a
        # tenth of what a new conversation costs.
        gc.freeze()

    def _read_options(self) -> Options:
        context = self.context
        for problem in self._app.loaded.problems:
            if problem.parts[:2] == ("platforms", context.manifest.name):
                log.warning("%s", describe(problem))
        return read_options(context.variable, context.connection, context.unset)

    async def drain(self, seconds: float) -> None:
        self._draining = True
        if self._serving is not None and self._turns is not None:
            self._serving.stop_accepting()
            await self._turns.drain(seconds)

    async def disconnect(self) -> None:
        """Turns that run get `gateway.drain_seconds`; then they are stopped, and their clients
        told."""
        serving, turns = self._serving, self._turns
        self._serving = self._turns = None
        if serving is None or turns is None:
            return
        gc.unfreeze()
        serving.stop_accepting()
        await turns.drain(self._app.loaded.settings.gateway.drain_seconds)
        await serving.close()
        await self._idempotency.close()
        await turns.close()

    async def probe(self) -> None:
        if self._draining:
            return
        if self._serving is None or not self._serving.alive or self._options is None:
            raise NotConnected("the API server does not run")
        host = from_here(self._options.host)
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                head = await _asked(host, self.port)
        except (OSError, TimeoutError) as error:
            raise NotConnected(f"the API server does not answer: {error}") from error
        if not head.startswith(b"HTTP/1.1 200 "):
            raise NotConnected(f"the API server is not well: {head[:100]!r}")

    async def send(self, target: Target, message: Outgoing, key: str) -> str:
        del message, key
        raise SendRefused(f"{target.platform} has no chats to send to")


async def _asked(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        await writer.drain()
        return await reader.readline()
    finally:
        writer.close()
