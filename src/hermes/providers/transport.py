"""The HTTP client of model calls: HTTP/1.1 on asyncio.

Loading a general HTTP library takes a quarter of the CPU time of a short chat, and its connection
pool looks at every connection for every request (decision 022). Where the environment sets a proxy,
`make_model_client` returns the general client, which has the same methods.
"""

import asyncio
import re
import ssl
import sys
import time
import zlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from functools import lru_cache
from typing import Any, Protocol, cast
from urllib.parse import quote

from hermes.config.environment import variables
from hermes.util.http import HttpUrl, is_header_value, parse_http_url

READ_BUFFER_LIMIT = 1_048_576  #: Unread bytes after which reading pauses.
MAX_HEAD = 262_144  #: Bytes of the status line and headers, or of the line before a chunk.
HAPPY_EYEBALLS_DELAY = 0.25  #: Seconds until another address of the same host is tried in parallel.
MAX_IDLE = 256  #: Connections kept for the next request.
IDLE_SECONDS = 600.0
"""An idle connection is kept while the user thinks, because a new one costs a handshake."""
PROXY_VARIABLES = {"http_proxy", "https_proxy", "all_proxy"}
DEFAULT_HEADERS = {"accept": "*/*", "accept-encoding": "gzip", "connection": "keep-alive"}

Origin = tuple[str, str, int]  #: Scheme, host and port.

CallTimeouts = tuple[float | None, float | None, float | None, float | None]
"""Seconds to connect, of silence while reading and while writing, and to wait for a connection,
which is not needed here: their number is not limited."""


class ConnectionFailed(Exception):
    """The server cannot be reached."""


class ResponseStalled(Exception):
    """The server is silent for too long."""


class ResponseCut(Exception):
    """The response is not complete, or not valid HTTP."""


CALL_ERRORS = (ConnectionFailed, ResponseStalled, ResponseCut)


class StreamedResponse(Protocol):
    """What a model call needs of a response."""

    status_code: int

    @property
    def headers(self) -> Mapping[str, str]: ...
    def aiter_raw(self) -> AsyncGenerator[bytes, None]: ...
    def aiter_bytes(self) -> AsyncGenerator[bytes, None]: ...
    async def aread(self) -> bytes: ...


class ModelHttpClient(Protocol):
    """What model calls need of an HTTP client."""

    def stream(
        self,
        method: str,
        url: str,
        *,
        content: bytes,
        headers: Mapping[str, str],
        timeout: CallTimeouts,
    ) -> AbstractAsyncContextManager[StreamedResponse]: ...
    async def aclose(self) -> None: ...


def make_model_client(context: ssl.SSLContext) -> ModelHttpClient:
    """Return a client that follows no redirect, because the key would be sent along."""
    if not _has_proxy():
        return HttpClient(context)
    import httpx2  # slow to load, and few machines have a proxy

    limits = httpx2.Limits(
        max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=IDLE_SECONDS
    )
    client = httpx2.AsyncClient(verify=context, limits=limits, follow_redirects=False)
    return cast("ModelHttpClient", client)


def _has_proxy() -> bool:
    names = {name.lower() for name, value in variables().items() if value}
    if sys.platform in ("darwin", "win32"):
        from urllib.request import getproxies  # slow to load; reads the settings of the system

        names |= {f"{scheme}_proxy" for scheme in getproxies()}
    return not names.isdisjoint(PROXY_VARIABLES)


