"""JSON-RPC 2.0 in both directions, over any transport; for MCP servers and ACP agents."""

import asyncio
import itertools
import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from hermes.util.text import clean, plain_line

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800

MAX_INCOMING_REQUESTS = 8
"""Number of requests of the other side that are handled at the same time, by default."""
MAX_BACKGROUND_SENDS = 100
MAX_NOISE_CHARS = 200

log = logging.getLogger(__name__)


class RpcError(Exception):
    """The other side answered with an error."""

    def __init__(self, message: str, code: int, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data


class RpcResultMissing(RpcError):
    """The other side answered with neither a result nor an error."""


class JsonRpcMessage(msgspec.Struct, frozen=True):
    """A request, notification or answer."""

    id: int | str | None = None
    method: str = ""
    params: Any = None
    result: Any = msgspec.UNSET
    error: Any = None

    @property
    def is_answer(self) -> bool:
        return not self.method and self.id is not None


_decoder: msgspec.json.Decoder[JsonRpcMessage | list[JsonRpcMessage]] = msgspec.json.Decoder(
    JsonRpcMessage | list[JsonRpcMessage]
)


def decode(data: bytes | str) -> list[JsonRpcMessage]:
    """Return the messages of a line or an event.

    Text that is not a message, such as debug output of a program, becomes a message without
    method and id.
    """
    if not data.strip():
        return []
    try:
        found = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = _decode_leniently(data)
    return found if isinstance(found, list) else [found]


def _decode_leniently(data: bytes | str) -> JsonRpcMessage | list[JsonRpcMessage]:
    """Decode invalid JSON as far as possible, because a call may wait for this answer.

    Programs send lone surrogates, NaN, other encodings and `null` for absent fields.
    """
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        value = _sanitize(json.loads(text))
        if isinstance(value, dict):
            value = {key: held for key, held in value.items() if held is not None}
        return msgspec.convert(value, JsonRpcMessage | list[JsonRpcMessage], strict=False)
    except (ValueError, msgspec.ValidationError, RecursionError):
        return JsonRpcMessage(result=plain_line(text[: 4 * MAX_NOISE_CHARS])[:MAX_NOISE_CHARS])


def _sanitize(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case float() if not math.isfinite(value):
            return None
        case list():
            return [_sanitize(each) for each in value]
        case dict():
            return {clean(key): _sanitize(each) for key, each in value.items()}
        case _:
            return value


def _encode(**fields: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **fields})


def _encode_error(number: int | str, code: int, text: str) -> bytes:
    return _encode(id=number, error={"code": code, "message": text})


Tag = TypeVar("Tag")

RequestHandler = Callable[[dict[str, Any], int | None], Awaitable[Any]]
"""Answers a request of the other side. The number is that of our request in whose answer it came,
if it is known."""


class _PendingRequest(msgspec.Struct, frozen=True, eq=False):
    future: asyncio.Future[Any]
    tag: Any
    on_progress: Callable[[dict[str, Any]], None] | None


class JsonRpcConnection(Generic[Tag]):
    """Numbers requests and finds the request of an answer.

    `send` gets a message, and its number if it expects an answer. It may raise the errors
    `expected`; so may handlers, whose `code` is sent to the other side then. `cancel_method` and
    `progress_method` are notifications of the protocol, "" where it has none. With
    `answers_cancelled`, a request that the other side cancelled is answered with an error.
    """

    def __init__(
        self,
        send: Callable[[bytes, int | None], Awaitable[None]],
        handlers: Mapping[str, RequestHandler],
        on_notification: Callable[[str, Any], None],
        *,
        expected: type[Exception] = RpcError,
        cancel_method: str = "",
        progress_method: str = "",
        answers_cancelled: bool = False,
        max_incoming: int = MAX_INCOMING_REQUESTS,
    ) -> None:
        self._send, self._handlers, self._on_notification = send, handlers, on_notification
        self._expected = expected
        self._cancel_method, self._progress_method = cancel_method, progress_method
        self._answers_cancelled, self._max_incoming = answers_cancelled, max_incoming
        self._numbers = itertools.count(1)
        self._pending: dict[int, _PendingRequest] = {}
        self._incoming: dict[int | str, asyncio.Task[None]] = {}
        self._background_sends: set[asyncio.Task[None]] = set()
        self.lost_error: Exception | None = None  #: Why the connection ended; None while it exists.

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        tag: Tag | None = None,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        on_cancel: Callable[[int], bool] = lambda _number: True,
    ) -> Any:
        """Send a request and return its result. If it is cancelled, the other side is notified
        unless `on_cancel` returns False.

        Raises `RpcError`, or the error of `lost` when the connection ends.
        """
        if self.lost_error is not None:
            raise self.lost_error
        number = next(self._numbers)
        if on_progress is not None:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": number}}
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = _PendingRequest(future, tag, on_progress)
        try:
            await self._send(_encode(id=number, method=method, params=params), number)
            return await future
        except asyncio.CancelledError:
            if on_cancel(number) and self._cancel_method and self.lost_error is None:
                details = {"requestId": number, "reason": "the request was cancelled"}
                self.post(self._cancel_method, details)
            raise
        finally:
            del self._pending[number]
            if future.done() and not future.cancelled():
                future.exception()  # mark as retrieved, in case the caller was cancelled

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        fields = {} if params is None else {"params": params}
        await self._send(_encode(method=method, **fields), None)

    def post(self, method: str, params: dict[str, Any], *, as_request: bool = False) -> None:
        """Send a notification, or a request whose answer is ignored, without waiting."""
        number = {"id": next(self._numbers)} if as_request else {}
        self._send_in_background(_encode(**number, method=method, params=params))

    async def close(self) -> None:
        tasks = [*self._incoming.values(), *self._background_sends]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def settle(self, message: JsonRpcMessage) -> bool:
        """Pass an answer to the request it belongs to. Return False for any other message."""
        pending = self._pending.get(message.id) if isinstance(message.id, int) else None
        if not message.is_answer or pending is None or pending.future.done():
            return False
        if message.error is not None:
            error = message.error if isinstance(message.error, dict) else {"message": message.error}
            code, text = error.get("code"), str(error.get("message") or "no reason given")
            refusal = RpcError(text, code if isinstance(code, int) else 0, error.get("data"))
            pending.future.set_exception(refusal)
        elif message.result is msgspec.UNSET:
            pending.future.set_exception(RpcResultMissing("answered without a result", 0))
        else:
            pending.future.set_result(message.result)
        return True

    def dispatch(self, message: JsonRpcMessage, origin: int | None = None) -> None:
        """Handle a request or a notification. `origin` is our request in whose answer it came."""
        if message.id is None:
            self._handle_notification(message.method, message.params)
            return
        number, handler = message.id, self._handlers.get(message.method)
        if handler is None:
            text = f"not offered: {message.method[:100]}"
            self._send_in_background(_encode_error(number, METHOD_NOT_FOUND, text))
        elif len(self._incoming) >= self._max_incoming or number in self._incoming:
            text = "too many requests at once"
            self._send_in_background(_encode_error(number, INTERNAL_ERROR, text))
        else:
            task = asyncio.create_task(self._answer(number, handler, message, origin))
            self._incoming[number] = task
            task.add_done_callback(lambda _: self._incoming.pop(number, None))

    def fail(self, number: int, error: Exception) -> None:
        """Let a request of ours fail: it will get no answer."""
        pending = self._pending.get(number)
        if pending is not None and not pending.future.done():
            pending.future.set_exception(error)

    def lost(self, error: Exception) -> None:
        """Let all requests fail, because the connection has ended."""
        self.lost_error = error
        for number in tuple(self._pending):
            self.fail(number, error)
        for task in self._incoming.values():
            task.cancel()

    def tags(self, origin: int | None = None) -> list[Tag]:
        """Return the tags of the requests in progress, or only that of the request `origin`."""
        pending = self._pending.get(origin) if origin is not None else None
        if pending is not None and pending.tag is not None:
            return [pending.tag]
        return [each.tag for each in self._pending.values() if each.tag is not None]

    def _handle_notification(self, method: str, params: Any) -> None:
        known = params if isinstance(params, dict) else {}
        if method and method == self._progress_method:
            token = known.get("progressToken")
            pending = self._pending.get(token) if isinstance(token, int) else None
            if pending is not None and pending.on_progress is not None:
                pending.on_progress(known)
        elif method and method == self._cancel_method:
            number = known.get("requestId")
            if isinstance(number, int | str) and number in self._incoming:
                self._incoming[number].cancel()
        else:
            self._on_notification(method, known)

    async def _answer(
        self,
        number: int | str,
        handler: RequestHandler,
        message: JsonRpcMessage,
        origin: int | None,
    ) -> None:
        params = message.params if isinstance(message.params, dict) else {}
        try:
            data = _encode(id=number, result=await handler(params, origin))
        except (msgspec.ValidationError, RecursionError) as error:
            data = _encode_error(number, INVALID_PARAMS, str(error))
        except self._expected as error:
            data = _encode_error(number, getattr(error, "code", INTERNAL_ERROR), str(error))
        except asyncio.CancelledError:
            if self._answers_cancelled and self.lost_error is None:
                text = "the request was cancelled"
                self._send_in_background(_encode_error(number, REQUEST_CANCELLED, text))
            raise
        await self._try_send(data)

    def _send_in_background(self, data: bytes) -> None:
        if len(self._background_sends) >= MAX_BACKGROUND_SENDS:  # the other side does not read
            return
        task = asyncio.create_task(self._try_send(data))
        self._background_sends.add(task)
        task.add_done_callback(self._background_sends.discard)

    async def _try_send(self, data: bytes) -> None:
        try:
            await self._send(data, None)
        except self._expected as error:
            log.info("a message could not be sent: %s", error)
