"""Transports to a server: their protocols, limits and JSON-RPC messages on the wire."""

import json
import logging
import math
from typing import Any, Protocol

import msgspec

from hermes.mcp.errors import McpError
from hermes.util.text import clean, plain_line

log = logging.getLogger(__name__)

LOG_LINE_CHARS = 500
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Supported protocol versions, newest first."""


class RequestAuthorizer(Protocol):
    """Provides and renews the credentials of one HTTP server; sent to its own host only."""

    async def headers(self) -> dict[str, str]:
        """Return the headers that authorize a request now, or {} without credentials.

        Raises `HermesError` when the user has to sign in first.
        """
        ...

    async def refused(self, response_status: int, www_authenticate: str) -> bool:
        """Handle a 401 or 403. Return True if the credentials were renewed, so that the request
        can be repeated once."""
        ...


class ServerLog:
    """Writes at most `max_lines` lines of one server to the log."""

    def __init__(self, server: str, max_lines: int) -> None:
        self._server, self._left = server, max_lines

    def write(self, text: str, level: int = logging.INFO) -> None:
        if self._left > 0:
            log.log(level, "%s: %s", self._server, text[:LOG_LINE_CHARS])
        elif self._left == 0:
            log.log(level, "%s: too many lines; further ones are not logged", self._server)
        self._left -= 1


def one_line(text: str, limit: int) -> str:
    """Return at most `limit` characters of `text` on one line, without control characters that
    could affect a terminal or the text direction."""
    return plain_line(text[: 4 * limit])[:limit]


class JsonRpcMessage(msgspec.Struct, frozen=True):
    """A request, notification or answer of the server."""

    id: int | str | None = None
    method: str = ""
    params: Any = None
    result: Any = msgspec.UNSET
    error: Any = None

    @property
    def is_answer(self) -> bool:
        return not self.method and self.id is not None


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

    Servers send lone surrogates, NaN, other encodings and `null` for absent fields.
    """
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        value = _sanitize(json.loads(text))
        if isinstance(value, dict):
            value = {key: held for key, held in value.items() if held is not None}
        return msgspec.convert(value, JsonRpcMessage | list[JsonRpcMessage], strict=False)
    except (ValueError, msgspec.ValidationError, RecursionError):
        return JsonRpcMessage(result=one_line(text, 200))


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


def encode_request(number: int, method: str, params: dict[str, Any]) -> bytes:
    return _encode({"id": number, "method": method, "params": params})


def encode_notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    return _encode({"method": method} if params is None else {"method": method, "params": params})


def encode_result(number: int | str, result: Any) -> bytes:
    return _encode({"id": number, "result": result})


def encode_error(number: int | str, code: int, text: str) -> bytes:
    return _encode({"id": number, "error": {"code": code, "message": text}})


def _encode(fields: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **fields})


_decoder: msgspec.json.Decoder[JsonRpcMessage | list[JsonRpcMessage]] = msgspec.json.Decoder(
    JsonRpcMessage | list[JsonRpcMessage]
)


class McpLimits(msgspec.Struct, frozen=True):
    """How much a server may send before it is disconnected."""

    message_bytes: int = 16_000_000
    """Size of one message."""
    messages: int = 10_000
    """Burst of unsolicited messages; `messages_per_second` is the sustained rate."""
    messages_per_second: float = 200.0
    log_lines: int = 500
    """Lines logged per connection, and as many of the standard error."""


class TransportListener(Protocol):
    """Receives messages. Methods are called in the event loop and do not block."""

    def received(self, message: JsonRpcMessage, origin: int | None) -> None:
        """Handle a message. `origin` is our request in whose response stream it arrived, if
        known."""
        ...

    def failed(self, request: int, error: McpError) -> None:
        """Handle that our request will get no answer."""
        ...

    def lost(self, error: McpError) -> None:
        """Handle the end of the connection."""
        ...


class McpTransport(Protocol):
    """Carries messages to one server and back."""

    @property
    def kind(self) -> str:
        """`stdio`, `http` or `sse`."""
        ...

    async def start(self, listener: TransportListener) -> None:
        """Connect and deliver messages to `listener`. Raises `McpError`."""
        ...

    async def send(self, data: bytes, request: int | None = None) -> None:
        """Send a message. `request` is its number if it expects an answer. Raises `McpError`."""
        ...

    def forget(self, request: int) -> None:
        """Stop waiting for the answer to a request."""
        ...

    def set_version(self, version: str) -> None:
        """Set the negotiated protocol version."""
        ...

    def listen(self) -> None:
        """Accept requests and notifications of the server, after the handshake."""
        ...

    async def close(self, *, graceful: bool) -> None:
        """Release all resources. Never raises.

        With `graceful` the server is told and gets a moment to end by itself.
        """
        ...
