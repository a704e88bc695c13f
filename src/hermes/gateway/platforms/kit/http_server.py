"""An HTTP server for platforms that call us."""

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

# HTTP connections of clients who never say what they want, or never read, are given up.
#
# uvicorn waits for them for ever, and whoever opens enough of them keeps everybody else out.


class TimeLimitedProtocol(H11Protocol):
    head_seconds: ClassVar[float] = 15.0
    """For a client to say what it wants."""
    send_seconds: ClassVar[float] = 60.0
    """For a client to read what it was sent."""
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


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


MAX_CONNECTIONS = 200
"""More are told to come back later."""
DRAIN_SECONDS = 5
"""For calls under way, at the end."""


class _EmbeddedServer(uvicorn.Server):
    """Says when it listens. Signals are the gateway's."""

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
    """Calls are answered by an ASGI application until the connection ends. Returns the port, which
    is chosen when it is 0. Raises `NotConnected` with the hint when it is taken."""
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


# The body of a request over ASGI, up to a limit.
#
# A client that sends more is answered at once, but its connection is not closed as long as it
# sends:
# it looks for the answer only then, and of a connection that is closed before it sees nothing at
# all.

MAX_DISCARDED_BYTES = 64_000_000
"""Bytes."""
DISCARD_SECONDS = 20.0

AsgiReceive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class BodyTooLarge(Exception):
    def __init__(self, *, waits: bool, more: bool = True) -> None:
        super().__init__("the body is too large")
        self.is_sending = more and not waits
        """The client goes on sending; else it has ended, or waits for a word of ours."""


class ClientDisconnected(Exception):
    """Before its body was complete."""


async def read_body(receive: AsgiReceive, headers: Mapping[str, str], most: int) -> bytes:
    """Raises `BodyTooLarge` and `ClientDisconnected`."""
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
    """Between the answer and its end, which closes the connection."""
    left = MAX_DISCARDED_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while too_large.is_sending and left > 0:
                event = await receive()
                left -= len(event.get("body", b""))
                if not event.get("more_body", False):
                    return
