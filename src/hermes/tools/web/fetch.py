"""Fetching a page: guarded, bounded, without cookies and without a trace of this machine."""

import asyncio
import ssl
from functools import cached_property

import httpx2
import msgspec

from hermes import __version__
from hermes.core.errors import ToolDenied, ToolError, ToolTimedOut
from hermes.security.url_transport import GuardedTransport
from hermes.security.urls import UrlGuard, shown
from hermes.tools.web.content import Kind, kind_of, sniffed
from hermes.util.text import human_size

HEADERS = {
    "User-Agent": f"Hermes/{__version__}",
    "Accept": "text/html, application/xhtml+xml, text/markdown, text/plain;q=0.9, "
    "application/json;q=0.9, application/pdf;q=0.9, */*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}

HINTS = {
    401: "it wants a login; use another source",
    403: "it does not let programs in; use another source",
    404: "check the address; web_search finds pages that exist",
    410: "the page is gone; web_search finds others",
    429: "it gets too many requests; wait, or use another source",
    451: "it may not be shown for legal reasons; use another source",
}
SERVER_HINT = "the site has a problem; try again later, or use another source"

CONNECT_SECONDS = 10.0
"""For one address of a host."""

READABLE = "HTML, text, JSON and PDF can be read"


class FetchLimits(msgspec.Struct, frozen=True):
    bytes: int = 10_000_000
    """Of one page, unpacked. Text is cut there, a PDF is refused."""
    seconds: float = 30.0
    """For one page with all its redirects."""
    redirects: int = 5


class Fetched(msgspec.Struct, frozen=True):
    url: str
    """Where it was found, after the redirects."""
    kind: Kind
    """Never `unknown`."""
    charset: str
    """As the server said it, or empty."""
    data: bytes
    cut: bool = False
    """There is more than the limit allows."""


class Fetcher:
    """Fetches with GET. Each page has a connection of its own; nothing is remembered."""

    def __init__(
        self,
        guard: UrlGuard,
        limits: FetchLimits | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """`context` has the certificates to trust; without one, those of the system."""
        self.guard, self.limits = guard, limits or FetchLimits()
        self._context = context

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return self._context or httpx2.create_ssl_context()

    async def fetch(self, url: str) -> Fetched:
        """The page, or a `ToolError`: refused, not found, too slow, nothing to read."""
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await self._follow(url)
        except TimeoutError as error:
            raise ToolTimedOut(
                f"{shown(url)} was not there after {self.limits.seconds:g} seconds",
                hint=SERVER_HINT,
            ) from error

    async def _follow(self, url: str) -> Fetched:
        place = self.guard.check(url)
        for _ in range(self.limits.redirects + 1):
            answer = await self._get(place)
            if isinstance(answer, Fetched):
                return answer
            if (place.scheme, answer.scheme) == ("https", "http"):
                raise ToolDenied(
                    f"{shown(place)} redirects from https to http",
                    hint=f"if the open connection is all right, fetch {shown(answer)} itself",
                )
            place = answer
        raise ToolError(f"{shown(url)} redirects more than {self.limits.redirects} times")

    async def _get(self, place: httpx2.URL) -> Fetched | httpx2.URL:
        """The page, or where it redirects to."""
        transport = GuardedTransport(self.guard, self._trust)
        timeout = httpx2.Timeout(self.limits.seconds, connect=CONNECT_SECONDS)
        client = httpx2.AsyncClient(
            transport=transport, trust_env=False, headers=HEADERS, timeout=timeout
        )
        try:
            async with client, client.stream("GET", place) as response:
                if response.next_request is not None:
                    return response.next_request.url
                return await self._read(place, response)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            words = str(error) or type(error).__name__
            raise ToolError(f"{shown(place)} cannot be fetched: {words}") from error

    async def _read(self, place: httpx2.URL, response: httpx2.Response) -> Fetched:
        status = response.status_code
        if status >= 300:
            hint = HINTS.get(status, SERVER_HINT if status >= 500 else "")
            raise ToolError(f"{shown(place)} answered with HTTP {status}", hint=hint)
        media_type = response.headers.get("content-type", "")
        kind = kind_of(media_type)
        if kind is None:
            raise _unreadable(place, media_type)
        _check_encodings(place, response.headers.get("content-encoding", ""))
        data, cut = await self._body(response)
        found = sniffed(kind, data)
        if found is None:
            raise _unreadable(place, media_type)
        if found == "pdf" and cut:
            limit = human_size(self.limits.bytes)
            raise ToolError(f"{shown(place)} is a PDF larger than {limit}")
        return Fetched(str(place), found, response.charset_encoding or "", data, cut)

    async def _body(self, response: httpx2.Response) -> tuple[bytes, bool]:
        """The unpacked body up to the limit; the rest is neither unpacked nor awaited."""
        data = bytearray()
        async for chunk in response.aiter_bytes():
            data += chunk
            if len(data) > self.limits.bytes:
                return bytes(data[: self.limits.bytes]), True
        return bytes(data), False


def _check_encodings(place: httpx2.URL, header: str) -> None:
    """One packing that we asked for: nested ones can hide a flood that never comes out."""
    packings = [name for each in header.split(",") if (name := each.strip().lower())]
    if len(packings) > 1 or not {"identity", "gzip", "deflate"}.issuperset(packings):
        raise ToolError(f"{shown(place)} is packed in a way that was not asked for: {header[:80]}")


def _unreadable(place: httpx2.URL, media_type: str) -> ToolError:
    what = media_type.partition(";")[0].strip()[:80] or "binary data"
    return ToolError(
        f"{shown(place)} is {what}, not a page",
        hint=f"{READABLE}; download other files with the terminal tool",
    )
