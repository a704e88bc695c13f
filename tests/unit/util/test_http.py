"""Requests are limited in time and size; certificates are read at the first handshake."""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest
from hermes.util import http
from hermes.util.http import (
    HttpError,
    LateTls,
    fetch,
    fetch_blocking,
    from_here,
    http_address,
    is_loopback,
    make_client,
    parse_http_url,
)
from tests.unit.security.certificates import server_and_trust


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
    await writer.drain()
    writer.close()


@asynccontextmanager
async def serving(folder: Path, name: str) -> AsyncIterator[str]:
    tls, _trust = server_and_trust(folder, name)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def get(url: str) -> str:
    async with httpx2.AsyncClient(verify=LateTls()) as client:
        return (await client.get(url)).text


async def test_a_server_is_reached_only_with_a_trusted_certificate(tmp_path, monkeypatch) -> None:
    async with serving(tmp_path, "IP:127.0.0.1") as url:
        with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await get(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        assert await get(url) == "hi"


async def test_a_trusted_server_of_another_name_is_refused(tmp_path, monkeypatch) -> None:
    async with serving(tmp_path, "DNS:elsewhere.example") as url:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await get(url)


def test_nothing_is_read_before_the_first_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_make_context", lambda: pytest.fail("read too early"))
    httpx2.AsyncClient(verify=LateTls())


def test_late_context_used_directly_trusts_no_certificate() -> None:
    context = LateTls()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.get_ca_certs() == []


class Site:
    """A server with fixed pages; `requests` has what it received."""

    def __init__(self) -> None:
        self.pages: dict[str, Outgoing] = {}
        self.requests: list[RecordedRequest] = []
        self._server = LoopbackServer(self._answer)
        self.url = f"http://127.0.0.1:{self._server.port}"

    def _answer(self, request: RecordedRequest) -> Outgoing:
        self.requests.append(request)
        return self.pages.get(request.path, Outgoing(404, {}, []))

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def site() -> Iterator[Site]:
    opened = Site()
    yield opened
    opened.close()


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with make_client() as opened:
        yield opened


async def test_response_has_status_headers_body_and_charset(site: Site, client) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    site.pages["/"] = Outgoing(418, headers, [b'{"a": 1}'])
    response = await fetch(client, "POST", f"{site.url}/", json={"b": 2})
    assert (response.status, response.json(), response.charset) == (418, {"a": 1}, "utf-8")
    assert site.requests[0].body == {"b": 2}


async def test_body_that_is_not_json_is_an_error_or_an_empty_object(site: Site, client) -> None:
    site.pages["/"] = Outgoing(200, {}, [b"["])
    response = await fetch(client, "GET", f"{site.url}/")
    assert response.json_object() == {}
    with pytest.raises(HttpError, match="did not answer with JSON"):
        response.json()


async def test_long_body_is_an_error_or_cut(site: Site, client) -> None:
    packed = gzip.compress(b"x" * 100_000)
    site.pages["/"] = Outgoing(200, {"Content-Encoding": "gzip"}, [packed])
    with pytest.raises(HttpError, match="more than"):  # counted after decompression
        await fetch(client, "GET", f"{site.url}/", max_bytes=len(packed) * 2)
    site.pages["/"] = Outgoing(200, {}, [b"x" * 5000] * 10, chunked=True)
    with pytest.raises(HttpError, match="more than 9,000 bytes"):
        await fetch(client, "GET", f"{site.url}/", max_bytes=9000)
    cut = await fetch(client, "GET", f"{site.url}/", max_bytes=9000, truncate=True)
    assert (len(cut.body), cut.is_cut) == (9000, True)


async def test_body_of_a_stream_without_end_can_be_left_unread(site: Site, client) -> None:
    site.pages["/"] = Outgoing(200, {}, [60.0, b"x"], chunked=True)
    assert (await fetch(client, "GET", f"{site.url}/", max_bytes=0)).body == b""


async def test_slow_body_times_out_although_bytes_arrive(site: Site, client) -> None:
    site.pages["/"] = Outgoing(200, {}, [b"a", 0.02] * 10_000, chunked=True)
    with pytest.raises(HttpError) as failure:
        await fetch(client, "GET", f"{site.url}/", seconds=0.2)
    assert failure.value.kind == "timeout"
    with (
        httpx2.Client(verify=LateTls()) as blocking,
        pytest.raises(HttpError, match="did not answer in time"),
    ):
        fetch_blocking(blocking, "GET", f"{site.url}/", seconds=0.2)


async def test_redirect_is_returned_unless_it_is_checked(site: Site, client) -> None:
    site.pages["/"] = Outgoing(302, {"Location": "/next", "Set-Cookie": "a=b"}, [])
    site.pages["/next"] = Outgoing(200, {}, [b"there"])
    assert (await fetch(client, "GET", f"{site.url}/")).status == 302
    seen: list[tuple[str, str]] = []
    response = await fetch(
        client, "GET", f"{site.url}/", check_redirect=lambda *urls: seen.append(urls)
    )
    assert (response.body, response.url) == (b"there", f"{site.url}/next")
    assert seen == [(f"{site.url}/", f"{site.url}/next")]
    assert all("cookie" not in request.headers for request in site.requests)


async def test_check_can_refuse_a_redirect(site: Site, client) -> None:
    site.pages["/"] = Outgoing(302, {"Location": "/next"}, [])

    def refuse(before: str, after: str) -> None:
        raise ValueError(after)

    with pytest.raises(ValueError, match="/next"):
        await fetch(client, "GET", f"{site.url}/", check_redirect=refuse)
    assert len(site.requests) == 1


async def test_authorization_is_not_sent_to_another_origin(site: Site, client) -> None:
    other = Site()
    other.pages["/"] = Outgoing(200, {}, [])
    site.pages["/"] = Outgoing(302, {"Location": "/same"}, [])
    site.pages["/same"] = Outgoing(302, {"Location": f"{other.url}/"}, [])
    headers = {"Authorization": "Bearer x"}
    await fetch(client, "GET", f"{site.url}/", headers=headers, check_redirect=lambda *_: None)
    other.close()
    assert [request.headers.get("authorization") for request in site.requests] == ["Bearer x"] * 2
    assert "authorization" not in other.requests[0].headers


async def test_server_that_is_not_there_is_unreachable(client) -> None:
    with pytest.raises(HttpError, match="cannot be reached") as failure:
        await fetch(client, "GET", "http://127.0.0.1:9/secret-path")
    assert failure.value.kind == "unreachable"
    assert "secret-path" not in str(failure.value)


HERE = ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LocalHost")
LOOKALIKES = ("localhost.evil.org", "127.0.0.1.nip.io", "2130706433")
ELSEWHERE = ("", "0.0.0.0", "::", "10.0.0.1", *LOOKALIKES)
SERVERS = {
    "0.0.0.0": ("127.0.0.1", "http://0.0.0.0:80"),
    "::": ("::1", "http://[::]:80"),
    "[::]": ("::1", "http://[::]:80"),
    "": ("127.0.0.1", "http://:80"),
    "10.0.0.1": ("10.0.0.1", "http://10.0.0.1:80"),
    "[::1]": ("::1", "http://[::1]:80"),
}


def test_loopback_hosts_are_recognised_and_lookalikes_are_not():
    assert tuple(filter(is_loopback, HERE + ELSEWHERE)) == HERE


def test_bind_host_maps_to_a_reachable_address():
    assert {host: (from_here(host), http_address(host, 80)) for host in SERVERS} == SERVERS


ADDRESSES = [
    "https://a.example", "https://A.Example:443/v1?x=1#y", "http://a.example:80", "http://a..",
    "http://127.0.0.1:8080/v1", "http://[::1]:11434/v1", "http://[::ffff:1.2.3.4]/", "http://127.1",
    "http://my_host/v1", "https://münchen.example/v1", "https://faß.example", "http://a.example:/",
    "https://xn--mnchen-3ya.example", "https://good。example。", "https://@a.example",
    "https://u:p@a.example", "https://good.example:443@evil.example",
    "https://good.example:x@evil.example:444/good.example",
]  # fmt: skip
NO_ADDRESSES = [
    "", "a.example", "ftp://a.example", "HTTP://a.example", "http://", "https:///v1", "http://:80",
    "http://a.example:70000", "http://a.example:x", "http://a.example:-1", "http://a b",
    "http://a.example\\@evil.example", "http://a\t.example", "http://a.example\n", "http://[::1",
    "http://::1", "http://a[::1]", "http://[::1]a", "http://%61.example", "http://a,b", "http://a*",
    "http://good.example@x@evil.example", "https://good.example：443",
    "http://[fe80::1%25eth0]/", "http://[v1.a]/", "http://a.example:0443",
]  # fmt: skip


def test_an_address_has_the_host_that_the_http_library_sees() -> None:
    for url in ADDRESSES:
        ours, theirs = parse_http_url(url), httpx2.URL(url)
        assert ours is not None, url
        port = theirs.port or (443 if theirs.scheme == "https" else 80)
        assert ours.origin == (theirs.scheme, theirs.raw_host.decode(), port), url
        assert ours.has_login == ("@" in url), url


@pytest.mark.parametrize("url", NO_ADDRESSES)
def test_what_parsers_may_read_differently_is_no_address(url: str) -> None:
    assert parse_http_url(url) is None
