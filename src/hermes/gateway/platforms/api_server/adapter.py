"""The API server as a platform of the gateway: the uvicorn server and its adapter."""

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import h11
import msgspec
import uvicorn

from hermes.app.app import App
from hermes.config.loader import describe
from hermes.core.ports import Scheduler
from hermes.gateway.platforms.api_server.app import SAFE, Application, Endpoints
from hermes.gateway.platforms.api_server.http import CLOSE, JSON, Options, invalid, read_options
from hermes.gateway.platforms.api_server.runs import Idempotency
from hermes.gateway.platforms.api_server.turns import Turns
from hermes.gateway.platforms.kit.contract import (
    AdapterContext,
    BaseAdapter,
    ChatTarget,
    NotConnected,
    OutgoingMessage,
    Receive,
    SendRefused,
)
from hermes.gateway.platforms.kit.http_server import TimeLimitedProtocol
from hermes.gateway.status import DirectTurns
from hermes.util.files import allow_many_open_files
from hermes.util.hosts import from_here, http_address

KEEP_ALIVE_SECONDS = 75
BACKLOG = 2048
MOST_HEAD_BYTES = 65536
LAST_SECONDS = 10
"""Seconds after draining; connections that are still open are cut then."""


class _Protocol(TimeLimitedProtocol):
    def send_400_response(self, _msg: str) -> None:
        """Answer a request that is not valid HTTP in the usual error format."""
        said = invalid("this is no valid HTTP request", code="invalid_http").answer
        body = msgspec.json.encode(said)
        headers = [("Content-Type", JSON), ("Content-Length", str(len(body))), *SAFE, *CLOSE]
        with contextlib.suppress(h11.LocalProtocolError):  # another response is being sent
            head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._leaving = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the gateway handles the signals

    async def main_loop(self) -> None:
        """Wake once a second, for the date header, instead of ten times."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._leaving.wait()

    def leave(self) -> None:
        self.should_exit = True
        self._leaving.set()


class Serving:
    """A running server."""

    def __init__(self, server: _Server, task: "asyncio.Task[None]", port: int) -> None:
        self._server, self._task, self.port = server, task, port

    @property
    def alive(self) -> bool:
        return self._server.started and not self._task.done()

    def stop_accepting(self) -> None:
        self._server.leave()

    async def close(self) -> None:
        """Stop; responses in progress have `LAST_SECONDS` to finish."""
        self._server.leave()
        _done, pending = await asyncio.wait([self._task], timeout=LAST_SECONDS)
        if pending:
            self._server.force_exit = True
            state = self._server.server_state
            for connection in tuple(state.connections):
                connection.transport.abort()
            for task in tuple(state.tasks):
                task.cancel()
            await asyncio.wait([self._task])


async def serve(application: Any, options: Options) -> Serving:
    """Start to serve, and return when requests are answered. Raises `NotConnected` if the
    address is in use."""
    sock = _listening(options)
    config = uvicorn.Config(
        application,
        http=type(
            "Protocol",
            (_Protocol,),
            {"head_seconds": options.head_seconds, "send_seconds": options.send_seconds},
        ),
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
    )
    server = _Server(config)
    task = asyncio.ensure_future(server.serve(sockets=[sock]))
    while not server.started:
        if task.done():
            sock.close()
            raise NotConnected("the server did not start") from task.exception()
        await asyncio.sleep(0)
    return Serving(server, task, sock.getsockname()[1])


def _listening(options: Options) -> socket.socket:
    host = "127.0.0.1" if options.host.lower() == "localhost" else options.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, options.port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise NotConnected(
            f"cannot listen on {options.host}:{options.port}: {reason}",
            hint="another program may use the port; API_SERVER_PORT takes another one",
        ) from error
    sock.setblocking(False)
    return sock


log = logging.getLogger(__name__)

PROBE_SECONDS = 5.0


class ApiServer(BaseAdapter):
    """Serves `context.extra["app"]`. Requests do not use the inbox and outbox: the client waits
    for the answer."""

    def __init__(self, context: AdapterContext, options: Options | None = None) -> None:
        """`options` replaces those of the settings and variables."""
        super().__init__(context)
        self._options = options
        self._app: App = context.extra["app"]
        self._serving: Serving | None = None
        self._turns: Turns | None = None
        self._idempotency = Idempotency(self._app.clock)
        self._draining = False
        """True while draining: then it is correct that /health does not answer."""
        self.port = 0
        """The port it listens on, once connected."""

    async def connect(self, receive: Receive) -> None:
        """Start the server and return when /health answers; `receive` is not used."""
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
        # Exclude the objects that exist now from garbage collection: scanning them takes a tenth of
        # the cost of a new session.
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
        """Let running turns finish for `gateway.drain_seconds`, then stop them and inform their
        clients."""
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

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
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
