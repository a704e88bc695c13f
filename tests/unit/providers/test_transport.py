"""Connections over asyncio: what endpoints and the network may do to them."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.request import getproxies

import httpx2
import pytest

from hermes.providers.transport import (
    POOL_SIZE,
    READ_BUFFER_LIMIT,
    AsyncioStream,
    AsyncioTransport,
    make_transport,
)
from hermes.util.http import LateTls
from tests.unit.security.certificates import server_and_trust

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
Answer = Callable[[Reader, Writer], Awaitable[None]]

LARGE = 8 * READ_BUFFER_LIMIT
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The address of a server that does `answer` with each connection."""
    open_: set[asyncio.Task[None]] = set()

    async def accept(reader: Reader, writer: Writer) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_.add(task)
        try:
            await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            open_.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    kind = "https" if tls else "http"
    try:
        yield f"{kind}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tuple(open_):
            task.cancel()
        await asyncio.gather(*open_, return_exceptions=True)


def client(context: ssl.SSLContext | None = None, **options: object) -> httpx2.AsyncClient:
    connections = AsyncioTransport(context or LateTls(), httpx2.Limits())
    return httpx2.AsyncClient(transport=connections, timeout=10, **options)


async def head(reader: Reader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


class Noted(asyncio.Transport):
    """Remembers what it should send."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))


async def test_head_and_body_leave_together() -> None:
    connection, way = AsyncioStream(), Noted()
    connection.connection_made(way)
    for piece in (b"head ", b"body", b""):
        await connection.write(piece)
    connection.data_received(b"answer")
    assert await connection.read(3) + await connection.read(9) == b"answer"
    assert way.sent == [b"head body"]


async def test_a_connection_is_kept_for_the_next_request() -> None:
    seen: list[list[bytes]] = []

    async def answer(reader: Reader, writer: Writer) -> None:
        seen.append([])
        while said := await reader.read(100_000):
            seen[-1].append(said)
            writer.write(HELLO)

    async with serving(answer) as url, client() as http:
        for text in ("one", "two"):
            assert (await http.post(url, content=text)).text == "hello"
    (pieces,) = seen
    assert [piece.rpartition(b"\r\n\r\n")[2] for piece in pieces] == [b"one", b"two"]


async def test_many_requests_in_flight_are_spread_over_pools_and_reuse_connections() -> None:
    opened = 0
    all_arrived = asyncio.Event()
    count, arrived = 3 * POOL_SIZE + 5, 0

    async def answer(reader: Reader, writer: Writer) -> None:
        nonlocal opened, arrived
        opened += 1
        while await head(reader):
            arrived += 1
            if arrived == count:
                all_arrived.set()
            await all_arrived.wait()
            writer.write(HELLO)

    async with serving(answer) as url, client() as http:
        replies = await asyncio.gather(*[http.get(url) for _ in range(count)])
        assert {reply.text for reply in replies} == {"hello"}
        assert opened == count
        for _ in range(5):
            await http.get(url)
        assert opened == count


async def test_failed_and_unread_requests_free_their_place() -> None:
    transport = AsyncioTransport(LateTls(), httpx2.Limits())

    async def answer(reader: Reader, writer: Writer) -> None:
        await head(reader)
        writer.write(HELLO)

    async with (
        serving(answer) as url,
        httpx2.AsyncClient(transport=transport, timeout=10) as http,
    ):
        for _ in range(2 * POOL_SIZE):
            with pytest.raises(httpx2.ConnectError):
                await http.get("http://127.0.0.1:9/")
            async with http.stream("GET", url):
                pass
        assert len(transport._pools) == 1


async def test_pieces_come_as_they_are_sent() -> None:
    async def answer(reader: Reader, writer: Writer) -> None:
        await head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (b"2\r\nab\r\n", b"1\r\nc\r\n", b"0\r\n\r\n"):
            await go_on.wait()
            go_on.clear()
            writer.write(piece)

    go_on = asyncio.Event()
    async with serving(answer) as url, client() as http, http.stream("GET", url) as response:
        go_on.set()
        came = []
        async for piece in response.aiter_raw():
            came.append(piece)
            go_on.set()
    assert came == [b"ab", b"c"]


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again() -> None:
    closed = asyncio.Event()

    async def answer(reader: Reader, writer: Writer) -> None:
        await head(reader)
        writer.write(HELLO)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with serving(answer) as url, client() as http:
        for _ in range(3):
            assert (await http.get(url)).text == "hello"
            await closed.wait()
            closed.clear()
            await asyncio.sleep(0.01)


async def test_unread_data_stops_the_reading() -> None:
    sent = 0

    async def answer(reader: Reader, writer: Writer) -> None:
        nonlocal sent
        await head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (4 * LARGE))
        piece = b"x" * 65_536
        for _ in range(4 * LARGE // len(piece)):
            writer.write(piece)
            await writer.drain()
            sent += len(piece)

    async with serving(answer) as url, client() as http, http.stream("GET", url) as response:
        before = -1
        while sent != before:  # until it is stopped
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 4 * LARGE
        size = 0
        async for piece in response.aiter_raw():
            size += len(piece)
    assert size == sent == 4 * LARGE


async def test_a_large_body_arrives_whole() -> None:
    body = bytes(range(256)) * (LARGE // 256)
    came = b""

    async def answer(reader: Reader, writer: Writer) -> None:
        nonlocal came
        await head(reader)
        came = await reader.readexactly(LARGE)
        writer.write(HELLO)
        await writer.drain()

    async with serving(answer) as url, client() as http:
        assert (await http.post(url, content=body)).text == "hello"
    assert came == body


async def silent(reader: Reader, _writer: Writer) -> None:
    """Takes what comes and says nothing."""
    while await reader.read(65_536):
        pass


async def deaf(_reader: Reader, _writer: Writer) -> None:
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("answer", "body", "timeout", "kind"),
    [
        (silent, b"hi", httpx2.Timeout(10, read=0.05), httpx2.ReadTimeout),
        (deaf, b"x" * 4 * LARGE, httpx2.Timeout(10, write=0.05), httpx2.WriteTimeout),
    ],
)
async def test_reads_and_writes_time_out(answer, body, timeout, kind):
    async with serving(answer) as url, client() as http:
        with pytest.raises(kind):
            await http.post(url, content=body, timeout=timeout)


async def test_a_handshake_that_never_ends_is_given_up(tmp_path: Path) -> None:
    _server, trust = server_and_trust(tmp_path, "IP:127.0.0.1")
    async with serving(silent) as url, client(trust) as http:
        with pytest.raises(httpx2.ConnectTimeout):
            await http.get(url.replace("http", "https"), timeout=httpx2.Timeout(10, connect=0.05))


async def test_refused_connection_is_a_connect_error() -> None:
    async with serving(silent) as url:
        pass
    async with client() as http:
        with pytest.raises(httpx2.ConnectError):
            await http.get(url)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
async def test_an_answer_that_breaks_off_is_an_error(begun: bytes) -> None:
    async def answer(reader: Reader, writer: Writer) -> None:
        await head(reader)
        writer.write(begun)
        await writer.drain()
        writer.transport.abort()

    async with serving(answer) as url, client() as http:
        with pytest.raises(httpx2.TransportError):
            await http.get(url)


async def test_cancelled_request_closes_the_connection() -> None:
    ended, asked = asyncio.Event(), asyncio.Event()

    async def answer(reader: Reader, _writer: Writer) -> None:
        await head(reader)
        asked.set()
        await reader.read()
        ended.set()

    async with serving(answer) as url, client() as http:
        asking = asyncio.ensure_future(http.get(url))
        await asked.wait()
        asking.cancel()
        async with asyncio.timeout(5):
            await ended.wait()
        with pytest.raises(asyncio.CancelledError):
            await asking


class WhereRead(LateTls):
    """Knows which threads had to wait for certificates."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        self.threads.append(threading.current_thread())
        return super().wrap_bio(*arguments, **options)


async def test_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With certificates read outside the event loop, a large answer and a large body."""
    tls, _trust = server_and_trust(tmp_path, "IP:127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))

    async def answer(reader: Reader, writer: Writer) -> None:
        for _ in range(2):
            await head(reader)
            body = await reader.readexactly(LARGE)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE + body[::-1])
            await writer.drain()

    body = bytes(range(256)) * (LARGE // 256)
    context = WhereRead()
    async with serving(answer, tls) as url, client(context) as http:
        for _ in range(2):
            assert (await http.post(url, content=body)).content == body[::-1]
    assert context.threads[0] is not threading.current_thread()


async def test_certificate_of_another_host_is_refused(tmp_path: Path) -> None:
    tls, trust = server_and_trust(tmp_path, "DNS:elsewhere.example")
    async with serving(silent, tls) as url, client(trust) as http:
        with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await http.get(url)


def test_a_proxy_of_the_environment_is_left_to_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = httpx2.Limits()
    for name in getproxies():
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)
    assert isinstance(make_transport(LateTls(), limits), AsyncioTransport)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert make_transport(LateTls(), limits) is None
