"""Requests and responses of the API server over ASGI, with server-sent events."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from starlette.types import Send

from hermes.core.errors import HermesError
from hermes.gateway.platforms.api_server.errors import (
    INTERNAL_ERROR,
    ApiError,
    Headers,
    bad_request,
    to_api_error,
)
from hermes.gateway.platforms.api_server.options import ApiOptions
from hermes.gateway.platforms.kit.http_server import (
    AsgiReceive,
    BodyTooLarge,
    ClientDisconnected,
    discard_body,
    read_body,
)

logger = logging.getLogger(__name__)

JSON = "application/json"
SSE = "text/event-stream; charset=utf-8"
CLOSE: Headers = (("Connection", "close"),)
KEEP_ALIVE = b": still here\n\n"
SESSION_HEADER = "X-Hermes-Session-Id"

T = TypeVar("T")


class ApiReply(msgspec.Struct, frozen=True):
    body: bytes = b""
    status: int = 200
    headers: Headers = ()
    media_type: str = JSON
    stream: AsyncGenerator[bytes, None] | None = None
    """Server-sent events instead of `body`. The stream is read to its end even if the client has
    left."""
    close: Callable[[], Awaitable[None]] | None = None
    """Called at the end, also if the stream was never started."""


def json_reply(value: Any, status: int = 200, headers: Headers = ()) -> ApiReply:
    return ApiReply(msgspec.json.encode(value), status, headers)


def error_reply(error: ApiError) -> ApiReply:
    return json_reply(error.body, error.status, error.headers)


class ApiRequest:
    """A request of a client. The names in `headers` are lower case."""

    def __init__(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        path_params: Mapping[str, str] | None = None,
    ) -> None:
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.path_params = path_params or {}
        self.is_disconnected = False  #: Known only after `on_disconnect` was called.
        self._callbacks: list[Callable[[], object]] = []
        self.watch: Callable[[], None] = lambda: None
        """Called when code starts to wait for the client to leave."""

    def decode(self, kind: type[T]) -> T:
        """Decode the body. Raises `ApiError` if it is not JSON of this type."""
        try:
            return msgspec.json.decode(self.body, type=kind)
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
        if self.is_disconnected:
            callback()
        else:
            self._callbacks.append(callback)
            self.watch()

    def disconnect(self) -> None:
        self.is_disconnected = True
        for callback in self._callbacks:
            callback()
        self._callbacks.clear()


class Exchange:
    """One request and its response on a connection."""

    def __init__(
        self, receive: AsgiReceive, send: Send, options: ApiOptions, headers: Headers
    ) -> None:
        """`headers` are those of every response."""
        self._receive, self._send, self._options, self._headers = receive, send, options, headers
        self._is_streaming = self._has_written = False
        self._watcher: asyncio.Task[None] | None = None
        self._unread: BodyTooLarge | None = None

    async def read_body(self, headers: Mapping[str, str]) -> bytes:
        """Return the whole body. Raises `ApiError` if it is too large or too slow."""
        limit = self._options.max_body_bytes
        try:
            return await read_body(self._receive_soon, headers, limit)
        except BodyTooLarge as error:
            self._unread = error
            message = f"the body is larger than {limit} bytes"
            raise ApiError(413, message, code="request_too_large", headers=CLOSE) from None
        except ClientDisconnected:
            raise ApiError(400, "the client left") from None
        except TimeoutError:
            message = "the request did not come to its end"
            raise ApiError(408, message, code="timeout", headers=CLOSE) from None

    async def _receive_soon(self) -> MutableMapping[str, Any]:
        async with asyncio.timeout(self._options.body_seconds):
            return await self._receive()

    def watch(self, request: ApiRequest) -> None:
        """Watch for the client to leave, and keep a silent stream alive."""
        if self._watcher is None:
            self._watcher = asyncio.ensure_future(self._watch(request))

    async def _watch(self, request: ApiRequest) -> None:
        while True:
            try:
                async with asyncio.timeout(self._options.beat_seconds):
                    event = await self._receive()
            except TimeoutError:
                if self._is_streaming and not self._has_written:
                    await self._write(KEEP_ALIVE, more=True)
                self._has_written = False
                continue
            if event["type"] == "http.disconnect":
                request.disconnect()
                return

    async def answer(self, reply: ApiReply) -> None:
        try:
            if reply.stream is None:
                await self._start(reply, (("Content-Length", str(len(reply.body))),))
                await self._write_last(reply.body)
            else:
                async with aclosing(with_error_event(reply.stream)) as pieces:
                    await self._write_stream(reply, pieces)
        finally:
            await self._stop_watching()
            if reply.close is not None:
                await reply.close()

    async def _write_last(self, piece: bytes) -> None:
        if self._unread is not None:
            await self._write(piece, more=True)
            await discard_body(self._receive_soon, self._unread)
            piece = b""
        await self._stop_watching()  # a complete response looks like a client that left
        await self._write(piece, more=False)

    async def _write_stream(self, reply: ApiReply, pieces: AsyncGenerator[bytes, None]) -> None:
        await self._start(reply, (("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no")))
        self._is_streaming = True
        async for piece in pieces:
            self._has_written = True
            await self._write(piece, more=True)
        await self._write_last(b"")

    async def _stop_watching(self) -> None:
        if self._watcher is not None and not self._watcher.done():
            self._watcher.cancel()
            await asyncio.wait([self._watcher])

    async def _start(self, reply: ApiReply, more: Headers) -> None:
        media_type = (("Content-Type", reply.media_type),) if reply.media_type else ()
        fields = (*media_type, *more, *self._headers, *reply.headers)
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in fields]
        await self._send(
            {"type": "http.response.start", "status": reply.status, "headers": headers}
        )

    async def _write(self, piece: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})


async def with_error_event(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield `pieces`, and an error event if they fail: the status was already sent."""
    async with aclosing(pieces):
        try:
            async for piece in pieces:
                yield piece
        except HermesError as error:
            yield sse_event(to_api_error(error).body)
        except Exception:  # the client must not take a partial answer for a complete one
            logger.exception("a response failed while it was streamed")
            yield sse_event(INTERNAL_ERROR.body)


def sse_event(data: Any, name: str = "", number: int | None = None) -> bytes:
    """Return a server-sent event. `data` is encoded as JSON, unless it is bytes."""
    head = f"event: {name}\n" if name else ""
    if number is not None:
        head = f"id: {number}\n{head}"
    encoded = data if isinstance(data, bytes) else msgspec.json.encode(data)
    return head.encode() + b"data: " + encoded + b"\n\n"
