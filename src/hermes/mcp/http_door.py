"""Requests to a server over HTTP: authorised, bounded, and never with credentials to others."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import httpx2
import msgspec

from hermes import __version__
from hermes.core.errors import HermesError
from hermes.mcp.authorising import Authoriser
from hermes.mcp.failures import (
    HttpBroken,
    HttpRefused,
    Lost,
    McpError,
    Unauthorised,
    Unavailable,
    Unreachable,
)
from hermes.util.late_tls import LateTls
from hermes.util.text import human_size

TIMEOUT = httpx2.Timeout(30.0, connect=10.0, read=None, pool=None)
"""Without a limit to reading: whoever asks has one."""
MOST_REDIRECTS = 5
LONGEST_COMPLAINT = 2_000
JSON, EVENTS = "application/json", "text/event-stream"
HEADERS = {"User-Agent": f"Hermes/{__version__}", "Accept-Encoding": "identity"}
NO_ACCESS = (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN)

Answer = AbstractAsyncContextManager[httpx2.Response]


class Door:
    """The way to one server. `headers` and what `authoriser` gives go to its own origin only."""

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        authoriser: Authoriser | None,
        most_bytes: int,
    ) -> None:
        self.name, self.url = name, _parsed(name, url)
        self._headers, self._authoriser = _sendable(name, headers), authoriser
        self.most_bytes = most_bytes
        self._client = httpx2.AsyncClient(
            follow_redirects=False,
            trust_env=True,
            timeout=TIMEOUT,
            headers=HEADERS,
            verify=LateTls(),
        )

    async def close(self) -> None:
        await self._client.aclose()

    def open(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        url: httpx2.URL | None = None,
    ) -> Answer:
        """The streamed answer, whatever its status. Raises `McpError`."""
        return self._opened(method, headers, body, url or self.url)

    @asynccontextmanager
    async def _opened(
        self, method: str, headers: Mapping[str, str], body: bytes | None, url: httpx2.URL
    ) -> AsyncGenerator[httpx2.Response, None]:
        may_renew = self._authoriser is not None
        for _ in range(MOST_REDIRECTS + 2):
            response = await self._send(method, headers, body, url)
            async with aclosing(response):
                if response.next_request is not None:
                    url = self._same_place(url, response.next_request.url)
                elif may_renew and response.status_code in NO_ACCESS:
                    may_renew = False
                    if not await self._renewed(response):
                        raise self._unauthorised(response.status_code)
                else:
                    yield response
                    return
        raise Unavailable(f"{self.name} redirects without an end")

    async def _send(
        self, method: str, headers: Mapping[str, str], body: bytes | None, url: httpx2.URL
    ) -> httpx2.Response:
        given = httpx2.Headers(self._headers)
        given.update(await self._authorised())
        given.update(headers)
        request = self._client.build_request(method, url, headers=given, content=body)
        try:
            return await self._client.send(request, stream=True)
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise Unreachable(
                f"{self.name} ({url.host}) cannot be reached: {_words(error)}",
                hint="check that the server runs and that `url` is right",
            ) from error

    async def _authorised(self) -> dict[str, str]:
        if self._authoriser is None:
            return {}
        try:
            return await self._authoriser.headers()
        except McpError:
            raise
        except HermesError as error:
            raise Unauthorised(f"{self.name}: {error}", hint=error.hint) from error

    async def _renewed(self, response: httpx2.Response) -> bool:
        if self._authoriser is None:
            return False
        challenge = response.headers.get("www-authenticate", "")
        try:
            return await self._authoriser.refused(response.status_code, challenge)
        except McpError:
            raise
        except HermesError as error:
            raise Unauthorised(f"{self.name}: {error}", hint=error.hint) from error

    def _unauthorised(self, status: int) -> Unauthorised:
        hint = "check its `headers`, or set `auth: oauth` if it wants a login"
        if self._authoriser is not None:
            hint = f"`hermes mcp login {self.name}` signs in again"
        return Unauthorised(f"{self.name} does not let us in (HTTP {status})", hint=hint)

    def _same_place(self, old: httpx2.URL, new: httpx2.URL) -> httpx2.URL:
        """Credentials and messages are meant for the host the user named, so nobody else gets
        them. The same host over TLS is the same place."""
        safer = (old.scheme, new.scheme) == ("http", "https") and old.host == new.host
        if new.origin != old.origin and not (safer and old.port is None and new.port is None):
            raise Unavailable(
                f"{self.name} redirects to {new.scheme}://{new.netloc.decode('ascii', 'replace')}, "
                "which is not followed",
                hint="set `url` to the new address if you trust it",
            )
        return new

    async def check(self, response: httpx2.Response) -> None:
        """Raises what an error status means."""
        status = response.status_code
        if status < 300:
            return
        if status in NO_ACCESS:
            raise self._unauthorised(status)
        complaint = _complaint(await self.read(response, LONGEST_COMPLAINT, whole=False))
        broken = status >= 500 or status == httpx2.codes.TOO_MANY_REQUESTS
        kind = HttpBroken if broken else HttpRefused
        raise kind(f"{self.name} answered with HTTP {status}{complaint}", status)

    async def read(self, response: httpx2.Response, most: int = 0, *, whole: bool = True) -> bytes:
        """The body. One that is longer than `most` is an error, or is cut when not `whole`."""
        most, data = most or self.most_bytes, bytearray()
        try:
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > most:
                    break
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise Lost(f"the connection to {self.name} broke: {_words(error)}") from error
        if len(data) > most and whole:
            raise Lost(f"{self.name} sent more than {human_size(most)} in one message")
        return bytes(data[:most])


def media_type(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def _parsed(name: str, url: str) -> httpx2.URL:
    try:
        parsed = httpx2.URL(url.strip())
    except (httpx2.InvalidURL, ValueError) as error:
        raise Unavailable(f"the url of {name} is no address: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise Unavailable(
            f"the url of {name} is no web address", hint="begin it with https:// or http://"
        )
    return parsed


def can_be_sent(value: str) -> bool:
    """As the value of a header."""
    return value.isascii() and value.isprintable()


def _sendable(name: str, headers: Mapping[str, str]) -> dict[str, str]:
    for field, value in headers.items():
        if not can_be_sent(field) or not can_be_sent(value):
            raise Unavailable(
                f"the header {field!r} of {name} cannot be sent",
                hint="names and values in `headers` are made of printable ASCII characters",
            )
    return dict(headers)


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


class _Problem(msgspec.Struct):
    message: str = ""


class _Complaint(msgspec.Struct):
    error: _Problem | str = ""


def _complaint(body: bytes) -> str:
    """What the body says of the reason, for the end of a message."""
    try:
        said = msgspec.json.decode(body, type=_Complaint).error
        text = said if isinstance(said, str) else said.message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = body.decode("utf-8", "replace")
    text = " ".join(text.split())[:300]
    return f": {text}" if text and not text.startswith("<") else ""
