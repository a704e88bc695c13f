"""HTTP transports of MCP: Streamable HTTP and the older HTTP with SSE.

Streamable HTTP sends each message as a POST, answered with JSON or a stream of events. HTTP with
SSE (protocol of 2024) has one stream of events and an address to post to. Both use
`McpHttpClient`, which bounds responses and sends credentials to the server's own origin only.
"""

import asyncio
import base64
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import httpx2
import msgspec

from hermes import __version__
from hermes.core.errors import HermesError
from hermes.mcp.transport import (
    MODERN_VERSION,
    ConnectionLostError,
    ForeignEndpointError,
    HttpStatusError,
    McpError,
    McpTransport,
    ServerUnauthorized,
    ServerUnavailable,
    ServerUnreachable,
    SessionExpiredError,
)
from hermes.util.http import LateTls, is_header_value, json_object, system_error
from hermes.util.jsonrpc import JsonRpcMessage, decode
from hermes.util.text import human_size

if TYPE_CHECKING:
    from hermes.mcp.catalog import HeaderField, RemoteTool
    from hermes.mcp.oauth import StoredLoginAuthorizer
    from hermes.mcp.session import McpSession

TIMEOUT = httpx2.Timeout(30.0, connect=10.0, read=None, pool=None)
"""No read timeout: every request of a session has its own."""
MAX_REDIRECTS = 5
MAX_ERROR_BYTES = 2_000
JSON, EVENTS = "application/json", "text/event-stream"
HEADERS = {"User-Agent": f"Hermes/{__version__}", "Accept-Encoding": "identity"}
NO_ACCESS = (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN)

T = TypeVar("T")

_ResponseContext = AbstractAsyncContextManager[httpx2.Response]


class McpHttpClient:
    """HTTP client of one server. `headers` and credentials are sent to its own origin only."""

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        authorizer: "StoredLoginAuthorizer | None",
        max_bytes: int,
    ) -> None:
        for field, value in headers.items():
            if not is_header_value(field) or not is_header_value(value):
                raise ServerUnavailable(
                    f"the header {field!r} of {name} cannot be sent",
                    hint="names and values in `headers` are made of printable ASCII characters",
                )
        self.name, self.url, self.max_bytes = name, _parse_url(name, url), max_bytes
        self._headers, self._authorizer = dict(headers), authorizer
        self._client = httpx2.AsyncClient(
            follow_redirects=False,
            trust_env=True,
            timeout=TIMEOUT,
            headers=HEADERS,
            verify=LateTls(),
        )

    async def close(self) -> None:
        await self._client.aclose()

    @asynccontextmanager
    async def open(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        url: httpx2.URL | None = None,
    ) -> AsyncGenerator[httpx2.Response, None]:
        """Yield the streamed response of any status, following redirects. Raises `McpError`."""
        url = url or self.url
        authorizer = self._authorizer
        for _ in range(MAX_REDIRECTS + 2):
            response = await self._send(method, headers, body, url)
            async with aclosing(response):
                if response.next_request is not None:
                    url = self._check_redirect(url, response.next_request.url)
                elif authorizer is not None and response.status_code in NO_ACCESS:
                    challenge = response.headers.get("www-authenticate", "")
                    renewal = authorizer.refused(response.status_code, challenge)
                    if not await self._authorize(renewal):
                        raise self._unauthorised(response.status_code)
                    authorizer = None  # once
                else:
                    yield response
                    return
        raise ServerUnavailable(f"{self.name} redirects without an end")

    async def _send(
        self, method: str, headers: Mapping[str, str], body: bytes | None, url: httpx2.URL
    ) -> httpx2.Response:
        given = httpx2.Headers(self._headers)
        if self._authorizer is not None:
            given.update(await self._authorize(self._authorizer.headers()))
        given.update(headers)
        request = self._client.build_request(method, url, headers=given, content=body)
        try:
            return await self._client.send(request, stream=True)
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise ServerUnreachable(
                f"{self.name} ({url.host}) cannot be reached: {_describe(error)}",
                hint="check that the server runs and that `url` is right",
            ) from error

    async def _authorize(self, work: Awaitable[T]) -> T:
        """Return the answer of the authorizer; its errors become `ServerUnauthorized`."""
        try:
            return await work
        except McpError:
            raise
        except HermesError as error:
            raise ServerUnauthorized(f"{self.name}: {error}", hint=error.hint) from error

    def _unauthorised(self, status: int) -> ServerUnauthorized:
        hint = "check its `headers`, or set `auth: oauth` if it wants a login"
        if self._authorizer is not None:
            hint = f"`hermes mcp login {self.name}` signs in again"
        return ServerUnauthorized(f"{self.name} does not let us in (HTTP {status})", hint=hint)

    def _check_redirect(self, old: httpx2.URL, new: httpx2.URL) -> httpx2.URL:
        """Return the target of a redirect if it has the same origin or upgrades it to TLS.

        Credentials and messages must not reach a host that the user did not name.
        """
        safer = (old.scheme, new.scheme) == ("http", "https") and old.host == new.host
        if new.origin != old.origin and not (safer and old.port is None and new.port is None):
            raise ServerUnavailable(
                f"{self.name} redirects to {new.scheme}://{new.netloc.decode('ascii', 'replace')}, "
                "which is not followed",
                hint="set `url` to the new address if you trust it",
            )
        return new

    async def check(self, response: httpx2.Response) -> None:
        """Raise the error that corresponds to the status, if any."""
        status = response.status_code
        if status < 300:
            return
        if status in NO_ACCESS:
            raise self._unauthorised(status)
        complaint = _error_reason(await self.read(response, MAX_ERROR_BYTES, whole=False))
        raise HttpStatusError(f"{self.name} answered with HTTP {status}{complaint}", status)

    async def read(self, response: httpx2.Response, limit: int = 0, *, whole: bool = True) -> bytes:
        """Return the body. A body over `limit` is an error if `whole`, else it is cut."""
        limit, data = limit or self.max_bytes, bytearray()
        try:
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > limit:
                    break
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise ConnectionLostError(
                f"the connection to {self.name} broke: {_describe(error)}"
            ) from error
        if len(data) > limit and whole:
            raise ConnectionLostError(
                f"{self.name} sent more than {human_size(limit)} in one message"
            )
        return bytes(data[:limit])


