"""Transports to a server: their protocol, limits and errors.

Each error is a `ToolError`: the model sees it and continues.

McpError
├── ServerUnavailable           cannot be started or reached
│   ├── ServerUnreachable       transient: a retry may help
│   ├── HttpStatusError         an HTTP status of 300 or more
│   ├── ForeignEndpointError    the server names an endpoint on another host
│   └── ServerUnauthorized      401 or 403
├── ConnectionLostError         the connection ended during a call
│   ├── SessionExpiredError     the session ended before the request was processed
│   └── ProbeFailedError        the server ended at a request that only newer ones know
└── ServerRefused               an error of the server itself (code, data)

A login fails with `LoginFailed`, which is not a `ToolError`: the user has to act.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec

from hermes.core.errors import HermesError, ToolError
from hermes.util.text import plain_line

if TYPE_CHECKING:
    from hermes.mcp.catalog import RemoteTool
    from hermes.mcp.session import McpSession

log = logging.getLogger(__name__)

LOG_LINE_CHARS = 500
MODERN_VERSION = "2026-07-28"
"""The supported version without a handshake: each request carries version and capabilities."""
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Supported versions that begin with `initialize`, newest first."""


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


class McpLimits(msgspec.Struct, frozen=True):
    """How much a server may send before it is disconnected."""

    message_bytes: int = 16_000_000  #: Size of one message.
    messages: int = 10_000
    """Burst of unsolicited messages; `messages_per_second` is the sustained rate."""
    messages_per_second: float = 200.0
    log_lines: int = 500  #: Lines logged per connection, and as many of the standard error.


class McpTransport(Protocol):
    """Carries messages to one server and back."""

    kind: ClassVar[str]  #: `stdio`, `http` or `sse`.

    async def start(self, session: "McpSession") -> None:
        """Connect and deliver messages to `session`. Raises `McpError`."""
        ...

    async def send(self, data: bytes, request: int | None = None) -> None:
        """Send a message. `request` is its number if it expects an answer. Raises `McpError`."""
        ...

    def forget(self, request: int) -> None:  # noqa: ARG002 - for those that override it
        """Stop waiting for the answer to a request; nothing to do where all share a stream."""
        return

    def set_version(self, version: str) -> None:  # noqa: ARG002 - as above
        """Set the protocol version, where messages carry it; empty before the handshake."""
        return

    def set_tools(self, tools: Sequence["RemoteTool"]) -> None:  # noqa: ARG002 - as above
        """Set the tools of the server, where a call repeats arguments outside of its message."""
        return

    def listen(self) -> None:
        """Accept requests and notifications of the server, after the handshake."""
        return

    async def close(self, *, graceful: bool) -> None:
        """Release all resources. Never raises.

        With `graceful` the server is notified and gets a moment to end by itself.
        """
        ...


# Errors.

USER_REJECTED = -1
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042


class McpError(ToolError):
    """Base class; `transient` says whether a retry may help."""

    transient = False


class ServerUnavailable(McpError):
    pass


class ServerUnreachable(ServerUnavailable):
    transient = True


class HttpStatusError(ServerUnavailable):
    def __init__(self, message: str, status: int, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.transient = status >= 500 or status == 429


class ForeignEndpointError(ServerUnavailable):
    pass


class ServerUnauthorized(ServerUnavailable):
    pass


class ConnectionLostError(McpError):
    pass


class SessionExpiredError(ConnectionLostError):
    pass


class ProbeFailedError(ConnectionLostError):
    pass


class ServerRefused(McpError):
    def __init__(self, message: str, code: int, data: Any = None, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code, self.data = code, data


# Login errors. A login server that cannot be reached raises `ServerUnreachable`.


class LoginFailed(HermesError):
    """There is no login, and a retry would not help."""

    exit_code = 4


class LoginRequired(LoginFailed):
    """The user has to sign in to the server `name`."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message, hint=f"`hermes mcp login {name}` signs in")
