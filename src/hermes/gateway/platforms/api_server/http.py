"""HTTP for the API server: options, errors in OpenAI's format, requests and responses over ASGI."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from math import ceil
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from hermes.config.files import told, unset_names
from hermes.config.settings.platforms import ApiServerPlatform
from hermes.core.errors import (
    BudgetSpent,
    ConfigError,
    CredentialMissing,
    HermesError,
    Interrupted,
    LocalModelError,
    ProviderError,
    RateLimited,
    SessionNotFound,
    StoreError,
    UsageError,
)
from hermes.core.events import TurnFinished
from hermes.gateway.platforms.kit.contract import CredentialsRefused
from hermes.gateway.platforms.kit.http_server import (
    AsgiReceive,
    BodyTooLarge,
    ClientDisconnected,
    discard_body,
    read_body,
)
from hermes.util.hosts import is_loopback

SHORTEST_KEY = 16
HOST, PORT, MODEL_NAME = "127.0.0.1", 8642, "hermes"
ANY = "*"
NEW_KEY = "`openssl rand -hex 24` makes a good one"


class Options(msgspec.Struct, frozen=True):
    host: str = HOST
    port: int = PORT
    """0 takes any free port."""
    key: str = ""
    """The key that clients must send; "" admits programs on this machine and no web page."""
    origins: tuple[str, ...] = ()
    """Web pages that may use the API; `*` means all."""
    model_name: str = MODEL_NAME
    most_body_bytes: int = 16_000_000
    most_turns: int = 2000
    """Maximum number of turns at the same time."""
    body_seconds: float = 30.0
    """Seconds without data after which an incomplete request is dropped."""
    head_seconds: float = 15.0
    """Seconds after which a client that has not sent its headers is dropped."""
    send_seconds: float = 60.0
    """Seconds after which a client that does not read is dropped."""
    beat_seconds: float = 15.0
    """Seconds without data after which a stream sends a keep-alive comment."""


def read_options(
    variable: Callable[[str], str | None],
    connection: ApiServerPlatform = ApiServerPlatform(),  # noqa: B008 - frozen
    unset: Callable[[str], tuple[str, ...]] = lambda _name: (),
) -> Options:
    """Read the options from config.yaml (`connection`), then from variables.

    `unset` returns the missing references of a variable. Raises `CredentialsRefused` for settings
    that would admit anyone.
    """
    said = {name: (variable(f"API_SERVER_{name}") or "").strip() for name in NAMES}
    extra = connection.extra
    host = extra.host.strip() or said["HOST"] or HOST
    pages = extra.cors_origins or said["CORS_ORIGINS"].split(",")
    origins = tuple(filter(None, map(_origin, pages)))
    key = _key(connection.token.strip() or extra.key.strip() or said["KEY"], unset)
    if not key and not is_loopback(host):
        raise CredentialsRefused(
            f"others can reach {host}, where it is to listen, but there is no API_SERVER_KEY",
            hint=f"set API_SERVER_KEY ({NEW_KEY}), or leave API_SERVER_HOST out",
        )
    if not key and ANY in origins:
        raise CredentialsRefused(
            "API_SERVER_CORS_ORIGINS is *, so every web page could use the terminal",
            hint="name the pages, or set API_SERVER_KEY",
        )
    port = _port(said["PORT"]) if extra.port is None else extra.port
    name = extra.model_name.strip() or said["MODEL_NAME"] or MODEL_NAME
    return Options(host, port, key, origins, name)


NAMES = ("HOST", "PORT", "KEY", "CORS_ORIGINS", "MODEL_NAME")


def _key(key: str, unset: Callable[[str], tuple[str, ...]]) -> str:
    """Check the key. A key that is configured but missing or too short is an error."""
    if names := unset_names(key) if key else unset("API_SERVER_KEY"):
        raise CredentialsRefused(
            f"the key of the API server is missing: {told(names)}",
            hint=f"hermes config set {names[0]} KEY; {NEW_KEY}",
        )
    if key and len(key) < SHORTEST_KEY:
        raise CredentialsRefused(
            f"API_SERVER_KEY is shorter than {SHORTEST_KEY} characters, and it guards a terminal",
            hint=NEW_KEY,
        )
    return key


def _port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdigit() else -1 if text else PORT
    if not 0 <= port < 65536:
        raise CredentialsRefused(f"API_SERVER_PORT is {text}, which is no port")
    return port


def _origin(text: str) -> str:
    """Normalise an origin as browsers write it: no trailing slash, lower case."""
    text = text.strip().rstrip("/")
    if text in ("", ANY, "null"):
        return text
    if not urlsplit(text).netloc:
        raise CredentialsRefused(
            f"API_SERVER_CORS_ORIGINS has {text}, which is no origin",
            hint="an origin looks like https://chat.example.com",
        )
    return text.lower()


INVALID = "invalid_request_error"

Headers = tuple[tuple[str, str], ...]

KINDS = {
    400: INVALID,
    401: "authentication_error",
    403: "permission_error",
    404: INVALID,
    405: INVALID,
    408: INVALID,
    409: INVALID,
    413: INVALID,
    415: INVALID,
    422: INVALID,
    429: "rate_limit_error",
}


class ErrorDetails(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorAnswer(msgspec.Struct, frozen=True):
    error: ErrorDetails


class Refused(HermesError):
    """An error response for the client."""

    def __init__(
        self, status: int, message: str, *, code: str = "", param: str = "", headers: Headers = ()
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param, self.headers = status, code, param, headers

    @property
    def answer(self) -> ErrorAnswer:
        kind = KINDS.get(self.status, "server_error")
        return ErrorAnswer(ErrorDetails(str(self), kind, self.param or None, self.code or None))


def invalid(message: str, *, param: str = "", code: str = "") -> Refused:
    return Refused(400, message, param=param, code=code)


def missing(message: str, code: str = "not_found") -> Refused:
    return Refused(404, message, code=code)


AGAIN_IS_NO_HELP = (("X-Should-Retry", "false"),)
"""OpenAI's clients retry after 5xx errors, which would run the tools of a turn twice."""