def media_type(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def _parse_url(name: str, url: str) -> httpx2.URL:
    try:
        parsed = httpx2.URL(url.strip())
    except (httpx2.InvalidURL, ValueError) as error:
        raise ServerUnavailable(f"the url of {name} is not a valid address: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ServerUnavailable(
            f"the url of {name} is not a web address", hint="begin it with https:// or http://"
        )
    return parsed


def _describe(error: Exception) -> str:
    return system_error(error) or str(error) or type(error).__name__


def _error_reason(body: bytes) -> str:
    """Return the reason in the body of an error response, for the end of a message."""
    fields = json_object(body)
    error = fields.get("error", "")
    text = error.get("message", "") if isinstance(error, dict) else error
    if not fields or not isinstance(text, str):
        text = body.decode("utf-8", "replace")
    text = " ".join(text.split())[:300]
    return f": {text}" if text and not text.startswith("<") else ""


SESSION_HEADER, VERSION_HEADER, LAST_EVENT_HEADER = (
    "MCP-Session-Id",
    "MCP-Protocol-Version",
    "Last-Event-ID",
)
METHOD_HEADER, NAME_HEADER, PARAM_HEADER = "Mcp-Method", "Mcp-Name", "Mcp-Param-"
_PLAIN_VALUE = re.compile(r"(?!=\?base64\?)[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
MAX_RECONNECTS = 5  #: Consecutive attempts to reopen a stream that delivers no events.
FIRST_PAUSE, MAX_PAUSE = 1.0, 30.0
CLOSE_SECONDS = 2.0

log = logging.getLogger(__name__)


class _StreamCursor(msgspec.Struct):
    """Position in a stream of events."""

    last: str = ""
    events: int = 0
    pause: float = FIRST_PAUSE  #: Reconnection delay in seconds, as requested by the server.


class _RoutedParams(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uri: str = ""
    task_id: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _RoutedMessage(msgspec.Struct, frozen=True):
    """The fields of a message that its HTTP headers repeat."""

    method: str = ""
    params: _RoutedParams = _RoutedParams()


def _routing_headers(
    data: bytes, fields: Mapping[str, tuple["HeaderField", ...]]
) -> dict[str, str]:
    """Return the headers that let intermediaries route a message without reading it. `fields` are
    the arguments that belong to them, by tool."""
    message = msgspec.json.decode(data, type=_RoutedMessage)
    params, headers = message.params, {METHOD_HEADER: message.method}
    if name := params.task_id or params.name or params.uri:
        headers[NAME_HEADER] = _header_value(name)
    if message.method == "tools/call" and (wanted := fields.get(params.name)):
        arguments = msgspec.json.decode(params.arguments)
        for field in wanted:
            if (text := _argument_text(arguments, field.path)) is not None:
                headers[f"{PARAM_HEADER}{field.name}"] = _header_value(text)
    return headers


def _argument_text(value: Any, path: tuple[str, ...]) -> str | None:
    """Return the argument at `path` as text; None if there is none, or it is not a simple one."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    match value:
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case str() | int():
            return str(value)
        case _:
            return None


def _header_value(text: str) -> str:
    if _PLAIN_VALUE.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


class StreamableHttpTransport(McpTransport):
    kind = "http"

    def __init__(self, client: McpHttpClient) -> None:
        self._client = client
        self._headers: dict[str, str] = {}
        """Headers that identify the session, after the handshake."""
        self._fields: dict[str, tuple[HeaderField, ...]] = {}
        self._exchanges: dict[int, asyncio.Task[None]] = {}
        self._listening: asyncio.Task[None] | None = None

    async def start(self, session: "McpSession") -> None:
        self._session = session

    async def send(self, data: bytes, request: int | None = None) -> None:
        if request is None:
            try:
                async with self._post(data) as response:
                    await self._check(response)
            except SessionExpiredError as error:
                self._session.lost(ConnectionLostError(str(error)))
                raise
            return
        task = asyncio.create_task(self._exchange(data, request))
        self._exchanges[request] = task
        task.add_done_callback(lambda _: self._exchanges.pop(request, None))

    def forget(self, request: int) -> None:
        if task := self._exchanges.get(request):
            task.cancel()

    def set_version(self, version: str) -> None:
        if version:
            self._headers[VERSION_HEADER] = version
        else:
            self._headers.pop(VERSION_HEADER, None)

    def set_tools(self, tools: Sequence["RemoteTool"]) -> None:
        self._fields = {tool.name: tool.headers for tool in tools if tool.headers}

    @property
    def _modern(self) -> bool:
        return self._headers.get(VERSION_HEADER) == MODERN_VERSION

    def listen(self) -> None:
        self._listening = asyncio.create_task(self._listen_to_server())

    async def close(self, *, graceful: bool) -> None:
        tasks = [*self._exchanges.values(), *((self._listening,) if self._listening else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if graceful and SESSION_HEADER in self._headers:
            with suppress(HermesError, TimeoutError):
                async with (
                    asyncio.timeout(CLOSE_SECONDS),
                    self._client.open("DELETE", self._headers),
                ):
                    pass
        await self._client.close()

    def _post(self, data: bytes) -> _ResponseContext:
        headers = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}", **self._headers}
        if self._modern:
            headers |= _routing_headers(data, self._fields)
        return self._client.open("POST", headers, data)

    async def _check(self, response: httpx2.Response) -> None:
        if response.status_code == httpx2.codes.NOT_FOUND and SESSION_HEADER in self._headers:
            raise SessionExpiredError(f"{self._client.name} has ended the session")
        await self._client.check(response)

    async def _exchange(self, data: bytes, request: int) -> None:
        """Send a request and wait for its answer."""
        cursor = _StreamCursor()
        try:
            if not await self._ask(data, request, cursor):
                # Without a session there is no stream to resume.
                await self._resume(request, _StreamCursor() if self._modern else cursor)
        except McpError as error:
            self._session.failed(request, error)
            if isinstance(error, SessionExpiredError):
                # Requests in progress may have been processed, so they are not repeated.
                self._session.lost(ConnectionLostError(str(error)))
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            self._session.failed(
                request, ConnectionLostError(f"the connection to {self._client.name}: {error}")
            )

    async def _ask(self, data: bytes, request: int, cursor: _StreamCursor) -> bool:
        """Post the request. Return whether its answer arrived."""
        modern = self._modern
        async with self._post(data) as response:
            status = response.status_code
            if modern and 400 <= status < 500 and status not in NO_ACCESS:
                # Errors of the protocol come with an HTTP status of their own.
                body = await self._client.read(response)
                for message in decode(body):
                    if isinstance(message.error, dict) and message.id in (request, None):
                        answer = JsonRpcMessage(id=request, error=message.error)
                        return self._deliver([answer], request)
                reason = _error_reason(body[:MAX_ERROR_BYTES])
                raise HttpStatusError(
                    f"{self._client.name} answered with HTTP {status}{reason}", status
                )
            await self._check(response)
            if not modern and (session := response.headers.get(SESSION_HEADER, "")):
                if not is_header_value(session):
                    raise ServerUnavailable(
                        f"{self._client.name} gave the session a name that cannot be sent back"
                    )
                self._headers[SESSION_HEADER] = session
            if media_type(response) == EVENTS:
                return await self._read_events(response, request, cursor)
            messages = decode(await self._client.read(response))
        if not self._deliver(messages, request):
            raise ConnectionLostError(
                f"{self._client.name} took the request but did not answer it",
                hint="check that `url` is the address of an MCP server",
            )
        return True

    async def _resume(self, request: int, cursor: _StreamCursor) -> None:
        """Resume a stream that ended before the answer, as long as the server supports it."""
        tries = 0
        while cursor.last and tries < MAX_RECONNECTS:
            await asyncio.sleep(cursor.pause)
            before = cursor.events
            try:
                async with self._get(cursor) as response:
                    await self._check(response)
                    if await self._read_events(response, request, cursor):
                        return
            except ServerUnreachable:
                log.info("%s: the stream could not be taken up again", self._client.name)
            tries = 0 if cursor.events > before else tries + 1
        raise ConnectionLostError(
            f"the connection to {self._client.name} ended before the answer came"
        )

    async def _listen_to_server(self) -> None:
        """Read the stream of unsolicited messages, if the server offers one."""
        cursor, tries = _StreamCursor(), 0
        while tries < MAX_RECONNECTS:
            before, began = cursor.events, time.monotonic()
            try:
                async with self._get(cursor) as response:
                    await self._client.check(response)
                    if media_type(response) != EVENTS:
                        return
                    await self._read_events(response, None, cursor)
            except HttpStatusError as error:
                if not error.transient:
                    return  # the server offers no such stream
            except HermesError as error:
                log.info("the stream of %s: %s", self._client.name, error)
            useful = cursor.events > before or time.monotonic() - began > MAX_PAUSE
            tries = 0 if useful else tries + 1
            await asyncio.sleep(min(max(cursor.pause, 2.0**tries / 2), MAX_PAUSE))

    def _get(self, cursor: _StreamCursor) -> _ResponseContext:
        place = {LAST_EVENT_HEADER: cursor.last} if cursor.last else {}
        return self._client.open("GET", {"Accept": EVENTS, **self._headers, **place})

    async def _read_events(
        self, response: httpx2.Response, request: int | None, cursor: _StreamCursor
    ) -> bool:
        """Return whether the answer to `request` arrived before the stream ended."""
        events = aiter(httpx2.EventSource(response, max_event_size=self._client.max_bytes))
        try:
            async for event in events:
                cursor.events += 1
                if event.id and is_header_value(event.id):
                    cursor.last = event.id
                if event.retry is not None:
                    cursor.pause = min(max(event.retry, 0) / 1000, MAX_PAUSE)
                if self._deliver(decode(event.data), request):
                    return True
        except httpx2.SSEError as error:
            raise ConnectionLostError(f"{self._client.name}: {error}") from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            log.info("the stream of %s broke: %s", self._client.name, error)
        return False

    def _deliver(self, messages: list[JsonRpcMessage], request: int | None) -> bool:
        for message in messages:
            self._session.received(message, request)
        return any(message.is_answer and message.id == request for message in messages)


class SseTransport(McpTransport):
    kind = "sse"

    def __init__(self, client: McpHttpClient) -> None:
        self._client = client
        self._reading: asyncio.Task[None] | None = None
        self._address: asyncio.Future[httpx2.URL] | None = None

    async def start(self, session: "McpSession") -> None:
        self._session = session
        self._address = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(self._address))
        await asyncio.shield(self._address)

    async def send(self, data: bytes, request: int | None = None) -> None:  # noqa: ARG002 - one stream
        if self._address is None or not self._address.done():
            raise ConnectionLostError(f"{self._client.name} is not connected")
        headers = {"Content-Type": JSON, "Accept": JSON}
        async with self._client.open("POST", headers, data, self._address.result()) as response:
            await self._client.check(response)

    async def close(self, *, graceful: bool) -> None:  # noqa: ARG002 - SSE has no request to end a session
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._address is not None:
            self._address.cancel()
        await self._client.close()

    async def _read(self, address: asyncio.Future[httpx2.URL]) -> None:
        error: McpError = ConnectionLostError(f"{self._client.name} ended the connection")
        try:
            async with self._client.open("GET", {"Accept": EVENTS}) as response:
                await self._client.check(response)
                if media_type(response) != EVENTS:
                    raise ServerUnavailable(
                        f"{self._client.name} does not speak MCP at this address"
                    )
                await self._handle_events(response, address)
        except McpError as problem:
            error = problem
        except (httpx2.HTTPError, httpx2.StreamError) as problem:
            error = ConnectionLostError(f"the connection to {self._client.name} broke: {problem}")
        if address.done():
            self._session.lost(error)
        else:
            address.set_exception(error)

    async def _handle_events(
        self, response: httpx2.Response, address: asyncio.Future[httpx2.URL]
    ) -> None:
        async for event in httpx2.EventSource(response, max_event_size=self._client.max_bytes):
            if event.event == "endpoint" and not address.done():
                address.set_result(self._endpoint(event.data))
            elif event.event == "message":
                for message in decode(event.data):
                    self._session.received(message, None)

    def _endpoint(self, text: str) -> httpx2.URL:
        """Return the address to post to. It must have the server's own origin, because messages
        and credentials are sent there."""
        try:
            url = self._client.url.join(text.strip())
        except (httpx2.InvalidURL, ValueError) as error:
            raise ServerUnavailable(f"{self._client.name} named no address to post to") from error
        if url.origin != self._client.url.origin:
            raise ForeignEndpointError(
                f"{self._client.name} wants its messages sent to another host, {url.host}",
                hint="set `url` to an address there if you trust it",
            )
        return url
