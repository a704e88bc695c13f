"""Requests to login servers: bounded in time and size, and never led astray with a secret."""

import asyncio
import re
from types import TracebackType
from typing import Any, Self
from urllib.parse import urljoin

import httpx2
import msgspec

from hermes import __version__
from hermes.mcp.failures import Unreachable
from hermes.mcp.oauth.addresses import checked, origin_of, shown
from hermes.mcp.oauth.failures import LoginFailed
from hermes.security.redaction import Redactor
from hermes.util.late_tls import LateTls

SECONDS = 30.0
"""Longest time for one request."""
MOST_BYTES = 256_000
MOST_REDIRECTS = 3
HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"Hermes/{__version__}",
}
KNOCK = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "ping"})
KNOCK_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}
_CODE = re.compile(r"[^A-Za-z0-9_.-]")


class Answer(msgspec.Struct, frozen=True):
    """What a login server said. It may hold tokens: it is never shown."""

    status: int
    fields: dict[str, Any]

    def __repr__(self) -> str:
        return f"Answer({self.status}, error={self.error!r})"

    @property
    def ok(self) -> bool:
        return self.status in (httpx2.codes.OK, httpx2.codes.CREATED) and not self.error

    @property
    def error(self) -> str:
        """The error code, or nothing."""
        return _CODE.sub("", str(self.fields.get("error") or ""))[:80]

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""


class Web:
    """Requests to sign in to one MCP server: `name` at `url`."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url
        self._client = httpx2.AsyncClient(
            follow_redirects=False, trust_env=True, timeout=SECONDS, verify=LateTls()
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def document(self, address: str, what: str) -> dict[str, Any] | None:
        """The JSON object at an address; None when there is none: many answer with a page for
        people. Raises `LoginFailed`, or `Unreachable`."""
        for _ in range(MOST_REDIRECTS + 1):
            address = checked(address, what, self.url)
            status, headers, body = await self._ask("GET", address, what)
            if 300 <= status < 400 and "location" in headers:
                address = urljoin(address, headers["location"])
                continue
            return (_fields(body) or None) if status == httpx2.codes.OK else None
        raise LoginFailed(f"{what} is redirected without an end")

    async def post(
        self,
        address: str,
        what: str,
        *,
        form: dict[str, str] | None = None,
        document: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """The answer to a form or a document. A redirect is not followed: it would carry secrets
        to another place. Raises `LoginFailed`, and `Unreachable` when trying again may help."""
        address = checked(address, what, self.url)
        status, _, body = await self._ask(
            "POST", address, what, data=form, json=document, headers=headers or {}
        )
        if 300 <= status < 400:
            raise LoginFailed(f"{what} redirects to somewhere else, which is not followed")
        answer = Answer(status, _fields(body))
        if status >= httpx2.codes.INTERNAL_SERVER_ERROR or status == 429:
            raise Unreachable(f"{what} fails: HTTP {status}{_said(answer)}")
        return answer

    async def challenge(self) -> str:
        """What the MCP server says to somebody without a token; nothing when it lets us in."""
        what = f"the MCP server {self.name}"
        for method, headers, body in (
            ("POST", KNOCK_HEADERS, KNOCK),
            ("GET", {"Accept": "text/event-stream"}, None),  # the older way, a stream
        ):
            status, found, _ = await self._ask(
                method, self.url, what, content=body, headers=headers, head_only=True
            )
            if status in (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN):
                return found.get("www-authenticate", "")
        return ""

    async def _ask(
        self,
        method: str,
        address: str,
        what: str,
        *,
        headers: dict[str, str] | None = None,
        head_only: bool = False,
        **body: Any,
    ) -> tuple[int, httpx2.Headers, bytes]:
        given = {**HEADERS, **(headers or {})}
        try:
            async with (
                asyncio.timeout(SECONDS),
                self._client.stream(method, address, headers=given, **body) as response,
            ):
                data = b"" if head_only else await _read(response, what)
                return response.status_code, response.headers, data
        except TimeoutError:
            raise Unreachable(f"{what} does not answer ({origin_of(address)})") from None
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            words = str(error) or type(error).__name__
            raise Unreachable(
                f"{what} cannot be reached: {words} ({origin_of(address)})"
            ) from error
        except httpx2.InvalidURL as error:
            raise LoginFailed(f"{what} is no usable address: {shown(address)}") from error


def refusal(what: str, answer: Answer, secrets: tuple[str, ...] = ()) -> LoginFailed:
    """The error for an answer that is no success; what it says is shown without `secrets`."""
    said = Redactor(secrets).redact(_said(answer))
    return LoginFailed(f"{what}: HTTP {answer.status}{said}")


def _said(answer: Answer) -> str:
    why = " ".join(answer.text("error_description").split())[:200]
    words = "".join(": " + word for word in (answer.error, why) if word)
    return "".join(letter for letter in words if letter.isprintable())


async def _read(response: httpx2.Response, what: str) -> bytes:
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) > MOST_BYTES:
            raise LoginFailed(f"{what} sends more than {MOST_BYTES:,} bytes")
    return bytes(data)


def _fields(body: bytes) -> dict[str, Any]:
    """The JSON object of a body, without what is null; empty when it is something else."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if value is not None}
