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


class Impatient(H11Protocol):
    head_seconds: ClassVar[float] = 15.0
    """For a client to say what it wants."""
    send_seconds: ClassVar[float] = 60.0
    """For a client to read what it was sent."""
    _saying: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            _stop(self._saying)
            self._saying = None

    def _wait_for_head(self) -> None:
        if self._saying is None:
            self._saying = self.loop.call_later(self.head_seconds, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self.loop.call_later(self.send_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _stop(self._reading)

    def connection_lost(self, exc: Exception | None) -> None:
        _stop(self._saying)
        _stop(self._reading)
        super().connection_lost(exc)


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


MOST_CONNECTIONS = 200
"""More are told to come back later."""
DRAIN_SECONDS = 5
"""For calls under way, at the end."""


class _Quiet(uvicorn.Server):
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


async def listen(connection: Connection, app: Any, host: str, port: int, *, hint: str) -> int:
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
        http=Impatient,
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    server = _Quiet(config)

    async def serve() -> None:
        with listening:
            await server.serve(sockets=[listening])

    serving = connection.flow(serve())

    async def leave() -> None:
        server.should_exit = True
        await asyncio.wait([serving])

    connection.ends.push_async_callback(leave)
    await connection.until(server.listening)
    return int(listening.getsockname()[1])


# The body of a request over ASGI, up to a limit.
#
# A client that sends more is answered at once, but its connection is not closed as long as it
# sends:
# it looks for the answer only then, and of a connection that is closed before it sees nothing at
# all.

MOST_READ_AWAY = 64_000_000
"""Bytes."""
READ_AWAY_SECONDS = 20.0

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class TooLarge(Exception):
    def __init__(self, *, waits: bool, more: bool = True) -> None:
        super().__init__("the body is too large")
        self.sends = more and not waits
        """The client goes on sending; else it has ended, or waits for a word of ours."""


class ClientLeft(Exception):
    """Before its body was complete."""


async def body_of(receive: Receive, headers: Mapping[str, str], most: int) -> bytes:
    """Raises `TooLarge` and `ClientLeft`."""
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise TooLarge(waits="expect" in headers)
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientLeft
        body += event.get("body", b"")
        more = event.get("more_body", False)
        if len(body) > most:
            raise TooLarge(waits=False, more=more)
        if not more:
            return bytes(body)


async def read_away(receive: Receive, too_large: TooLarge) -> None:
    """Between the answer and its end, which closes the connection."""
    left = MOST_READ_AWAY
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(READ_AWAY_SECONDS):
            while too_large.sends and left > 0:
                event = await receive()
                left -= len(event.get("body", b""))
                if not event.get("more_body", False):
                    return
