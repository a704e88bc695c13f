"""The HTTP client of model calls: what endpoints and the network may do to it."""

import asyncio
import gzip
import random
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import getproxies

import pytest

from hermes.providers.transport import (
    CALL_ERRORS,
    MAX_HEAD,
    MAX_IDLE,
    READ_BUFFER_LIMIT,
    ConnectionFailed,
    HttpClient,
    HttpResponseStream,
    ResponseCut,
    ResponseStalled,
    make_model_client,
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


@asynccontextmanager
async def client(context: ssl.SSLContext | None = None) -> AsyncIterator[HttpClient]:
    http = HttpClient(context or LateTls())
    yield http
    await http.aclose()


def ask(http: HttpClient, url: str, body: bytes = b"", headers=None, **seconds: float):
    limits = {"connect": 10.0, "read": 10.0, "write": 10.0, "pool": 10.0} | seconds
    timeout = tuple(limits.values())
    return http.stream("POST", url, content=body, headers=headers or {}, timeout=timeout)


async def post(http: HttpClient, url: str, body: bytes = b"", **seconds: float) -> bytes:
    async with ask(http, url, body, **seconds) as response:
        return await response.aread()


async def head(reader: Reader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def test_a_connection_is_kept_for_the_next_request() -> None:
    seen: list[list[bytes]] = []

    async def answer(reader: Reader, writer: Writer) -> None:
        seen.append([])
        while said := await reader.read(100_000):
            seen[-1].append(said)
            writer.write(HELLO)

    async with serving(answer) as url, client() as http:
        for text in (b"one", b"two"):
            assert await post(http, url, text) == b"hello"
    (pieces,) = seen
    assert [piece.rpartition(b"\r\n\r\n")[2] for piece in pieces] == [b"one", b"two"]


async def test_many_requests_in_flight_have_a_connection_each_and_the_last_ones_are_kept() -> None:
    opened = 0
    all_arrived = asyncio.Event()
    count, arrived = MAX_IDLE + 20, 0

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
        replies = await asyncio.gather(*[post(http, url) for _ in range(count)])
        assert set(replies) == {b"hello"}
        assert opened == count
        assert sum(map(len, http._idle.values())) == MAX_IDLE
        for _ in range(5):
            await post(http, url)
        assert opened == count


async def test_an_unread_response_closes_its_connection() -> None:
    async def answer(reader: Reader, writer: Writer) -> None:
        await head(reader)
        writer.write(HELLO)
        assert await reader.read() == b""
        closed.set()

    closed = asyncio.Event()
    async with serving(answer) as url, client() as http:
        async with ask(http, url):
            pass
        async with asyncio.timeout(5):
            await closed.wait()
        assert not any(http._idle.values())


async def test_pieces_come_as_they_are_sent() -> None:
    async def answer(reader: Reader, writer: Writer) -> None:
        await head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (b"2\r\nab\r\n", b"1\r\nc\r\n", b"0\r\n\r\n"):
            await go_on.wait()
            go_on.clear()
            writer.write(piece)

    go_on = asyncio.Event()
    async with serving(answer) as url, client() as http, ask(http, url) as response:
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
            assert await post(http, url) == b"hello"
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

    async with serving(answer) as url, client() as http, ask(http, url) as response:
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
        assert await post(http, url, body) == b"hello"
    assert came == body


async def silent(reader: Reader, _writer: Writer) -> None:
    """Takes what comes and says nothing."""
    while await reader.read(65_536):
        pass


async def deaf(_reader: Reader, _writer: Writer) -> None:
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("answer", "body", "limit"),
    [(silent, b"hi", {"read": 0.05}), (deaf, b"x" * 4 * LARGE, {"write": 0.05})],
)
async def test_reads_and_writes_time_out(answer, body, limit):
    async with serving(answer) as url, client() as http:
        with pytest.raises(ResponseStalled):
            await post(http, url, body, **limit)


async def test_a_handshake_that_never_ends_is_given_up(tmp_path: Path) -> None:
    _server, trust = server_and_trust(tmp_path, "IP:127.0.0.1")
    async with serving(silent) as url, client(trust) as http:
        with pytest.raises(ConnectionFailed):
            await post(http, url.replace("http", "https"), connect=0.05)


async def test_refused_connection_is_a_connect_error() -> None:
    async with serving(silent) as url:
        pass
    async with client() as http:
        with pytest.raises(ConnectionFailed):
            await post(http, url)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
async def test_an_answer_that_breaks_off_is_an_error(begun: bytes) -> None:
    async def answer(reader: Reader, writer: Writer) -> None:
        await head(reader)
        writer.write(begun)
        await writer.drain()
        writer.transport.abort()

    async with serving(answer) as url, client() as http:
        with pytest.raises(ResponseCut):
            await post(http, url)


async def test_cancelled_request_closes_the_connection() -> None:
    ended, asked = asyncio.Event(), asyncio.Event()

    async def answer(reader: Reader, _writer: Writer) -> None:
        await head(reader)
        asked.set()
        await reader.read()
        ended.set()

    async with serving(answer) as url, client() as http:
        asking = asyncio.ensure_future(post(http, url))
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
            assert await post(http, url, body) == body[::-1]
    assert context.threads[0] is not threading.current_thread()


async def test_certificate_of_another_host_is_refused(tmp_path: Path) -> None:
    tls, trust = server_and_trust(tmp_path, "DNS:elsewhere.example")
    async with serving(silent, tls) as url, client(trust) as http:
        with pytest.raises(ConnectionFailed, match="CERTIFICATE_VERIFY_FAILED"):
            await post(http, url)


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in getproxies():
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)
    assert isinstance(make_model_client(LateTls()), HttpClient)
    asked = []

    async def answer(reader: Reader, writer: Writer) -> None:
        asked.append((await head(reader)).split(b" ")[1])
        writer.write(HELLO)

    async with serving(answer) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy)
        http: Any = make_model_client(LateTls())
        assert not http.follow_redirects
        assert await post(http, "http://model.example/v1") == b"hello"
        await http.aclose()
    assert asked == [b"http://model.example/v1"]


