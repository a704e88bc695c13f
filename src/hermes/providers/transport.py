"""An asyncio network backend for the HTTP client.

The client's own backend passes through the event loop for every piece it writes, and pauses and
resumes reading around every piece it reads: a tenth of the cost of a model call.
"""

import asyncio
import ipaddress
import ssl
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from typing import Any, cast
from urllib.request import getproxies

import httpcore2
import httpx2

WRITE_BUFFER_SIZE = 65_536
"""Bytes. The head of a request waits for its body, so that both are sent together."""
READ_BUFFER_LIMIT = 1_048_576  #: Unread bytes after which reading pauses.
HAPPY_EYEBALLS_DELAY = 0.25  #: Seconds until another address of the same host is tried in parallel.
EXTRA_INFO_NAMES = {
    "ssl_object": "ssl_object",
    "client_addr": "sockname",
    "server_addr": "peername",
    "socket": "socket",
}
"""Names of the client mapped to those of asyncio."""
POOL_SIZE = 32  #: Requests in flight in one connection pool.
IDLE_CONNECTIONS = 8  #: Idle connections that pools after the first keep.
PROXY_SCHEMES = {"http", "https", "all"}  #: Kinds of proxies.


def make_transport(
    context: ssl.SSLContext, limits: httpx2.Limits
) -> httpx2.AsyncBaseTransport | None:
    """Return None when the environment sets a proxy: the client's own transport handles it."""
    return None if PROXY_SCHEMES & getproxies().keys() else AsyncioTransport(context, limits)


class _Pool(httpx2.AsyncHTTPTransport):
    def __init__(self, context: ssl.SSLContext, limits: httpx2.Limits) -> None:
        super().__init__(verify=context, limits=limits)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=AsyncioBackend(),
        )
        self.requests = 0  #: Requests whose response is not closed yet.


class _CountedStream(httpx2.AsyncByteStream):
    """The body of a response, which counts as in progress until it is closed."""

    def __init__(self, inner: httpx2.AsyncByteStream, pool: _Pool) -> None:
        self._inner, self._pool = inner, pool
        self._is_open = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._inner.__aiter__()

    async def aclose(self) -> None:
        if self._is_open:
            self._is_open = False
            self._pool.requests -= 1
        await self._inner.aclose()


class AsyncioTransport(httpx2.AsyncBaseTransport):
    """Sends requests through connection pools of limited size.

    A pool looks at each of its connections for every request, so its cost grows with the square of
    the requests in flight. A request goes to the first pool with room: a few requests at a time
    share the connections of one pool.
    """

    def __init__(self, context: ssl.SSLContext, limits: httpx2.Limits) -> None:
        self._context, self._limits = context, limits
        self._pools = [_Pool(context, limits)]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        pool = next((each for each in self._pools if each.requests < POOL_SIZE), None)
        if pool is None:
            limits = httpx2.Limits(
                max_connections=self._limits.max_connections,
                max_keepalive_connections=IDLE_CONNECTIONS,
                keepalive_expiry=self._limits.keepalive_expiry,
            )
            pool = _Pool(self._context, limits)
            self._pools.append(pool)
        pool.requests += 1
        try:
            response = await pool.handle_async_request(request)
        except BaseException:
            pool.requests -= 1
            raise
        response.stream = _CountedStream(cast("httpx2.AsyncByteStream", response.stream), pool)
        return response

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.aclose()


class AsyncioBackend(httpcore2.AsyncNetworkBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> "AsyncioStream":
        make = asyncio.get_running_loop().create_connection
        own = (local_address, 0) if local_address else None
        delay = None if _is_address(host) else HAPPY_EYEBALLS_DELAY
        try:
            async with asyncio.timeout(timeout):
                _, connection = await make(
                    AsyncioStream, host, port, local_addr=own, happy_eyeballs_delay=delay
                )
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        for option in socket_options or ():
            connection.get_extra_info("socket").setsockopt(*option)
        return connection

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class AsyncioStream(asyncio.Protocol, httpcore2.AsyncNetworkStream):
    """One connection. Used by one task at a time, as the client does with HTTP/1.1."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._unsent = b""
        self._unread: deque[bytes] = deque()
        self._size = 0
        self._ended = self._full = self._stopped = False
        self._error: Exception | None = None
        self._waiting: asyncio.Future[None] | None = None

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

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _change(self, seconds: float | None) -> None:
        """Wait until the state changes. Raises `TimeoutError`."""
        self._waiting = waiting = self._loop.create_future()
        timer = None if seconds is None else self._loop.call_later(seconds, _expire, waiting)
        try:
            await waiting
        finally:
            self._waiting = None
            if timer is not None:
                timer.cancel()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._send()
        try:
            while not self._unread and not self._ended:
                await self._change(timeout)
        except TimeoutError as error:
            raise httpcore2.ReadTimeout(str(error)) from error
        if not self._unread:
            if self._error is not None:
                raise httpcore2.ReadError(str(self._error)) from self._error
            return b""
        data = self._unread.popleft()
        if len(data) > max_bytes:
            self._unread.appendleft(data[max_bytes:])
            data = data[:max_bytes]
        self._size -= len(data)
        if self._stopped and not self._ended and self._size < READ_BUFFER_LIMIT:
            self._stopped = False
            self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._unsent += buffer
        if len(self._unsent) < WRITE_BUFFER_SIZE:
            return
        self._send()
        try:
            while self._full and not self._ended:
                await self._change(timeout)
        except TimeoutError as error:
            raise httpcore2.WriteTimeout(str(error)) from error
        if self._ended:
            raise httpcore2.WriteError(str(self._error or "the connection was closed"))

    def _send(self) -> None:
        if self._unsent:
            unsent, self._unsent = self._unsent, b""
            self._transport.write(unsent)

    async def aclose(self) -> None:
        self._transport.abort()
        await asyncio.sleep(0)  # lets the loop close it

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> "AsyncioStream":
        async with AsyncExitStack() as unless_done:
            unless_done.push_async_callback(self.aclose)
            try:
                async with asyncio.timeout(timeout):
                    secured = await self._secured(ssl_context, server_hostname)
            except TimeoutError as error:
                raise httpcore2.ConnectTimeout(str(error)) from error
            except OSError as error:  # TLS errors are OSError as well
                raise httpcore2.ConnectError(str(error)) from error
            if secured is None:
                raise httpcore2.ConnectError("the connection was closed")
            unless_done.pop_all()
        self._transport = secured
        return self

    async def _secured(self, context: ssl.SSLContext, name: str | None) -> asyncio.Transport | None:
        if type(context) is not ssl.SSLContext:  # a subclass may read certificates first
            bios = ssl.MemoryBIO(), ssl.MemoryBIO()
            await asyncio.to_thread(context.wrap_bio, *bios, server_hostname=name)
        return await self._loop.start_tls(self._transport, self, context, server_hostname=name)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # between two requests only the end of the stream is readable
            return self._ended or bool(self._unread)
        return (
            self._transport.get_extra_info(EXTRA_INFO_NAMES[info])
            if info in EXTRA_INFO_NAMES
            else None
        )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _expire(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_exception(TimeoutError())
