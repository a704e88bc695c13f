"""HTTP for the hub: HTTPS only, limited in size and time, and a token never leaves its host."""

import asyncio
from collections.abc import Mapping
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urljoin, urlsplit

import msgspec

from hermes.core.errors import ToolDenied
from hermes.skills.hub.errors import UNREADABLE, HubError, Unreachable

if TYPE_CHECKING:
    import httpx2

SECONDS = 30.0
CONNECT_SECONDS = 10.0
MOST_SECONDS = 300.0
"""For one whole answer: a server that sends a byte now and then is not waited for."""
MOST_REDIRECTS = 5
MOST_JSON = 8 * 1024 * 1024
"""Bytes of an answer that is no archive."""
AGENT = "hermes-skills"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
REDIRECTS = (301, 302, 303, 307, 308)


class Reply(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    url: str = ""
    """Where it came from in the end."""

    def json(self) -> Any:
        """Raises `Unreachable` when it is none."""
        try:
            return msgspec.json.decode(self.body)
        except UNREADABLE as error:
            raise Unreachable(f"the answer is not JSON: {error}") from error


class Web:
    """One client for one run of a command; the connection machinery is loaded at first use."""

    def __init__(self, seconds: float = MOST_SECONDS) -> None:
        """`seconds` are for one whole answer."""
        self._seconds = seconds
        self._client: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> "Web":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def get(
        self, url: str, headers: Mapping[str, str] | None = None, *, most: int = MOST_JSON
    ) -> Reply:
        """The answer, whatever its status. Raises `Unreachable`, also beyond `most` bytes.

        Redirects stay within HTTPS and do not lead from outside to an address of this network;
        on another host the header `Authorization` is left off.
        """
        sent = dict(headers or {})
        for _ in range(MOST_REDIRECTS + 1):
            reply = await self._send("GET", url, sent, None, most)
            if reply.status not in REDIRECTS or "location" not in reply.headers:
                return reply
            before, url = url, urljoin(url, reply.headers["location"])
            check_redirect(before, url)
            if _place(before) != _place(url):
                sent = {name: v for name, v in sent.items() if name.lower() != "authorization"}
        raise Unreachable(f"{host_of(url)} redirects in a circle")

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: Any) -> Reply:
        """Sends `body` as JSON. A redirect is not followed: it is the answer."""
        return await self._send(method, url, headers, msgspec.json.encode(body), MOST_JSON)

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, most: int
    ) -> Reply:
        check_address(url)
        client = self._opened()
        http: Any = import_module("httpx2")
        try:
            async with (
                asyncio.timeout(self._seconds),
                client.stream(method, url, headers=dict(headers), content=body) as response,
            ):
                data = bytearray()
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) > most:
                        limit = f"{most // 1024**2} MiB"
                        raise Unreachable(f"{host_of(url)} sends more than {limit}")
                return Reply(response.status_code, dict(response.headers), bytes(data), url)
        except (http.TimeoutException, TimeoutError) as error:
            raise Unreachable(f"{host_of(url)} did not answer in time", hint="try again") from error
        except (http.HTTPError, http.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(
                f"{host_of(url)} cannot be reached: {reason}", hint="check the network"
            ) from error

    def _opened(self) -> "httpx2.AsyncClient":
        client = self._client
        if client is None:
            http: Any = import_module("httpx2")  # slow to load, and most commands do without
            late_tls: Any = import_module("hermes.util.late_tls")
            client = self._client = http.AsyncClient(
                timeout=http.Timeout(SECONDS, connect=CONNECT_SECONDS),
                verify=late_tls.LateTls(),
                headers={"User-Agent": AGENT},
                follow_redirects=False,
            )
        return client


def check_address(url: str) -> None:
    """HTTPS, or HTTP to this machine; no password in it. Raises `HubError`."""
    parts = _split(url)
    if parts.username or parts.password:
        raise HubError("an address with a password in it is not used", hint="leave it out")
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname in LOOPBACK:
        return
    raise HubError(f"{host_of(url)} is not reached over https", hint="begin it with https://")


def check_redirect(before: str, after: str) -> None:
    """Whether `before` may send us to `after`. Raises `HubError`."""
    old, new = _split(before), _split(after)
    if new.scheme != "https" and (old.scheme, new.scheme) != ("http", "http"):
        raise HubError(f"{old.hostname} leads to a place without https, which is not followed")
    check_address(after)
    if old.hostname != new.hostname:
        guard: Any = import_module("hermes.security.urls")
        try:
            guard.UrlGuard().check(after)
        except ToolDenied as error:
            raise HubError(f"{old.hostname} leads to a place it must not: {error}") from error


def host_of(url: str) -> str:
    """For messages: the host alone, without what may be secret around it."""
    return _split(url).hostname or "the address"


def _place(url: str) -> tuple[str, str, int | None]:
    parts = _split(url)
    return parts.scheme, parts.hostname or "", parts.port


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # a bad one is noticed when it is asked for
    except ValueError as error:
        raise HubError(f"this is not an address: {error}") from error
    return parts
