"""A session with a server: handshake, requests with a timeout, lists in pages, notifications; and
the session of Hermes behind a call, with its user and its model."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple, Protocol

import msgspec

from hermes import __version__
from hermes.core.errors import HermesError, ToolTimedOut
from hermes.core.model import ModelRequest, Reply
from hermes.core.ports import Clarifier
from hermes.core.tool import ToolContext
from hermes.mcp.transport import (
    VERSIONS,
    ConnectionLostError,
    McpError,
    McpLimits,
    McpTransport,
    ServerLog,
    ServerRefused,
    ServerUnavailable,
    SessionExpiredError,
    one_line,
)
from hermes.util.jsonrpc import JsonRpcConnection, JsonRpcMessage, RpcError, RpcResultMissing

MAX_PAGES, MAX_ITEMS = 50, 1_000  #: Bounds of a list; further items are left out.
MAX_PROGRESS_LINES, PROGRESS_CHARS = 200, 300  #: Bounds of the displayed progress of one call.
LOG_LEVELS = {
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.ERROR,
    "alert": logging.ERROR,
    "emergency": logging.ERROR,
}
NOISE_CHARS = 100
MAX_PAUSE_SECONDS = 900.0
"""Total time for which a call may be paused, so that a server cannot ask endlessly."""


class Sampler(Protocol):
    """Asks a model on behalf of a server."""

    async def ask(self, request: ModelRequest, wishes: tuple[str, ...]) -> Reply:
        """Ask the first known model of `wishes` (best first), or the default model.

        Raises `ProviderError`.
        """
        ...


class Caller(msgspec.Struct, frozen=True, eq=False):
    """The session behind some tools."""

    clarifier: Clarifier | None = None  #: None without a user: questions of servers are declined.
    sampler: Sampler | None = None
    asking: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held during a question, because a user answers one at a time."""


NO_CALLER = Caller()


class CallTicket:
    """One call in progress. Its `deadline` is suspended while the user answers a question."""

    def __init__(self, call: ToolContext, caller: Caller) -> None:
        self.call, self.caller = call, caller
        self.deadline: asyncio.Timeout | None = None
        self._patience = MAX_PAUSE_SECONDS

    @contextmanager
    def paused(self) -> Iterator[None]:
        deadline = self.deadline
        when = deadline.when() if deadline is not None else None
        if deadline is None or when is None:
            yield
            return
        loop = asyncio.get_running_loop()
        began, left = loop.time(), when - loop.time()
        deadline.reschedule(when + self._patience)
        try:
            yield
        finally:
            self._patience = max(0.0, self._patience - (loop.time() - began))
            if self.deadline is deadline:  # the call has not ended meanwhile
                deadline.reschedule(loop.time() + left)


TicketHandler = Callable[[dict[str, Any], CallTicket | None], Awaitable[Any]]
"""Answers a request of the server. The ticket is that of the call the request belongs to, if it is
known. Raises `ServerRefused`."""


class ServerInfo(msgspec.Struct, frozen=True):
    """The server's answer to `initialize`."""

    protocol: str
    name: str = ""
    version: str = ""
    capabilities: Mapping[str, Any] = {}
    instructions: str = ""

    def has(self, ability: str) -> bool:
        return ability in self.capabilities


class ListResult(NamedTuple):
    items: list[Any]
    more: bool  #: Whether further items were left out.