OUR_FAULT = Refused(500, "internal error; the log has more", code="internal_error")


def retry_after(seconds: float) -> Headers:
    return (("Retry-After", str(max(1, ceil(seconds)))),)


STATUSES: tuple[tuple[type[HermesError], int, str], ...] = (
    (UsageError, 400, "invalid_request"),
    (SessionNotFound, 404, "session_not_found"),
    (BudgetSpent, 429, "insufficient_quota"),
    (RateLimited, 429, "rate_limit_exceeded"),
    (CredentialMissing, 500, "not_configured"),
    (ConfigError, 500, "not_configured"),
    (LocalModelError, 502, "model_failed"),
    (ProviderError, 502, "model_failed"),
    (StoreError, 503, "store_failed"),
    (Interrupted, 503, "interrupted"),
)
"""Status and code by error type; the first match counts."""

EXITS = {4: (500, "not_configured"), 5: (502, "model_failed"), 6: (503, "store_failed")} | {
    7: (502, "model_failed"),
    8: (429, "insufficient_quota"),
    130: (503, "interrupted"),
}
"""Status and code by the exit code of a turn."""


def refusal_of(error: HermesError) -> Refused:
    if isinstance(error, Refused):
        return error
    found = ((status, code) for kind, status, code in STATUSES if isinstance(error, kind))
    status, code = next(found, (500, "internal_error"))
    message = f"{error}; {error.hint}" if error.hint else str(error)
    headers: Headers = AGAIN_IS_NO_HELP
    if isinstance(error, RateLimited) and error.retry_after is not None:
        headers += retry_after(error.retry_after)
    return Refused(status, message, code=code, headers=headers)


def failure_of(end: TurnFinished) -> Refused | None:
    """Return the error response for a turn without an answer; None if it has one."""
    if not end.error and not end.interrupted:
        return None
    status, code = EXITS.get(end.exit_code, (500, "internal_error"))
    message = end.error or "the turn was stopped"
    if end.hint:
        message = f"{message}; {end.hint}"
    return Refused(status, message, code=code, headers=AGAIN_IS_NO_HELP)


logger = logging.getLogger(__name__)

JSON = "application/json"
SSE = "text/event-stream; charset=utf-8"
CLOSE = (("Connection", "close"),)
BEAT = b": still here\n\n"

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
T = TypeVar("T")


class Reply(msgspec.Struct, frozen=True):
    body: bytes = b""
    status: int = 200
    headers: Headers = ()
    kind: str = JSON
    stream: AsyncGenerator[bytes, None] | None = None
    """Server-sent events instead of `body`. The stream is read to its end even if the client has
    left."""
    close: Callable[[], Awaitable[None]] | None = None
    """Called at the end, also if the stream was never started."""


def answered(value: Any, status: int = 200, headers: Headers = ()) -> Reply:
    return Reply(msgspec.json.encode(value), status, headers)


