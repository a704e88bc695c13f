"""The HTTP server for platforms that call us: time limits, bounded request bodies."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes.gateway.platforms.kit.connection import Connection
from hermes.gateway.platforms.kit.contract import NotConnected

MAX_CONNECTIONS = 200
"""Further requests get 503."""
DRAIN_SECONDS = 5
"""For requests in progress at the end."""
MAX_DISCARDED_BYTES = 64_000_000
"""Bytes."""
DISCARD_SECONDS = 20.0
AsgiReceive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class TimeLimitedProtocol(H11Protocol):
    """Closes connections of clients that send no request or do not read the response.

    uvicorn itself waits for them without limit, so a few clients could block all others.
    """

    head_seconds: ClassVar[float] = 15.0
    """Time for a client to send its request head."""
    send_seconds: ClassVar[float] = 60.0
    """Time for a client to read what was sent."""
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


class _EmbeddedServer(uvicorn.Server):
    """A uvicorn server that reports when it listens and leaves signals to the gateway."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_http(connection: Connection, app: Any, host: str, port: int, *, hint: str) -> int:
    """Serve an ASGI application until the connection ends; return the port (chosen by the system
    for 0). Raises `NotConnected` with the hint when the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise NotConnected(
            f"{connection.label} cannot listen on {host} port {port}: {error.strerror}", hint=hint
        ) from None
    config = uvicorn.Config(
        app,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        http=TimeLimitedProtocol,
        ws="none",
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    server = _EmbeddedServer(config)

    async def serve() -> None:
        with listening:
            await server.serve(sockets=[listening])

    serving = connection.run_until_closed(serve())

    async def leave() -> None:
        server.should_exit = True
        await asyncio.wait([serving])

    connection.resources.push_async_callback(leave)
    await connection.wait_for(server.listening)
    return int(listening.getsockname()[1])


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