class HttpConnection(asyncio.Protocol):
    """One connection. Used by one task at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._unread: deque[bytes] = deque()
        self._size = 0
        self._ended = self._full = self._stopped = False
        self._error: Exception | None = None
        self._waiting: asyncio.Future[None] | None = None
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._unread.append(data)
        self._size += len(data)
        if self._size > READ_BUFFER_LIMIT and not self._stopped:
            self._stopped = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._ended = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended, self._error = True, error
        self._wake()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._wake()

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent: between two, only the end is readable."""
        fresh = time.monotonic() - self.idle_since < IDLE_SECONDS
        return fresh and not self._ended and not self._unread

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        if type(context) is not ssl.SSLContext:  # a subclass may read certificates first
            bios = ssl.MemoryBIO(), ssl.MemoryBIO()
            await asyncio.to_thread(context.wrap_bio, *bios, server_hostname=host)
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=host)
        if transport is None:
            raise ConnectionFailed("the connection was closed")
        self._transport = transport

    async def send(self, data: bytes, seconds: float | None) -> None:
        self._transport.write(data)
        while self._full and not self._ended:
            await self._change(seconds)

    async def receive(self, seconds: float | None) -> bytes:
        """Return the next bytes, or b"" at the end of the stream."""
        while not self._unread and not self._ended:
            await self._change(seconds)
        if not self._unread:
            if self._error is not None:
                raise ResponseCut(str(self._error)) from self._error
            return b""
        data = self._unread.popleft()
        self._size -= len(data)
        if self._stopped and not self._ended and self._size < READ_BUFFER_LIMIT:
            self._stopped = False
            self._transport.resume_reading()
        return data

    def abort(self) -> None:
        self._transport.abort()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _change(self, seconds: float | None) -> None:
        """Wait until the state changes. Raises `ResponseStalled`."""
        self._waiting = waiting = self._loop.create_future()
        timer = None if seconds is None else self._loop.call_later(seconds, _expire, waiting)
        try:
            await waiting
        except TimeoutError as error:
            raise ResponseStalled(f"no data for {seconds:g} s") from error
        finally:
            self._waiting = None
            if timer is not None:
                timer.cancel()