class Request:
    """A request of a client."""

    def __init__(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        """The names in `headers` are lower case."""
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.places: Mapping[str, str] = {}
        """Values for `{name}` in the path."""
        self._gone = False
        self._leaving: list[Callable[[], object]] = []
        self.watched: Callable[[], None] = lambda: None
        """Called when code starts to wait for the client to leave."""

    def decoded(self, kind: type[T]) -> T:
        """Decode the body. Raises `Refused` if it is not JSON of this type."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except msgspec.ValidationError as error:
            text, _, where = str(error).partition(" - at `")
            place = where.rstrip("`").removeprefix("$.").removeprefix("$")
            raise invalid(f"{text} at {place or 'the top'}", param=place) from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise invalid(f"the body is not valid JSON: {said}", code="invalid_json") from None

    @property
    def left(self) -> bool:
        """Whether the client has left; known only after `on_gone` was called."""
        return self._gone

    def on_gone(self, do: Callable[[], object]) -> None:
        """Call `do` when the client leaves before its response; at once if it has left already."""
        if self._gone:
            do()
        else:
            self._leaving.append(do)
            self.watched()

    def gone(self) -> None:
        self._gone = True
        for do in self._leaving:
            do()
        self._leaving.clear()


class Exchange:
    """The connection to one client."""

    def __init__(self, receive: AsgiReceive, send: Send, options: Options, shared: Headers) -> None:
        """`shared` are the headers of every response."""
        self._receive, self._send, self._options = receive, send, options
        self._shared = shared
        self._beats = self._spoke = False
        self._watcher: asyncio.Task[None] | None = None
        self._unread: BodyTooLarge | None = None

    async def body(self, headers: Mapping[str, str]) -> bytes:
        """Read the whole body. Raises `Refused` if it is too large or too slow."""
        most = self._options.most_body_bytes
        try:
            return await read_body(self._soon, headers, most)
        except BodyTooLarge as error:
            self._unread = error
            message = f"the body is larger than {most} bytes"
            raise Refused(413, message, code="request_too_large", headers=CLOSE) from None
        except ClientDisconnected:
            raise Refused(400, "the client left") from None
        except TimeoutError:
            message = "the request did not come to its end"
            raise Refused(408, message, code="timeout", headers=CLOSE) from None

    async def _soon(self) -> MutableMapping[str, Any]:
        async with asyncio.timeout(self._options.body_seconds):
            return await self._receive()

    def watch(self, request: Request) -> None:
        """Watch for the client to leave, and keep a silent stream alive."""
        if self._watcher is None:
            self._watcher = asyncio.ensure_future(self._watch(request))

    async def _watch(self, request: Request) -> None:
        while True:
            try:
                async with asyncio.timeout(self._options.beat_seconds):
                    event = await self._receive()
            except TimeoutError:
                if self._beats and not self._spoke:
                    await self._write(BEAT, more=True)
                self._spoke = False
                continue
            if event["type"] == "http.disconnect":
                request.gone()
                return

    async def answer(self, reply: Reply) -> None:
        try:
            if reply.stream is None:
                await self._head(reply, (("Content-Length", str(len(reply.body))),))
                await self._write_last(reply.body)
            else:
                async with aclosing(to_the_end(reply.stream)) as pieces:
                    await self._streamed(reply, pieces)
        finally:
            await self._unwatch()
            if reply.close is not None:
                await reply.close()

    async def _write_last(self, piece: bytes) -> None:
        if self._unread is None:
            await self._end(piece)
            return
        await self._write(piece, more=True)
        await discard_body(self._soon, self._unread)
        await self._end(b"")

    async def _streamed(self, reply: Reply, pieces: AsyncGenerator[bytes, None]) -> None:
        await self._head(reply, (("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no")))
        self._beats = True
        async for piece in pieces:
            self._spoke = True
            await self._write(piece, more=True)
        await self._end(b"")

    async def _unwatch(self) -> None:
        if self._watcher is not None and not self._watcher.done():
            self._watcher.cancel()
            await asyncio.wait([self._watcher])

    async def _end(self, piece: bytes) -> None:
        await self._unwatch()  # a complete response looks like a client that left
        await self._write(piece, more=False)

    async def _head(self, reply: Reply, more: Headers) -> None:
        kind = (("Content-Type", reply.kind),) if reply.kind else ()
        fields = (*kind, *more, *self._shared, *reply.headers)
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in fields]
        await self._send(
            {"type": "http.response.start", "status": reply.status, "headers": headers}
        )

    async def _write(self, piece: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})


async def to_the_end(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield `pieces`, and an error event if they fail: the status was already sent."""
    async with aclosing(pieces):
        try:
            async for piece in pieces:
                yield piece
        except HermesError as error:
            yield event_bytes(msgspec.json.encode(refusal_of(error).answer))
        except Exception:  # the client must not take a partial answer for a complete one
            logger.exception("an answer broke off")
            yield event_bytes(msgspec.json.encode(OUR_FAULT.answer))


def event_bytes(data: bytes, name: str = "", number: int | None = None) -> bytes:
    """Return a server-sent event. `data` is JSON and has no line breaks."""
    head = f"event: {name}\n" if name else ""
    if number is not None:
        head = f"id: {number}\n{head}"
    return head.encode() + b"data: " + data + b"\n\n"


ONLY_JSON = "Your last answer must be valid JSON and nothing else: no words around it, no fences."


def form_wanted(given: Any) -> str:
    """Return the instruction for a requested response format (`response_format`, `text.format`);
    "" for plain text."""
    if not isinstance(given, dict) or given.get("type") not in ("json_object", "json_schema"):
        return ""
    inner = given.get("json_schema", given)
    schema = inner.get("schema") if isinstance(inner, dict) else None
    if not schema:
        return ONLY_JSON
    return f"{ONLY_JSON} It must fit this JSON schema: {msgspec.json.encode(schema).decode()}"


def joined(*texts: str | None) -> str:
    """Join instructions from several places."""
    return "\n\n".join(filter(None, texts))