async def test_what_is_sent_is_a_valid_request() -> None:
    sent = b""

    async def answer(reader: Reader, writer: Writer) -> None:
        nonlocal sent
        sent = await head(reader) + await reader.readexactly(4)
        writer.write(HELLO)

    async with serving(answer) as url, client() as http:
        host = url.removeprefix("http://")
        headers = {"Content-Type": "text/plain", "Accept-Encoding": "identity"}
        async with ask(http, f"{url}/a|b/%7Ec?x=1&y=[é]", b"body", headers) as response:
            assert (response.status_code, await response.aread()) == (200, b"hello")
    first, *lines = sent.decode().split("\r\n")
    assert first == "POST /a%7Cb/%7Ec?x=1&y=[%C3%A9] HTTP/1.1"
    assert lines == [
        f"host: {host}", "accept: */*", "accept-encoding: identity", "connection: keep-alive",
        "content-type: text/plain", "content-length: 4", "", "body",
    ]  # fmt: skip


@pytest.mark.parametrize("header", [{"x": "a\r\nb: c"}, {"a\n": "b"}, {"a:b": "c"}, {"a": "é"}])
async def test_a_header_that_would_break_the_request_is_not_sent(header) -> None:
    async with serving(silent) as url, client() as http:
        with pytest.raises(ConnectionFailed, match="cannot be sent"):
            async with ask(http, url, b"", header):
                pass


@pytest.mark.parametrize(
    "url", ["", "ftp://a/", "http://", "http://a:99999/", "http://u:p@127.0.0.1/", "http://a b/"]
)
async def test_an_unusable_address_is_not_connected_to(url: str) -> None:
    async with client() as http:
        with pytest.raises(ConnectionFailed, match="not a valid"):
            await post(http, url)


class Pieces:
    """A connection from which a response arrives in pieces."""

    def __init__(self, data: bytes, cuts: list[int]) -> None:
        edges = sorted({0, *cuts, len(data)})
        self._left = [data[a:b] for a, b in pairwise(edges)]

    async def receive(self, _seconds: float | None) -> bytes:
        return self._left.pop(0) if self._left else b""


def read_pieces(headers: dict[str, str], body: bytes, cuts: list[int], first: int = 0):
    pieces: Any = Pieces(body[first:], cuts)
    return HttpResponseStream(pieces, 10, 200, headers, b"HTTP/1.1", body[:first])


