"""Requests and responses of the API server: errors in OpenAI's format, JSON bodies, server-sent
events."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from math import ceil
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request, empty_receive
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

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
from hermes.gateway.platforms.api_server.options import ApiOptions
from hermes.sdk.platforms import ClientDisconnected, read_body

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


class ErrorDetails(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorDetails


class ApiError(HermesError):
    """An error response for the client."""

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
    """Return the error for the client. An unexpected one is logged, and the client learns nothing
    of it."""
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
        """Read the whole body. Raises `ApiError` if it is not JSON, or too slow, and
        `BodyTooLarge`."""
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
            deep = isinstance(error, RecursionError)
            reason = "it is nested too deeply" if deep else str(error)
            raise bad_request(
                f"the body is not valid JSON: {reason}", code="invalid_json"
            ) from None

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
        if self._watcher is not None and not self._watcher.done():
            self._watcher.cancel()
            await asyncio.wait([self._watcher])


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
            keeping_alive.cancel()
            await asyncio.wait([keeping_alive])

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
