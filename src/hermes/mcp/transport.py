"""Transports to a server: their protocols and limits."""

import logging
from typing import TYPE_CHECKING, ClassVar, Protocol

import msgspec

from hermes.util.text import plain_line

if TYPE_CHECKING:
    from hermes.mcp.session import McpSession

log = logging.getLogger(__name__)

LOG_LINE_CHARS = 500
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Supported protocol versions, newest first."""


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
        """Set the negotiated protocol version, where messages carry it."""
        return

    def listen(self) -> None:
        """Accept requests and notifications of the server, after the handshake."""
        return

    async def close(self, *, graceful: bool) -> None:
        """Release all resources. Never raises.

        With `graceful` the server is notified and gets a moment to end by itself.
        """
        ...