def _expire(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_exception(TimeoutError())


def _parse_target(url: str) -> HttpUrl:
    """Raises `ConnectionFailed` if `url` cannot be used."""
    target = parse_http_url(url)
    if target is None or target.has_login:
        raise ConnectionFailed("it is not a valid http or https URL")
    return target


@lru_cache(maxsize=64)
def _request_start(target: HttpUrl) -> str:
    """Return the path with its query, and the first header."""
    path = quote(target.path or "/", safe="/%:@!$&'()*+,;=~-._")
    if target.query:
        path += "?" + quote(target.query, safe="/%:@!$&'()*+,;=~-._?[]")
    host = f"[{target.host}]" if ":" in target.host else target.host
    is_usual = target.port == (443 if target.scheme == "https" else 80)
    return f"{path} HTTP/1.1\r\nhost: {host if is_usual else f'{host}:{target.port}'}\r\n"


class HttpClient:
    """Sends requests over connections that are kept. `context` is for https."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        context.set_alpn_protocols(["http/1.1"])
        self._idle: dict[Origin, list[HttpConnection]] = {}

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        content: bytes,
        headers: Mapping[str, str],
        timeout: CallTimeouts,
    ) -> AsyncIterator["HttpResponseStream"]:
        """Send a request; yield the response when its head has arrived. Raises `CALL_ERRORS`."""
        target = _parse_target(url)
        request = _encode_request(method, target, headers, content)
        connect, read, write, _ = timeout
        connection = self._take(target.origin) or await self._connect(target.origin, connect)
        response: HttpResponseStream | None = None
        try:
            await connection.send(request, write)
            response = await _read_head(connection, read)
            if headers.get("connection") == "close":
                response.keeps_connection = False
            yield response
        finally:
            if response is not None and response.is_complete and response.keeps_connection:
                self._keep(target.origin, connection)
            else:
                connection.abort()

    async def aclose(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # lets the loop close them

    def _take(self, origin: Origin) -> HttpConnection | None:
        idle = self._idle.get(origin, [])
        while idle:
            connection = idle.pop()
            if connection.is_usable:
                return connection
            connection.abort()
        return None

    def _keep(self, origin: Origin, connection: HttpConnection) -> None:
        connection.idle_since = time.monotonic()
        self._idle.setdefault(origin, []).append(connection)
        if sum(map(len, self._idle.values())) > MAX_IDLE:
            oldest = min((each for each in self._idle.values() if each), key=_oldest)
            oldest.pop(0).abort()

    async def _connect(self, origin: Origin, seconds: float | None) -> HttpConnection:
        scheme, host, port = origin
        is_address = ":" in host or host.replace(".", "").isdigit()
        delay = None if is_address else HAPPY_EYEBALLS_DELAY
        loop = asyncio.get_running_loop()
        connection: HttpConnection | None = None
        done = False
        try:
            async with asyncio.timeout(seconds):
                _, connection = await loop.create_connection(
                    HttpConnection, host, port, happy_eyeballs_delay=delay
                )
                if scheme == "https":
                    await connection.start_tls(self._context, host)
            done = True
            return connection
        except TimeoutError as error:
            raise ConnectionFailed(str(error) or f"no connection after {seconds:g} s") from error
        except OSError as error:  # TLS errors are OSError as well
            raise ConnectionFailed(str(error)) from error
        finally:
            if connection is not None and not done:
                connection.abort()


def _oldest(connections: list[HttpConnection]) -> float:
    return connections[0].idle_since


def _encode_request(
    method: str, target: HttpUrl, headers: Mapping[str, str], content: bytes
) -> bytes:
    fields = DEFAULT_HEADERS | {name.lower(): value for name, value in headers.items()}
    fields["content-length"] = str(len(content))
    lines = [f"{method} {_request_start(target)}"]
    for name, value in fields.items():
        if not (is_header_value(value) and is_header_value(name)) or ":" in name or " " in name:
            raise ConnectionFailed(f"the header {name!r} cannot be sent")
        lines.append(f"{name}: {value}\r\n")
    return f"{''.join(lines)}\r\n".encode() + content


_HEAD_END = re.compile(rb"\r?\n\r?\n")


async def _read_head(connection: HttpConnection, seconds: float | None) -> "HttpResponseStream":
    data = b""
    while True:
        if end := _HEAD_END.search(data):
            status, headers, version = _parse_head(data[: end.start()])
            data = data[end.end() :]
            if status >= 200:
                return HttpResponseStream(connection, seconds, status, headers, version, data)
            continue  # 100 Continue, 103 Early Hints
        if len(data) > MAX_HEAD:
            raise ResponseCut("the head of the response is too long")
        more = await connection.receive(seconds)
        if not more:
            raise ResponseCut("the server closed the connection without a response")
        data += more


def _parse_head(head: bytes) -> tuple[int, dict[str, str], bytes]:
    first, *lines = (line.removesuffix(b"\r") for line in head.split(b"\n"))
    version, _, rest = first.partition(b" ")
    code = rest[:3]
    if not version.startswith(b"HTTP/1.") or not code.isdigit() or len(code) < 3:
        raise ResponseCut(f"this is not an HTTP response: {first[:80]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, mark, value = line.decode("latin-1").partition(":")
        if not mark or name != name.strip():
            raise ResponseCut(f"this is not a header: {line[:80]!r}")
        key, value = name.lower(), value.strip()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return int(code), headers, version


class HttpResponseStream:
    """A response whose body is read as it arrives."""

    def __init__(
        self,
        connection: HttpConnection,
        seconds: float | None,
        status: int,
        headers: dict[str, str],
        version: bytes,
        data: bytes,
    ) -> None:
        self.status_code, self.headers = status, headers
        self._connection, self._seconds, self._data = connection, seconds, data
        self.is_complete = False  #: True when the whole body was read.
        wish = headers.get("connection", "").lower()
        self.keeps_connection = "close" not in wish and (
            version != b"HTTP/1.0" or "keep-alive" in wish
        )

    async def aread(self) -> bytes:
        return b"".join([chunk async for chunk in self.aiter_bytes()])

    async def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        """Yield the body, unpacked. Raises `ResponseCut` for an unknown or damaged encoding."""
        unpackers = [_unpacker(name) for name in reversed(self._encodings())]
        try:
            async with aclosing(self.aiter_raw()) as chunks:
                async for chunk in chunks:
                    for unpacker in unpackers:
                        chunk = unpacker.decompress(chunk)
                    if chunk:
                        yield chunk
        except zlib.error as error:
            raise ResponseCut(f"the body cannot be unpacked: {error}") from error

    def _encodings(self) -> list[str]:
        given = self.headers.get("content-encoding", "").lower().split(",")
        return [name.strip() for name in given if name.strip() not in ("", "identity")]

    def aiter_raw(self) -> AsyncGenerator[bytes, None]:
        """Return the body as it was sent."""
        if self.status_code in (204, 304):
            return self._read_length(0)
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return self._read_chunked()
        length = self.headers.get("content-length")
        if length is None:
            self.keeps_connection = False
            return self._read_to_end()
        lengths = {each.strip() for each in length.split(",")}
        if len(lengths) != 1 or not (size := lengths.pop()).isdigit():
            raise ResponseCut(f"the length of the body is not a number: {length[:40]!r}")
        return self._read_length(int(size))

    async def _read_length(self, left: int) -> AsyncGenerator[bytes, None]:
        data, self._data = self._data, b""
        while left:
            data = data or await self._receive()
            if len(data) > left:
                self.keeps_connection = False  # more than was announced
                data = data[:left]
            left -= len(data)
            yield data
            data = b""
        self.keeps_connection = self.keeps_connection and not data
        self.is_complete = True

    async def _read_to_end(self) -> AsyncGenerator[bytes, None]:
        data, self._data = self._data, b""
        while True:
            if data:
                yield data
            data = await self._connection.receive(self._seconds)
            if not data:
                self.is_complete = True
                return

    async def _read_chunked(self) -> AsyncGenerator[bytes, None]:
        """Yield what has arrived of the chunks, joined."""
        data, at, left = self._data, 0, 0
        pieces: list[bytes] = []
        first = True
        while True:
            if left:
                piece = data[at : at + left]
                pieces.append(piece)
                at += len(piece)
                left -= len(piece)
                first = False
            if not left:
                start = at if first else at + 2  # the line end after a chunk
                end = data.find(b"\r\n", start)
                if end >= 0:
                    if not first and data[at:start] != b"\r\n":
                        raise ResponseCut("a chunk of the body has another length than announced")
                    left, at = _chunk_size(data[start:end]), end + 2
                    if left:
                        first = False
                        continue
                    if pieces:
                        yield b"".join(pieces)
                    await self._read_trailers(data[at:])
                    return
                if len(data) - at > MAX_HEAD:
                    raise ResponseCut("the line before a chunk is too long")
            if pieces:
                yield b"".join(pieces)
                pieces = []
            data, at = data[at:] + await self._receive(), 0

    async def _read_trailers(self, data: bytes) -> None:
        while not data.startswith(b"\r\n") and b"\r\n\r\n" not in data:
            if len(data) > MAX_HEAD:
                raise ResponseCut("the end of the body is too long")
            data += await self._receive()
        rest = data[2:] if data.startswith(b"\r\n") else data.partition(b"\r\n\r\n")[2]
        self.keeps_connection = self.keeps_connection and not rest
        self.is_complete = True

    async def _receive(self) -> bytes:
        data = await self._connection.receive(self._seconds)
        if not data:
            raise ResponseCut("the server closed the connection before the end of the response")
        return data


def _chunk_size(line: bytes) -> int:
    size = line.partition(b";")[0].strip()
    if not size or len(size) > 16 or size.strip(b"0123456789abcdefABCDEF"):
        raise ResponseCut(f"this is not the length of a chunk: {line[:40]!r}")
    return int(size, 16)


def _unpacker(encoding: str) -> Any:
    if encoding not in ("gzip", "x-gzip"):
        raise ResponseCut(f"the encoding {encoding[:40]!r} of the body is not known")
    return zlib.decompressobj(zlib.MAX_WBITS | 16)