CHUNKED = {"transfer-encoding": "chunked"}


async def test_chunks_are_joined_wherever_the_network_cuts_them() -> None:
    random_ = random.Random(7)
    for _ in range(300):
        chunks = [random_.randbytes(random_.choice([1, 2, 13, 400])) for _ in range(5)]
        body = b"".join(b"%x%s\r\n%s\r\n" % (len(c), b";a=b" * (len(c) % 2), c) for c in chunks)
        body += random_.choice([b"0\r\n\r\n", b"000\r\nTrailer: x\r\nOther: y\r\n\r\n"])
        cuts = [random_.randrange(len(body)) for _ in range(random_.randrange(12))]
        response = read_pieces(CHUNKED, body, cuts, random_.randrange(9))
        assert await response.aread() == b"".join(chunks)
        assert response.is_complete
        assert response.keeps_connection


@pytest.mark.parametrize(
    "body",
    [
        *[b"5\r\nhello\r\n0\r\n\r\n"[:length] for length in range(14)],
        b"5\r\nhelloX\r\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n",
        b"\r\nhello\r\n0\r\n\r\n", b"f" * 17 + b"\r\n", b"5" * (MAX_HEAD + 1),
        b"0\r\n" + b"a" * (MAX_HEAD + 1),
    ],
)  # fmt: skip
async def test_damaged_chunks_are_an_error(body: bytes) -> None:
    with pytest.raises(ResponseCut):
        await read_pieces(CHUNKED, body, []).aread()


@pytest.mark.parametrize(
    ("headers", "body", "text", "kept"),
    [
        ({"content-length": "5"}, b"hello", b"hello", True),
        ({"content-length": "5, 5"}, b"hello", b"hello", True),
        ({"content-length": "5", "connection": "close"}, b"hello", b"hello", False),
        ({"content-length": "5"}, b"hello, more", b"hello", False),
        ({"content-length": "0"}, b"", b"", True),
        ({}, b"to the end", b"to the end", False),
        (CHUNKED, b"1\r\na\r\n0\r\n\r\nmore", b"a", False),
    ],
)
async def test_the_length_of_a_body_decides_whether_the_connection_is_kept(
    headers, body, text, kept
):
    response = read_pieces(headers, body, [2])
    assert (await response.aread(), response.keeps_connection) == (text, kept)


@pytest.mark.parametrize("length", ["five", "-1", "5, 6", ""])
async def test_an_invalid_length_is_an_error(length: str) -> None:
    with pytest.raises(ResponseCut):
        await read_pieces({"content-length": length}, b"hello", []).aread()


async def test_a_packed_body_is_unpacked() -> None:
    packed = gzip.compress(b"hello" * 1000)
    headers = {"content-encoding": "gzip", "content-length": str(len(packed))}
    assert await read_pieces(headers, packed, [3, 9]).aread() == b"hello" * 1000
    for damaged in ({"content-encoding": "br"}, {"content-encoding": "gzip"}):
        with pytest.raises(ResponseCut):
            await read_pieces(damaged, b"hello hello", []).aread()


HEADS = {
    b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok": b"ok",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\ncontent-length:2\r\n\r\nok": b"ok",
    b"HTTP/1.0 200 OK\r\nX: 1\r\nX: 2\r\n\r\nok": b"ok",
    b"HTTP/1.1 204 No Content\r\n\r\n": b"",
    b"HTTP/2 200\r\n\r\n": None,
    b"SSH-2.0-OpenSSH_9.9\r\n\r\n": None,
    b"HTTP/1.1 2x0 OK\r\n\r\n": None,
    b"HTTP/1.1 200 OK\r\nno header\r\n\r\n": None,
    b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n": None,
    b"HTTP/1.1 200 OK\r\nA: " + b"b" * MAX_HEAD: None,
}


@pytest.mark.parametrize(("said", "text"), HEADS.items())
async def test_heads_of_responses(said: bytes, text: bytes | None) -> None:
    async def answer(reader: Reader, writer: Writer) -> None:
        await head(reader)
        writer.write(said)

    async with serving(answer) as url, client() as http:
        if text is None:
            with pytest.raises(CALL_ERRORS):
                await post(http, url)
        else:
            assert await post(http, url) == text
