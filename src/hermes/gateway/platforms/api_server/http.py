"""Requests and responses of the API server: options, errors in OpenAI's format, JSON bodies,
server-sent events, and repeated requests with an `Idempotency-Key`."""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from math import ceil
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request, empty_receive
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from hermes.config.environment import describe_unset, unset_names
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
from hermes.core.ports import Clock
from hermes.sdk.platforms import ClientDisconnected, CredentialsRefused, cancel_and_wait, read_body

logger = logging.getLogger(__name__)

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
SESSION_HEADER = "X-Hermes-Session-Id"
KEEP_ALIVE = b": still here\n\n"
CLOSE = {"Connection": "close"}
NO_RETRY = {"X-Should-Retry": "false"}
"""OpenAI's clients retry after 5xx errors, which would run the tools of a turn twice."""

T = TypeVar("T")

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

_BY_CLASS: tuple[tuple[type[HermesError], int, str], ...] = (
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
"""Status and code by error class; the first match counts."""

_BY_EXIT_CODE = {
    4: (500, "not_configured"),
    5: (502, "model_failed"),
    6: (503, "store_failed"),
    7: (502, "model_failed"),
    8: (429, "insufficient_quota"),
    130: (503, "interrupted"),
}
"""Status and code by the exit code of a turn."""

MIN_KEY_CHARS = 16
HOST, PORT, MODEL_NAME = "127.0.0.1", 8642, "hermes"
ANY = "*"
KEY_VARIABLE = "API_SERVER_KEY"
NEW_KEY = "`openssl rand -hex 24` makes a good one"
NAMES = ("HOST", "PORT", "KEY", "CORS_ORIGINS", "MODEL_NAME")


class ApiOptions(msgspec.Struct, frozen=True):
    host: str = HOST
    port: int = PORT  #: 0 takes any free port.
    key: str = ""
    """The key that clients must send; without one no client is admitted."""
    origins: tuple[str, ...] = ()  #: Web pages that may use the API; `*` means all.
    model_name: str = MODEL_NAME
    max_body_bytes: int = 16_000_000
    max_turns: int = 2000  #: Maximum number of turns at the same time.
    body_seconds: float = 30.0
    """Seconds without data after which an incomplete request is dropped."""
    head_seconds: float = 15.0
    """Seconds after which a client that has not sent its headers is dropped."""
    send_seconds: float = 60.0  #: Seconds after which a client that does not read is dropped.
    beat_seconds: float = 15.0
    """Seconds without data after which a stream sends a keep-alive comment."""
    wait_seconds: float = 120.0
    """Seconds that a request waits for the turns that run in its session."""


def read_options(
    variable: Callable[[str], str | None],
    connection: ApiServerPlatform = ApiServerPlatform(),  # noqa: B008 - frozen
    unset: Callable[[str], tuple[str, ...]] = lambda _name: (),
) -> ApiOptions:
    """Read the options from config.yaml (`connection`), then from variables; `unset` returns the
    missing references of one. Raises `CredentialsRefused` for invalid settings. The key is "" if
    none is configured."""
    values = {name: (variable(f"API_SERVER_{name}") or "").strip() for name in NAMES}
    extra = connection.extra
    host = extra.host.strip() or values["HOST"] or HOST
    pages = extra.cors_origins or values["CORS_ORIGINS"].split(",")
    origins = tuple(filter(None, map(_parse_origin, pages)))
    key = connection.token.strip() or extra.key.strip() or values["KEY"]
    _check_key(key, unset)
    text = values["PORT"] if extra.port is None else str(extra.port)
    port = int(text) if text.isascii() and text.isdigit() else -1 if text else PORT
    if not 0 <= port < 65536:
        raise CredentialsRefused(f"API_SERVER_PORT is {text}, which is not a port")
    name = extra.model_name.strip() or values["MODEL_NAME"] or MODEL_NAME
    return ApiOptions(host, port, key, origins, name)


def _check_key(key: str, unset: Callable[[str], tuple[str, ...]]) -> None:
    """Raise `CredentialsRefused` for a key that is configured but missing, or too short."""
    if names := unset_names(key) if key else unset(KEY_VARIABLE):
        raise CredentialsRefused(
            f"the key of the API server is missing: {describe_unset(names)}",
            hint=f"hermes config set {names[0]} KEY; {NEW_KEY}",
        )
    if key and len(key) < MIN_KEY_CHARS:
        raise CredentialsRefused(
            f"API_SERVER_KEY is shorter than {MIN_KEY_CHARS} characters, and it guards a terminal",
            hint=NEW_KEY,
        )


def _parse_origin(text: str) -> str:
    """Normalise an origin as browsers write it: no trailing slash, lower case."""
    text = text.strip().rstrip("/")
    if text in ("", ANY, "null"):
        return text
    if not urlsplit(text).netloc:
        raise CredentialsRefused(
            f"API_SERVER_CORS_ORIGINS has {text}, which is not an origin",
            hint="an origin looks like https://chat.example.com",
        )
    return text.lower()


class ErrorDetails(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorDetails


class ApiError(HermesError):
    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "",
        param: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param
        self.headers = dict(headers or {})

    @property
    def body(self) -> ErrorBody:
        fallback = "invalid_request_error" if self.status < 500 else "server_error"
        kind = _TYPES.get(self.status, fallback)
        return ErrorBody(ErrorDetails(str(self), kind, self.param or None, self.code or None))


INTERNAL_ERROR = ApiError(500, "internal error; the log has more", code="internal_error")


def bad_request(message: str, *, param: str = "", code: str = "") -> ApiError:
    return ApiError(400, message, param=param, code=code)


def not_found(message: str, code: str = "not_found") -> ApiError:
    return ApiError(404, message, code=code)


def retry_after(seconds: float) -> dict[str, str]:
    return {"Retry-After": str(max(1, ceil(seconds)))}


def to_api_error(error: Exception) -> ApiError:
    """Return the error for the client, who learns nothing of an unexpected one."""
    if isinstance(error, ApiError):
        return error
    if not isinstance(error, HermesError):
        logger.error("a request failed", exc_info=error)
        return INTERNAL_ERROR
    found = ((status, code) for kind, status, code in _BY_CLASS if isinstance(error, kind))
    status, code = next(found, (500, "internal_error"))
    message = f"{error}; {error.hint}" if error.hint else str(error)
    seconds = error.retry_after if isinstance(error, RateLimited) else None
    wait = {} if seconds is None else retry_after(seconds)
    return ApiError(status, message, code=code, headers=NO_RETRY | wait)


def turn_error(end: TurnFinished) -> ApiError | None:
    """Return the error for a turn without an answer; None if it has one."""
    if not end.error and not end.interrupted:
        return None
    status, code = _BY_EXIT_CODE.get(end.exit_code, (500, "internal_error"))
    message = end.error or "the turn was stopped"
    if end.hint:
        message = f"{message}; {end.hint}"
    return ApiError(status, message, code=code, headers=NO_RETRY)


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(msgspec.json.encode(value), status, headers, JSON)


def error_response(error: Exception) -> Response:
    found = to_api_error(error)
    return json_response(found.body, found.status, found.headers)


class ApiRequest(Request):
    """A request of a client, whose body `read` has stored in `content`."""

    def __init__(
        self,
        scope: Scope,
        options: ApiOptions,
        receive: Receive = empty_receive,
        *,
        content: bytes = b"",
        is_detached: bool = False,
    ) -> None:
        """If `is_detached`, the work continues when the client leaves."""
        super().__init__(scope, receive)
        self.content, self.options, self._is_detached = content, options, is_detached
        self.has_left = False  #: Known only after `on_disconnect` was called.
        self._callbacks: list[Callable[[], object]] = []
        self._watcher: asyncio.Task[None] | None = None

    def detach(self) -> "ApiRequest":
        """Return a copy for work that continues when the client leaves."""
        return ApiRequest(self.scope, self.options, content=self.content, is_detached=True)

    async def read(self) -> None:
        """Read the whole body. Raises `ApiError` and `BodyTooLarge`."""
        kind = self.headers.get("content-type", JSON).partition(";")[0].strip().lower()
        if kind != JSON and not kind.endswith("+json"):
            message = f"the body must be {JSON}, not {kind[:100]}"
            raise ApiError(415, message, code="unsupported_media")
        most = self.options.max_body_bytes
        try:
            self.content = await read_body(self.receive_soon, self.headers, most)
        except ClientDisconnected:
            raise ApiError(400, "the client left") from None
        except TimeoutError:
            message = "the request did not come to its end"
            raise ApiError(408, message, code="timeout", headers=CLOSE) from None

    async def receive_soon(self) -> Message:
        async with asyncio.timeout(self.options.body_seconds):
            return await self.receive()

    def decode(self, kind: type[T]) -> T:
        """Decode the body. Raises `ApiError` if it is not JSON of this type."""
        try:
            return msgspec.json.decode(self.content, type=kind)
        except msgspec.ValidationError as error:
            text, _, where = str(error).partition(" - at `")
            place = where.rstrip("`").removeprefix("$.").removeprefix("$")
            raise bad_request(f"{text} at {place or 'the top'}", param=place) from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            message = f"the body is not valid JSON: {reason}"
            raise bad_request(message, code="invalid_json") from None

    def on_disconnect(self, callback: Callable[[], object]) -> None:
        """Call back when the client leaves before its response; at once if it has left already."""
        if self.has_left:
            callback()
        elif not self._is_detached:
            self._callbacks.append(callback)
            self._watcher = self._watcher or asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
        for callback in self._callbacks:
            callback()

    async def stop_watching(self) -> None:
        """Stop before the end of a response is sent, which would look like a client that left."""
        await cancel_and_wait(self._watcher)


class EventStream(StreamingResponse):
    """Server-sent events. The stream is read to its end even if the client has left; a silent one
    sends comments, so that the client knows it is alive."""

    def __init__(
        self,
        request: ApiRequest,
        pieces: AsyncGenerator[bytes, None],
        headers: Mapping[str, str] | None = None,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`close` is called at the end, also if the stream was never started."""
        fields = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", **(headers or {})}
        super().__init__(pieces, headers=fields, media_type=EVENT_STREAM)
        self.pieces, self._request, self._close = pieces, request, close
        self._has_written = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        start = {"type": "http.response.start", "status": self.status_code}
        try:
            await send({**start, "headers": self.raw_headers})
            if scope["method"] == "HEAD":
                await self.pieces.aclose()
            else:
                await self._send_pieces(send)
        finally:
            await self._request.stop_watching()
            if self._close is not None:
                await self._close()
        await send(_body(b"", more=False))

    async def _send_pieces(self, send: Send) -> None:
        keeping_alive = asyncio.ensure_future(self._keep_alive(send))
        try:
            async with aclosing(with_error_event(self.pieces)) as pieces:
                async for piece in pieces:
                    self._has_written = True
                    await send(_body(piece, more=True))
        finally:
            await cancel_and_wait(keeping_alive)

    async def _keep_alive(self, send: Send) -> None:
        while True:
            await asyncio.sleep(self._request.options.beat_seconds)
            if not self._has_written:
                await send(_body(KEEP_ALIVE, more=True))
            self._has_written = False


def _body(piece: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": piece, "more_body": more}


async def with_error_event(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield `pieces`, and an error event if they fail: the status was already sent."""
    async with aclosing(pieces):
        try:
            async for piece in pieces:
                yield piece
        except Exception as error:  # noqa: BLE001 - the client must not take a part for the whole
            yield sse_event(to_api_error(error).body)


def sse_event(data: Any, name: str = "", number: int | None = None) -> bytes:
    """Return a server-sent event. `data` is encoded as JSON, unless it is bytes."""
    head = f"event: {name}\n" if name else ""
    if number is not None:
        head = f"id: {number}\n{head}"
    encoded = data if isinstance(data, bytes) else msgspec.json.encode(data)
    return head.encode() + b"data: " + encoded + b"\n\n"


Handler = Callable[[ApiRequest], Awaitable[Response]]

KEY_HEADER = "Idempotency-Key"
MAX_KEY_CHARS = 255
KEEP_SECONDS = 300.0
"""After the response is complete: a client may have waited that long before it retries."""
MAX_REPLIES = 1000
MAX_BYTES = 64_000_000
REPLAYED = "Idempotent-Replayed"


class Recording:
    """Pieces of a stream, which several readers can follow from any position."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._grown = asyncio.Event()  #: Replaced when it is set.
        self.is_complete = False
        self.size = 0

    async def record(self, pieces: AsyncGenerator[bytes, None]) -> None:
        """Record all of `pieces`, and an error event if they fail."""
        try:
            async with aclosing(with_error_event(pieces)) as whole:
                async for piece in whole:
                    self._pieces.append(piece)
                    self.size += len(piece)
                    self._wake()
        finally:
            self.is_complete = True
            self._wake()

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    async def play(self, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the pieces from number `start` on, until the end."""
        while True:
            while start < len(self._pieces):
                yield self._pieces[start]
                start += 1
            if self.is_complete:
                return
            await self._grown.wait()


class _CachedReply:
    def __init__(self, digest: bytes, work: "asyncio.Task[Response]") -> None:
        self.digest, self.work = digest, work
        """The digest of the request, and the task of its handler."""
        self.recording: Recording | None = None
        self.completed_at: float | None = None

    @property
    def size(self) -> int:
        if self.recording is not None:
            return self.recording.size
        return len(self.work.result().body) if self.completed_at is not None else 0

    async def reply(self, request: ApiRequest) -> Response:
        """Return a response of its own for `request`."""
        done = await asyncio.shield(self.work)
        if self.recording is not None:
            reply: Response = EventStream(request, self.recording.play())
        else:
            reply = Response(done.body, done.status_code)
        reply.raw_headers = list(done.raw_headers)
        return reply


class IdempotencyCache:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._replies: OrderedDict[tuple[str, str], _CachedReply] = OrderedDict()
        """By path and key."""
        self._recorders: set[asyncio.Task[None]] = set()

    async def run_once(self, request: ApiRequest, handler: Handler) -> Response:
        """Return the response of `handler`, or its stored response to the same request. The work
        continues when the client leaves, who will retry then. Raises `ApiError` for a different
        request with the same key."""
        key = request.headers.get(KEY_HEADER)
        if key is None:
            return await handler(request)
        if not key or len(key) > MAX_KEY_CHARS:
            raise bad_request(f"{KEY_HEADER} has 1 to {MAX_KEY_CHARS} characters")
        self._evict()
        session = request.headers.get(SESSION_HEADER, "")
        digest = hashlib.sha256(session.encode() + b"\0" + request.content).digest()
        name = request.scope["path"], key
        cached = self._replies.get(name)
        if cached is None:
            work = asyncio.ensure_future(handler(request.detach()))
            new = self._replies[name] = _CachedReply(digest, work)
            work.add_done_callback(lambda _work: self._replied(name, new))
            return await new.reply(request)
        if cached.digest != digest:
            raise ApiError(
                422,
                "this Idempotency-Key was used for another request",
                code="idempotency_key_reused",
            )
        reply = await cached.reply(request)
        reply.headers[REPLAYED] = "true"
        return reply

    def _replied(self, name: tuple[str, str], cached: _CachedReply) -> None:
        """Record the stream. A failure is not kept, so that it can be retried."""
        work = cached.work
        if work.cancelled() or work.exception() is not None or work.result().status_code >= 500:
            if self._replies.get(name) is cached:
                del self._replies[name]
            return
        response = work.result()
        if not isinstance(response, EventStream):
            cached.completed_at = self._clock.monotonic()
            return
        cached.recording = Recording()
        recorder = asyncio.ensure_future(cached.recording.record(response.pieces))
        self._recorders.add(recorder)

        def recorded(recorder: "asyncio.Task[None]") -> None:
            self._recorders.discard(recorder)
            cached.completed_at = self._clock.monotonic()

        recorder.add_done_callback(recorded)

    def _evict(self) -> None:
        """Remove expired responses, and the oldest ones beyond the limits."""
        oldest = self._clock.monotonic() - KEEP_SECONDS
        size = sum(cached.size for cached in self._replies.values())
        for name, cached in tuple(self._replies.items()):
            if cached.completed_at is None:
                continue
            full = len(self._replies) >= MAX_REPLIES or size > MAX_BYTES
            if full or cached.completed_at < oldest:
                size -= cached.size
                del self._replies[name]

    async def close(self) -> None:
        works = [cached.work for cached in self._replies.values()]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        await cancel_and_wait(*self._recorders)
        self._replies.clear()
