"""What carries messages to a server and back."""

from typing import Protocol

import msgspec

from hermes.mcp.failures import McpError
from hermes.mcp.messages import Message


class Limits(msgspec.Struct, frozen=True):
    """How much a server may send before it is cut off."""

    message_bytes: int = 16_000_000
    """One message."""
    messages: int = 10_000
    """Messages nobody asked for, at once; `messages_per_second` more come free with time."""
    messages_per_second: float = 200.0
    log_lines: int = 500
    """Lines of it that are logged each time it is connected, and as many of its standard error."""


class Listener(Protocol):
    """Hears what comes. The calls are made in the event loop and never wait."""

    def received(self, message: Message, origin: int | None) -> None:
        """`origin` is the request of ours in whose answer the message came, where that is known."""
        ...

    def failed(self, request: int, error: McpError) -> None:
        """There will be no answer to this request of ours."""
        ...

    def lost(self, error: McpError) -> None:
        """Nothing comes any more."""
        ...


class Transport(Protocol):
    @property
    def kind(self) -> str:
        """`stdio`, `http` or `sse`."""
        ...

    async def start(self, listener: Listener) -> None:
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
