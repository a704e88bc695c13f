"""What carries messages to a server and back."""

import json
import logging
import math
from typing import Any, Protocol

import msgspec

from hermes.mcp.errors import McpError
from hermes.util.plain import plain_line
from hermes.util.text import clean

# How a connection over HTTP gets its credentials.


class RequestAuthorizer(Protocol):
    """Gives the credentials of one server, and renews them. They go to its own host only."""

    async def headers(self) -> dict[str, str]:
        """The headers that authorise a request now; {} when there are none yet.

        Raises a `HermesError` when nobody can be asked for them."""
        ...

    async def refused(self, response_status: int, www_authenticate: str) -> bool:
        """The server said 401 or 403. True: the credentials were renewed, and the request is worth
        one more try."""
        ...


# What servers say, in the log; but not without an end.

LOG_LINE_CHARS = 500

log = logging.getLogger(__name__)


class ServerLog:
    """Takes `most` lines of one server, then no more."""

    def __init__(self, server: str, most: int) -> None:
        self._server, self._left = server, most

    def note(self, text: str, level: int = logging.INFO) -> None:
        if self._left > 0:
            log.log(level, "%s: %s", self._server, text[:LOG_LINE_CHARS])
        elif self._left == 0:
            log.log(level, "%s: it says too much; no more of it is logged", self._server)
        self._left -= 1


# What servers say, as a line for people.


def one_line(text: str, most: int) -> str:
    """At most `most` characters of `text` on one line, with nothing in it that could drive a
    terminal or turn the direction of what follows."""
    return plain_line(text[: 4 * most])[:most]


# JSON-RPC 2.0 as it stands on the wire.

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions of the protocol that are spoken, the best first."""


class JsonRpcMessage(msgspec.Struct, frozen=True):
    """Whatever the other side may send."""

    id: int | str | None = None
    method: str = ""
    params: Any = None
    result: Any = msgspec.UNSET
    error: Any = None

    @property
    def is_answer(self) -> bool:
        return not self.method and self.id is not None


def decode(data: bytes | str) -> list[JsonRpcMessage]:
    """The messages of a line or an event. What is none, since programs print what they should not,
    counts as a message that says nothing."""
    if not data.strip():
        return []
    try:
        found = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = _repaired(data)
    return found if isinstance(found, list) else [found]


def _repaired(data: bytes | str) -> JsonRpcMessage | list[JsonRpcMessage]:
    """Programs write what is no JSON: halves of letters, NaN, another encoding, `null` for what is
    not there. An answer is read all the same, since somebody waits for it."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        value = _storable(json.loads(text))
        if isinstance(value, dict):
            value = {key: held for key, held in value.items() if held is not None}
        return msgspec.convert(value, JsonRpcMessage | list[JsonRpcMessage], strict=False)
    except (ValueError, msgspec.ValidationError, RecursionError):
        return JsonRpcMessage(result=one_line(text, 200))


def _storable(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case float() if not math.isfinite(value):
            return None
        case list():
            return [_storable(each) for each in value]
        case dict():
            return {clean(key): _storable(each) for key, each in value.items()}
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
    """How much a server may send before it is cut off."""

    message_bytes: int = 16_000_000
    """One message."""
    messages: int = 10_000
    """Messages nobody asked for, at once; `messages_per_second` more come free with time."""
    messages_per_second: float = 200.0
    log_lines: int = 500
    """Lines of it that are logged each time it is connected, and as many of its standard error."""


class TransportListener(Protocol):
    """Hears what comes. The calls are made in the event loop and never wait."""

    def received(self, message: JsonRpcMessage, origin: int | None) -> None:
        """`origin` is the request of ours in whose answer the message came, where that is known."""
        ...

    def failed(self, request: int, error: McpError) -> None:
        """There will be no answer to this request of ours."""
        ...

    def lost(self, error: McpError) -> None:
        """Nothing comes any more."""
        ...


class McpTransport(Protocol):
    @property
    def kind(self) -> str:
        """`stdio`, `http` or `sse`."""
        ...

    async def start(self, listener: TransportListener) -> None:
        """Raises `McpError`."""
        ...

    async def send(self, data: bytes, request: int | None = None) -> None:
        """`request` is its number when an answer is expected. Raises `McpError`."""
        ...

    def forget(self, request: int) -> None:
        """Nobody waits for this answer any more."""
        ...

    def agreed(self, version: str) -> None:
        """The version of the protocol that both speak."""
        ...

    def listen(self) -> None:
        """The session has begun: the server may ask and tell from now on."""
        ...

    async def close(self, *, politely: bool) -> None:
        """Everything it holds is gone when this returns. `politely` says goodbye and waits a
        moment; not to a server that has ended or must be stopped. Never raises."""
        ...
