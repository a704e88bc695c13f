"""The HTTP server for platforms that call us: time limits, bounded request bodies, signatures."""

import asyncio
import contextlib
import hashlib
import hmac
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, ClassVar

import h11
import msgspec
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes.core.ports import Clock
from hermes.sdk.platforms.connection import Connection
from hermes.sdk.platforms.contract import NotConnected
from hermes.util.http import from_here

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
        # asyncio sets this only for sockets that name their protocol, which `create_server` does
        # not. Without it each response on a kept connection waits 40 ms for an acknowledgement.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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


class EarlyResponse:
    """A response to a body that is too large. The rest of the body is read before the end of the
    response, see `BodyTooLarge`."""

    def __init__(self, response: ASGIApp, too_large: BodyTooLarge, receive: AsgiReceive) -> None:
        self._response, self._too_large, self._receive = response, too_large, receive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_unended(message: Message) -> None:
            await send({**message, "more_body": True})

        await self._response(scope, receive, send_unended)
        await discard_body(self._receive, self._too_large)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class HttpRequestRefused(Exception):
    """The request is refused; the text is for the caller."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
        self.too_large: BodyTooLarge | None = None

    def response(self, receive: AsgiReceive) -> ASGIApp:
        """Return the response; `receive` reads what is left of the body."""
        response = JSONResponse({"error": str(self)}, self.status, self.headers)
        return EarlyResponse(response, self.too_large, receive) if self.too_large else response


async def read_raw_body(request: Request, most: int, seconds: float) -> bytes:
    """Return the body as it was sent, which is what signatures cover. Raises
    `HttpRequestRefused`."""
    try:
        async with asyncio.timeout(seconds):
            return await read_body(request.receive, request.headers, most)
    except BodyTooLarge as error:
        refusal = HttpRequestRefused(413, "the body is too large", Connection="close")
        refusal.too_large = error
        raise refusal from None
    except TimeoutError:
        raise HttpRequestRefused(408, "the body took too long", Connection="close") from None
    except ClientDisconnected:
        raise HttpRequestRefused(400, "the body is not complete") from None


# Signatures.
#
# Exactly one of these headers carries the proof and decides how it is checked. A wrong proof is
# never tried in another way.
#
#     X-Hub-Signature-256    sha256=<hex>           HMAC-SHA256 of the body (GitHub)
#     X-Gitlab-Token         <secret>               the secret itself (GitLab)
#     X-Webhook-Signature    [sha256=]<hex>         HMAC-SHA256 of the body, or of
#     X-Signature            [sha256=]<hex>         `<timestamp>.<body>` when a timestamp is sent
#
# The timestamp (X-Webhook-Timestamp or X-Timestamp, in seconds since 1970) must be at most five
# minutes from our clock. The older X-Hub-Signature with SHA-1 proves nothing.

REPLAY_SECONDS = 300.0
"""Seconds that the clock of a caller may differ, and that a request is remembered."""
MAX_REMEMBERED = 10_000

_TIMES = (b"x-webhook-timestamp", b"x-timestamp")
_SIGNED = {
    b"x-hub-signature-256": re.compile(rb"sha256=([0-9a-fA-F]{64})"),
    b"x-webhook-signature": re.compile(rb"(?:sha256=)?([0-9a-fA-F]{64})"),
    b"x-signature": re.compile(rb"(?:sha256=)?([0-9a-fA-F]{64})"),
}
_TOKEN = b"x-gitlab-token"
_SECONDS = re.compile(rb"[0-9]{1,12}")


class InvalidSignature(Exception):
    """The proof is missing or wrong; the text is only for the log."""


class VerifiedSignature(msgspec.Struct, frozen=True):
    signed: bool  #: True if the body is signed: the same body again may be a replay.
    timestamp: str = ""  #: When the caller signed it, if the time is signed too.


def verify_signature(
    headers: Iterable[tuple[bytes, bytes]], body: bytes, secret: str, now: float
) -> VerifiedSignature:
    """Check the proof of a request. Raises `InvalidSignature`."""
    key = secret.encode()
    found = [(name.lower(), value) for name, value in headers]
    proofs = [each for each in found if each[0] in _SIGNED or each[0] == _TOKEN]
    if len(proofs) != 1:
        raise InvalidSignature(f"{len(proofs)} signatures" if proofs else "no signature")
    name, value = proofs[0]
    if name == _TOKEN:
        if not hmac.compare_digest(_digest(key, value), _digest(key, key)):
            raise InvalidSignature("wrong token")
        return VerifiedSignature(signed=False)
    match = _SIGNED[name].fullmatch(value)
    if match is None:
        raise InvalidSignature("the signature is not SHA-256 in hexadecimal digits")
    stamp = b"" if name == b"x-hub-signature-256" else _timestamp(found, now)
    wanted = _digest(key, stamp + b"." + body if stamp else body)
    if not hmac.compare_digest(bytes.fromhex(match[1].decode()), wanted):
        raise InvalidSignature("wrong signature")
    return VerifiedSignature(signed=True, timestamp=stamp.decode())


def _timestamp(found: list[tuple[bytes, bytes]], now: float) -> bytes:
    times = [value for name, value in found if name in _TIMES]
    if not times:
        return b""
    if len(times) > 1 or not _SECONDS.fullmatch(times[0]):
        raise InvalidSignature("the timestamp is not a number of seconds")
    if abs(now - int(times[0])) > REPLAY_SECONDS:
        raise InvalidSignature("the timestamp is too old or too new")
    return times[0]


def _digest(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()


class ReplayWindow:
    """Recently stored requests. A replay may have another id, because the id is not signed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recent: dict[bytes, float] = {}

    def add(self, digest: bytes) -> None:
        self._recent[digest] = self._clock.monotonic()

    def remove(self, digest: bytes) -> None:
        self._recent.pop(digest, None)

    def __contains__(self, digest: bytes) -> bool:
        oldest = self._clock.monotonic() - REPLAY_SECONDS
        if len(self._recent) > MAX_REMEMBERED or any(t < oldest for t in self._recent.values()):
            kept = [each for each in self._recent.items() if each[1] >= oldest]
            self._recent = dict(kept[-MAX_REMEMBERED:])
        return digest in self._recent
