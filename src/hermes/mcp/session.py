"""A session with a server: the handshake, questions with a time limit, and what it tells."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from hermes import __version__
from hermes.core.errors import ToolTimedOut
from hermes.mcp.caller import CallTicket
from hermes.mcp.errors import McpError, ServerUnavailable
from hermes.mcp.jsonrpc import JsonRpcConnection, RequestHandler
from hermes.mcp.transport import VERSIONS, McpLimits, McpTransport, ServerLog, one_line

MAX_PAGES, MAX_ITEMS = 50, 1_000
"""Bounds of a list; the rest is left out."""
MAX_PROGRESS_LINES, PROGRESS_CHARS = 200, 300
"""What is shown of the progress of one call."""
LOG_LEVELS = {
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.ERROR,
    "alert": logging.ERROR,
    "emergency": logging.ERROR,
}


class ServerInfo(msgspec.Struct, frozen=True):
    """What the server says of itself."""

    protocol: str
    name: str = ""
    version: str = ""
    capabilities: Mapping[str, Any] = {}
    instructions: str = ""

    def has(self, ability: str) -> bool:
        return ability in self.capabilities


class ListResult(NamedTuple):
    items: list[Any]
    more: bool
    """Whether there are others, which were left out."""


class McpSession:
    """`changed` is called with `tools`, `resources` or `prompts` when that list has changed."""

    def __init__(
        self,
        name: str,
        transport: McpTransport,
        *,
        asked: dict[str, RequestHandler],
        abilities: Mapping[str, Any],
        limits: McpLimits,
        changed: Callable[[str], None],
    ) -> None:
        self.name, self.transport = name, transport
        self._abilities, self._changed = abilities, changed
        self._diary = ServerLog(name, limits.log_lines)
        self._peer = JsonRpcConnection(name, transport, self._heard, asked, limits, self._diary)
        self.welcome = ServerInfo("")
        self.asked = ""
        """What was asked last."""

    @property
    def noise(self) -> str:
        """The first it wrote that was no message, or nothing."""
        return self._peer.noise

    @property
    def alive(self) -> bool:
        return self._peer.gone is None

    def when_lost(self, call: Callable[[McpError], None]) -> None:
        self._peer.on_lost = call

    async def open(self) -> None:
        """Connect and shake hands. Whoever calls sets the time limit. Raises `McpError`."""
        await self.transport.start(self._peer)
        self.asked = "initialize"
        result = await self._peer.request(
            "initialize",
            {
                "protocolVersion": VERSIONS[0],
                "capabilities": self._abilities,
                "clientInfo": {"name": "hermes", "title": "Hermes", "version": __version__},
            },
        )
        self.welcome = _parse_server_info(self.name, result)
        self.transport.agreed(self.welcome.protocol)
        self.asked = "notifications/initialized"
        await self._peer.notify(self.asked)
        self.transport.listen()

    async def close(self) -> None:
        politely = self.alive
        if politely:
            self._peer.on_lost = lambda _error: None
            self._peer.lost(ServerUnavailable(f"the connection to {self.name} was closed"))
        await self._peer.close()
        await self.transport.close(politely=politely)

    async def ask(
        self,
        method: str,
        params: dict[str, Any],
        *,
        seconds: float,
        ticket: CallTicket | None = None,
    ) -> dict[str, Any]:
        """The result. Progress is shown to the user of the ticket, and does not buy time."""
        async with self._in_time(seconds) as deadline:
            if ticket is None:
                return await self._result(method, params)
            ticket.deadline = deadline
            try:
                return await self._result(method, params, ticket)
            finally:
                ticket.deadline = None

    async def pages(self, method: str, key: str, *, seconds: float) -> ListResult:
        """The items of a list that comes in pages; `seconds` are for all of them."""
        items: list[Any] = []
        params: dict[str, Any] = {}
        async with self._in_time(seconds):
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
    async def _in_time(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
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
        self.asked = method
        progress = _progress_printer(ticket) if ticket is not None else None
        result = await self._peer.request(method, params, ticket=ticket, progress=progress)
        if not isinstance(result, dict):
            raise McpError(f"{self.name} answered {method} with something else than an object")
        return result

    def _heard(self, method: str, params: dict[str, Any]) -> None:
        match method.split("/"):
            case ["notifications", ("tools" | "resources" | "prompts") as what, "list_changed"]:
                self._changed(what)
            case ["notifications", "message"]:
                level = LOG_LEVELS.get(str(params.get("level")), logging.INFO)
                self._diary.note(str(params.get("data")), level)
            case _:
                self._diary.note(method, logging.DEBUG)


def _parse_server_info(name: str, result: Any) -> ServerInfo:
    if not isinstance(result, dict):
        raise ServerUnavailable(f"{name} does not speak MCP: its greeting is no object")
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
        text = _progress_text(params)
        if left >= 0 and text:
            ticket.call.output(f"{text}\n")

    return progress


def _progress_text(params: dict[str, Any]) -> str:
    message = params.get("message")
    if isinstance(message, str) and message.strip():
        return one_line(message, PROGRESS_CHARS)
    done, total = params.get("progress"), params.get("total")
    if not isinstance(done, int | float):
        return ""
    return f"{done:g} of {total:g}" if isinstance(total, int | float) else f"{done:g}"