class McpSession:
    """One session, and the listener of its transport.

    `on_changed` is called with `tools`, `resources` or `prompts` when the server reports that this
    list has changed.
    """

    def __init__(
        self,
        name: str,
        transport: McpTransport,
        *,
        handlers: dict[str, TicketHandler],
        capabilities: Mapping[str, Any],
        limits: McpLimits,
        on_changed: Callable[[str], None],
    ) -> None:
        self.name, self.transport = name, transport
        self._capabilities, self._on_changed = capabilities, on_changed
        self._server_log = ServerLog(name, limits.log_lines)
        self._limits = limits
        self._unsolicited, self._counted_at = 0.0, time.monotonic()  #: A leaky bucket.
        self._rpc = JsonRpcConnection[CallTicket](
            transport.send,
            {method: self._with_ticket(handler) for method, handler in handlers.items()},
            self._on_notification,
            expected=HermesError,
            cancel_method="notifications/cancelled",
            progress_method="notifications/progress",
        )
        self._on_lost: Callable[[McpError], None] = lambda _error: None
        self.noise = ""  #: The first received text that was not a message.
        self.server_info = ServerInfo("")
        self.last_method = ""  #: Method of the last request; empty before the first.

    @property
    def alive(self) -> bool:
        return self._rpc.lost_error is None

    def when_lost(self, call: Callable[[McpError], None]) -> None:
        self._on_lost = call

    # Called by the transport, in the event loop.

    def received(self, message: JsonRpcMessage, origin: int | None) -> None:
        """Handle a message. `origin` is our request in whose response it came, if it is known."""
        if self._rpc.settle(message):
            return
        now = time.monotonic()
        free = (now - self._counted_at) * self._limits.messages_per_second
        self._unsolicited, self._counted_at = max(0.0, self._unsolicited - free) + 1, now
        if self._unsolicited > self._limits.messages:
            self.lost(
                ConnectionLostError(f"{self.name} sends messages without an end and was stopped")
            )
        elif message.method:
            self._rpc.dispatch(message, origin)
        else:
            text = message.result or message.error or "JSON of another kind"
            if message.is_answer:
                text = "an answer without a request"
            elif not self.noise:
                self.noise = one_line(str(text), NOISE_CHARS)
            self._server_log.write(f"not a valid message: {text}")

    def failed(self, request: int, error: McpError) -> None:
        """Let our request fail: it will get no answer."""
        self._rpc.fail(request, error)

    def lost(self, error: McpError) -> None:
        """Let all requests fail, because the connection has ended."""
        if self.alive:
            self._rpc.lost(error)
            self._on_lost(error)

    async def open(self) -> None:
        """Connect and perform the handshake, without a timeout of its own. Raises `McpError`."""
        await self.transport.start(self)
        self.last_method = "initialize"
        result = await self._request(
            "initialize",
            {
                "protocolVersion": VERSIONS[0],
                "capabilities": self._capabilities,
                "clientInfo": {"name": "hermes", "title": "Hermes", "version": __version__},
            },
        )
        self.server_info = _parse_server_info(self.name, result)
        self.transport.set_version(self.server_info.protocol)
        self.last_method = "notifications/initialized"
        await self._rpc.notify(self.last_method)
        self.transport.listen()

    async def close(self) -> None:
        graceful = self.alive
        if graceful:
            self._on_lost = lambda _error: None
            self.lost(ServerUnavailable(f"the connection to {self.name} was closed"))
        await self._rpc.close()
        await self.transport.close(graceful=graceful)

    async def ask(
        self,
        method: str,
        params: dict[str, Any],
        *,
        seconds: float,
        ticket: CallTicket | None = None,
    ) -> dict[str, Any]:
        """Send a request and return its result.

        Progress is shown to the user of the ticket and does not extend the timeout.
        """
        async with self._timeout(seconds) as deadline:
            if ticket is None:
                return await self._result(method, params)
            ticket.deadline = deadline
            try:
                return await self._result(method, params, ticket)
            finally:
                ticket.deadline = None

    async def pages(self, method: str, key: str, *, seconds: float) -> ListResult:
        """Return the items of a list in pages, within `seconds` for all pages."""
        items: list[Any] = []
        params: dict[str, Any] = {}
        async with self._timeout(seconds):
            for _ in range(MAX_PAGES):
                result = await self._result(method, params)
                page = result.get(key)
                items += page if isinstance(page, list) else []
                cursor = result.get("nextCursor")
                if not isinstance(cursor, str) or not cursor or {"cursor": cursor} == params:
                    return ListResult(items[:MAX_ITEMS], len(items) > MAX_ITEMS)
                if len(items) >= MAX_ITEMS:
                    break
                params = {"cursor": cursor}
        return ListResult(items[:MAX_ITEMS], more=True)

    @asynccontextmanager
    async def _timeout(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        try:
            async with asyncio.timeout(seconds or None) as deadline:
                yield deadline
        except TimeoutError:
            raise ToolTimedOut(
                f"{self.name} did not answer within {seconds:g} seconds",
                hint="`timeout` of the server in mcp_servers allows more",
            ) from None

    async def _result(
        self, method: str, params: dict[str, Any], ticket: CallTicket | None = None
    ) -> dict[str, Any]:
        self.last_method = method
        progress = _progress_printer(ticket) if ticket is not None else None
        result = await self._request(method, params, tag=ticket, on_progress=progress)
        if not isinstance(result, dict):
            raise McpError(f"{self.name} answered {method} with something else than an object")
        return result

    async def _request(self, method: str, params: dict[str, Any], **options: Any) -> Any:
        if self._rpc.lost_error is not None:
            # Nothing was sent, so the caller may repeat the request in another session.
            raise SessionExpiredError(str(self._rpc.lost_error))

        def on_cancel(number: int) -> bool:
            self.transport.forget(number)
            return method != "initialize"

        try:
            return await self._rpc.request(method, params, on_cancel=on_cancel, **options)
        except RpcResultMissing as error:
            raise ConnectionLostError(f"{self.name} {error}") from None
        except RpcError as error:
            text = f"{self.name}: {str(error)[:2_000]}"
            raise ServerRefused(text, error.code, error.data) from None

    def _with_ticket(self, handler: TicketHandler) -> Any:
        """Return a handler that gets the ticket of the call that a request belongs to.

        That is the call in whose response it arrived, else the last one if all calls in progress
        belong to one session. Otherwise it is unknown which user the request concerns.
        """

        async def answer(params: dict[str, Any], origin: int | None) -> Any:
            tickets = self._rpc.tags(origin)
            known = len({ticket.call.session_id for ticket in tickets}) == 1
            return await handler(params, tickets[-1] if known else None)

        return answer

    def _on_notification(self, method: str, params: dict[str, Any]) -> None:
        match method.split("/"):
            case ["notifications", ("tools" | "resources" | "prompts") as what, "list_changed"]:
                self._on_changed(what)
            case ["notifications", "message"]:
                level = LOG_LEVELS.get(str(params.get("level")), logging.INFO)
                self._server_log.write(str(params.get("data")), level)
            case _:
                self._server_log.write(method, logging.DEBUG)


def _parse_server_info(name: str, result: Any) -> ServerInfo:
    if not isinstance(result, dict):
        raise ServerUnavailable(f"{name} does not speak MCP: its greeting is not an object")
    version = result.get("protocolVersion")
    if version not in VERSIONS:
        raise ServerUnavailable(
            f"{name} speaks version {str(version)[:40]!r} of MCP, which is not known here",
            hint=f"known are {', '.join(VERSIONS)}; update the server or Hermes",
        )
    info = result.get("serverInfo")
    about = info if isinstance(info, dict) else {}
    capabilities = result.get("capabilities")
    return ServerInfo(
        version,
        str(about.get("name", ""))[:100],
        str(about.get("version", ""))[:50],
        capabilities if isinstance(capabilities, dict) else {},
        str(result.get("instructions") or "")[:5_000],
    )


def _progress_printer(ticket: CallTicket) -> Callable[[dict[str, Any]], None]:
    left = MAX_PROGRESS_LINES

    def progress(params: dict[str, Any]) -> None:
        nonlocal left
        left -= 1
        message, done, total = (params.get(key) for key in ("message", "progress", "total"))
        text = ""
        if isinstance(message, str) and message.strip():
            text = one_line(message, PROGRESS_CHARS)
        elif isinstance(done, int | float):
            text = f"{done:g} of {total:g}" if isinstance(total, int | float) else f"{done:g}"
        if left >= 0 and text:
            ticket.call.output(f"{text}\n")

    return progress
