"""The HTTP server for platforms that call us: time limits, bounded request bodies."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes.sdk.platforms.connection import Connection
from hermes.sdk.platforms.contract import NotConnected
from hermes.util.hosts import from_here

MAX_CONNECTIONS = 200  #: Further requests get 503.
DRAIN_SECONDS = 5  #: For requests in progress at the end.
MAX_DISCARDED_BYTES = 64_000_000
DISCARD_SECONDS = 20.0
HEALTH_SECONDS = 5.0
AsgiReceive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class TimeLimitedProtocol(H11Protocol):
    """Closes connections of clients that send no request or do not read the response.

    uvicorn itself waits for them without limit, so a few clients could block all others.
    """

    head_seconds: ClassVar[float] = 15.0  #: Time for a client to send its request head.
    send_seconds: ClassVar[float] = 60.0  #: Time for a client to read what was sent.
    _head_timer: asyncio.TimerHandle | None = None
    _send_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            _cancel(self._head_timer)
            self._head_timer = None

    def _wait_for_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._send_timer = self.loop.call_later(self.send_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._send_timer)

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._head_timer)
        _cancel(self._send_timer)
        super().connection_lost(exc)


class _UvicornServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the gateway."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening, self._leaving = asyncio.Event(), asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        """Wake once a second, for the date header, instead of ten times."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._leaving.wait()

    def leave(self) -> None:
        self.should_exit = True
        self._leaving.set()


class HttpServer:
    """An HTTP server inside our event loop, for an ASGI application."""

    def __init__(
        self,
        app: Any,
        host: str,
        port: int,
        *,
        label: str,
        hint: str,
        protocol: type[TimeLimitedProtocol] = TimeLimitedProtocol,
        drain_seconds: float = DRAIN_SECONDS,
        backlog: int = 128,
        **config: Any,
    ) -> None:
        """Bind the address; port 0 takes any. Raises `NotConnected` with `hint` if that fails.

        `config` is passed to uvicorn. Responses in progress at the end have `drain_seconds`.
        """
        bare = "127.0.0.1" if host.lower() == "localhost" else host.strip("[]")
        family = socket.AF_INET6 if ":" in bare else socket.AF_INET
        try:
            self._socket = socket.create_server((bare, port), family=family, backlog=backlog)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise NotConnected(
                f"{label} cannot listen on {host} port {port}: {reason}", hint=hint
            ) from error
        self._socket.setblocking(False)
        self._host, self._label, self._drain_seconds = host, label, drain_seconds
        self.port: int = self._socket.getsockname()[1]
        self._server = _UvicornServer(
            uvicorn.Config(
                app,
                interface="asgi3",
                http=protocol,
                ws="none",
                loop="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=backlog,
                **config,
            )
        )
        self.listening = self._server.listening

    async def serve(self) -> None:
        """Serve until `close`, or until `stop_accepting` and the last response."""
        with self._socket:
            await self._server.serve(sockets=[self._socket])

    def stop_accepting(self) -> None:
        self._server.leave()

    async def close(self, serving: "asyncio.Task[None]") -> None:
        """Stop the task that runs `serve`, and cut what is still open after the drain."""
        self._server.leave()
        _done, pending = await asyncio.wait([serving], timeout=self._drain_seconds)
        if pending:
            self._server.force_exit = True
            state = self._server.server_state
            for connection in tuple(state.connections):
                connection.transport.abort()
            for task in tuple(state.tasks):
                task.cancel()
            await asyncio.wait([serving])

    async def check_health(self) -> None:
        """Request our own /health. Raises `NotConnected`."""
        line = b""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(HEALTH_SECONDS):
                reader, writer = await asyncio.open_connection(from_here(self._host), self.port)
                try:
                    writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    line = await reader.readline()
                finally:
                    writer.close()
        if b" 200 " not in line:
            raise NotConnected(f"{self._label} does not answer on port {self.port}")


async def serve_http(
    connection: Connection, app: Any, host: str, port: int, *, hint: str
) -> HttpServer:
    """Serve an ASGI application until the connection ends. Raises `NotConnected` with the hint
    when the port is in use."""
    server = HttpServer(
        app, host, port, label=connection.label, hint=hint, limit_concurrency=MAX_CONNECTIONS
    )
    serving = connection.run_until_closed(server.serve())
    connection.resources.push_async_callback(server.close, serving)
    await connection.wait_for(server.listening)
    return server


class BodyTooLarge(Exception):
    """The request body exceeds the limit.

    The response is sent at once, but the connection stays open while the client sends: many
    clients read the response only afterwards, and see nothing of it on a closed connection.
    """

    def __init__(self, *, waits: bool, more: bool = True) -> None:
        super().__init__("the body is too large")
        self.is_sending = more and not waits
        """The client continues to send; otherwise it has finished, or waits for our response."""


class ClientDisconnected(Exception):
    """The client left before its body was complete."""


async def read_body(receive: AsgiReceive, headers: Mapping[str, str], most: int) -> bytes:
    """Return the body. Raises `BodyTooLarge` above `most` bytes, and `ClientDisconnected`."""
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise BodyTooLarge(waits="expect" in headers)
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientDisconnected
        body += event.get("body", b"")
        more = event.get("more_body", False)
        if len(body) > most:
            raise BodyTooLarge(waits=False, more=more)
        if not more:
            return bytes(body)


async def discard_body(receive: AsgiReceive, too_large: BodyTooLarge) -> None:
    """Read the rest of the body, between the response and its end, which closes the connection."""
    left = MAX_DISCARDED_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while too_large.is_sending and left > 0:
                event = await receive()
                left -= len(event.get("body", b""))
                if not event.get("more_body", False):
                    return


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
