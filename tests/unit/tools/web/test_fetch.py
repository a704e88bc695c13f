"""Fetching pages from a real server on this machine."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes import __version__
from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolDenied, ToolError, ToolTimedOut
from hermes.security.urls import ANY_PORT, Blocklist, UrlGuard
from hermes.tools.web_pages import FetchLimits, PageFetcher
from hermes.util.loopback_http import Stop
from tests.unit.security.certificates import server_and_trust
from tests.unit.tools.web.conftest import Site, eventually, pdf

HTML = b"<html><body><p>hello</p></body></html>"


async def test_a_page_with_what_was_sent_for_it(fetcher: PageFetcher, site: Site) -> None:
    url = site.page("/a?b=1", HTML, content_type="text/html; charset=ISO-8859-1")
    page = await fetcher.fetch(url)
    assert (page.url, page.kind, page.charset) == (url, "html", "iso-8859-1")
    assert page.data == HTML
    [request] = site.requests
    assert request.method == "GET"
    assert request.headers["user-agent"] == f"Hermes/{__version__}"
    assert request.headers["accept-encoding"] == "gzip, deflate"
    assert not {"cookie", "authorization", "referer"} & set(request.headers)


async def test_redirects_are_followed_without_cookies(fetcher: PageFetcher, site: Site) -> None:
    end = site.page("/end", b"done", content_type="text/plain")
    site.redirect("/two", end, 308, set_cookie="id=2")
    start = site.redirect("/one", "two", 301, set_cookie="id=1; Path=/")
    assert (await fetcher.fetch(start)).url == end
    assert [request.path for request in site.requests] == ["/one", "/two", "/end"]
    assert not any("cookie" in request.headers for request in site.requests)


async def test_the_sixth_redirect_is_one_too_many(fetcher: PageFetcher, site: Site) -> None:
    site.page("/5", b"done", content_type="text/plain")
    for number in range(5):
        site.redirect(f"/{number}", f"/{number + 1}")
    assert (await fetcher.fetch(site.url("/0"))).data == b"done"
    site.redirect("/5", "/5")
    with pytest.raises(ToolError, match="more than 5 times"):
        await fetcher.fetch(site.url("/0"))


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("http://127.0.0.1:1/", "is this machine"),
        ("http://localhost/admin", "name of this machine"),
        ("//169.254.169.254/latest/meta-data/", "credentials"),
        ("http://[::ffff:10.0.0.1]/", "leads to 10.0.0.1"),
        ("http://2130706433/", "another spelling"),
        ("http://user@127.0.0.1/", "user name"),
        ("http://example.com\\@127.0.0.1/", "user name"),
        ("http://rebound.example/", "has the address 10.0.0.7"),
        ("http://blocked.example/", "blocklist"),
        ("file:///etc/passwd", "file: is not fetched"),
        ("gopher://127.0.0.1:70/", "gopher: is not fetched"),
    ],
)
async def test_a_redirect_to_a_private_place_is_refused(
    site: Site, target: str, reason: str
) -> None:
    async def names(host: str, port: int) -> Sequence[str]:
        return ["10.0.0.7"]

    allowed = frozenset({("127.0.0.1", site.port)})
    guard = UrlGuard(names, blocklist=Blocklist(["blocked.example"]), allowed=allowed)
    site.redirect("/middle", target)
    start = site.redirect("/start", "/middle")
    with pytest.raises(ToolDenied, match=reason):
        await PageFetcher(guard).fetch(start)
    assert [request.path for request in site.requests] == ["/start", "/middle"]


async def test_a_redirect_that_makes_no_sense_is_an_error(fetcher: PageFetcher, site: Site) -> None:
    site.redirect("/odd", "http://[::1/")
    with pytest.raises(ToolError, match="cannot be fetched"):
        await fetcher.fetch(site.url("/odd"))
    site.page("/none", status=302)
    with pytest.raises(ToolError, match="HTTP 302"):
        await fetcher.fetch(site.url("/none"))


@pytest.mark.parametrize(
    ("status", "hint"), [(403, "does not let programs in"), (404, "web_search"), (503, "later")]
)
async def test_a_refusal_says_what_to_do(
    fetcher: PageFetcher, site: Site, status: int, hint: str
) -> None:
    with pytest.raises(ToolError, match=f"HTTP {status}") as refusal:
        await fetcher.fetch(site.page("/x", HTML, status=status))
    assert hint in refusal.value.hint


async def test_a_huge_page_is_cut_and_the_rest_is_not_awaited(guard: UrlGuard, site: Site) -> None:
    url = site.page("/big", *[b"x" * 100_000] * 200, chunked=True, content_type="text/plain")
    page = await PageFetcher(guard, FetchLimits(bytes=250_000)).fetch(url)
    assert page.data == b"x" * 250_000
    assert page.cut
    await eventually(lambda: site.server.hangups == 1)


@pytest.mark.parametrize("packing", ["gzip", "deflate"])
async def test_a_packed_flood_stops_at_the_limit(guard: UrlGuard, site: Site, packing: str) -> None:
    flood = bytes(40_000_000)
    packed = gzip.compress(flood) if packing == "gzip" else zlib.compress(flood)
    del flood
    url = site.page("/bomb", packed, content_type="text/plain", content_encoding=packing)
    tracemalloc.start()
    try:
        page = await PageFetcher(guard, FetchLimits(bytes=2_000_000)).fetch(url)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert page.cut
    assert len(page.data) == 2_000_000
    assert peak < 20_000_000


@pytest.mark.parametrize("packing", ["gzip, gzip", "br", "zstd"])
async def test_a_packing_nobody_asked_for_is_refused(
    fetcher: PageFetcher, site: Site, packing: str
) -> None:
    url = site.page("/x", b"??", content_type="text/html", content_encoding=packing)
    with pytest.raises(ToolError, match="packed in a way"):
        await fetcher.fetch(url)


async def test_damaged_packing_and_a_cut_body_are_errors(fetcher: PageFetcher, site: Site) -> None:
    bad = site.page("/bad", b"not gzip", content_type="text/html", content_encoding="gzip")
    with pytest.raises(ToolError, match="cannot be fetched"):
        await fetcher.fetch(bad)
    cut = site.page("/cut", HTML, Stop.CUT, chunked=True, content_type="text/html")
    with pytest.raises(ToolError, match="cannot be fetched"):
        await fetcher.fetch(cut)


@pytest.mark.parametrize("pauses", [[], [b"<p>a little</p>"]])
async def test_a_page_that_takes_too_long(guard: UrlGuard, site: Site, pauses: list[bytes]) -> None:
    url = site.page("/slow", *pauses, 60.0, b"late", chunked=True, content_type="text/html")
    with pytest.raises(ToolTimedOut, match=r"after 0\.2 seconds"):
        await PageFetcher(guard, FetchLimits(seconds=0.2)).fetch(url)


async def test_stopping_ends_a_slow_page_at_once(fetcher: PageFetcher, site: Site) -> None:
    url = site.page("/slow", b"first", 60.0, b"late", chunked=True, content_type="text/html")
    token = CancelToken()

    async def stop() -> None:
        await eventually(lambda: bool(site.requests))
        token.cancel()

    stopping = asyncio.ensure_future(stop())
    with pytest.raises(Interrupted):
        await token.guard(fetcher.fetch(url))
    await stopping
    await eventually(lambda: site.server.hangups == 1)


@pytest.mark.parametrize(
    ("media_type", "data", "kind"),
    [
        ("text/html", HTML, "html"),
        ("application/xhtml+xml", HTML, "html"),
        ("text/plain", b"plain", "text"),
        ("text/plain", b"\n<!doctype html><p>really HTML", "html"),
        ("text/markdown; charset=utf-8", b"# hi", "text"),
        ("application/json", b"{}", "text"),
        ("application/ld+json", b"{}", "text"),
        ("application/rss+xml", b"<rss/>", "text"),
        ("application/octet-stream", b"only text", "text"),
        ("", HTML, "html"),
        ("application/octet-stream", pdf("x"), "pdf"),
        ("application/pdf", pdf("x"), "pdf"),
        ("text/html", pdf("x"), "pdf"),
    ],
)
async def test_kinds_of_documents(
    fetcher: PageFetcher, site: Site, media_type: str, data: bytes, kind: str
) -> None:
    headers = {"content_type": media_type} if media_type else {}
    assert (await fetcher.fetch(site.page("/x", data, **headers))).kind == kind


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("image/png", b"\x89PNG"),
        ("application/zip", b"PK\3\4"),
        ("video/mp4", b"...."),
        ("application/octet-stream", b"\0\1\2\3"),
        ("application/pdf", b"not a PDF at all"),
    ],
)
async def test_other_files_are_refused_in_words(
    fetcher: PageFetcher, site: Site, media_type: str, data: bytes
) -> None:
    with pytest.raises(ToolError, match=f"is {media_type}, not a page") as refusal:
        await fetcher.fetch(site.page("/x", data, content_type=media_type))
    assert "HTML, text, JSON and PDF" in refusal.value.hint


async def test_a_pdf_beyond_the_limit_is_refused(guard: UrlGuard, site: Site) -> None:
    url = site.page("/x", pdf("x") + bytes(20_000), content_type="application/pdf")
    with pytest.raises(ToolError, match=r"larger than 10\.0 kB"):
        await PageFetcher(guard, FetchLimits(bytes=10_000)).fetch(url)


async def test_a_server_that_is_not_there() -> None:
    guard = UrlGuard(allowed=frozenset({("127.0.0.1", 1)}))
    with pytest.raises(ToolError, match="cannot be fetched"):
        await PageFetcher(guard).fetch("http://127.0.0.1:1/")


async def test_https_does_not_become_http_on_the_way(tmp_path: Path, site: Site) -> None:
    tls, trust = server_and_trust(tmp_path, "IP:127.0.0.1")
    target = site.page("/plain", b"text", content_type="text/plain")

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()
        writer.close()

    guard = UrlGuard(allowed=frozenset({("127.0.0.1", ANY_PORT)}))
    async with await asyncio.start_server(redirect, "127.0.0.1", 0, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ToolDenied, match="redirects from https to http") as refusal:
            await PageFetcher(guard, context=trust).fetch(f"https://127.0.0.1:{port}/")
    assert target in refusal.value.hint
    assert site.requests == []
