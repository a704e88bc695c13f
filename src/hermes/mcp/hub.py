"""The MCP servers of a process, shared by all its sessions.

`McpHub` holds one `ServerConnection` per enabled server; `probe` connects to a server once.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self

import msgspec

from hermes.config.settings import McpServer
from hermes.core.errors import ToolError, UsageError
from hermes.core.ports import Clock
from hermes.core.tool import Tool
from hermes.mcp.catalog import RemoteTool, ServerCatalog
from hermes.mcp.connection import ConnectionState, McpOptions, ServerConnection, TransportFactory
from hermes.mcp.oauth import StoredLoginAuthorizer
from hermes.mcp.session import NO_CALLER, Caller, McpSession, ServerInfo
from hermes.mcp.tools import assign_names, origins, resource_line, session_tools
from hermes.mcp.transport import ServerRefused
from hermes.util.concurrency import SystemClock

log = logging.getLogger(__name__)


class ServerStatus(msgspec.Struct, frozen=True):
    name: str
    state: str
    transport: str  #: `stdio`, `http`, `sse`, or empty while unknown.
    tools: int | None  #: Number of tools; None while unknown.
    problems: tuple[str, ...]
    error: str  #: The last failure; empty after a success.


RestartResult = ServerCatalog | BaseException | None
"""The catalog after a restart, the error, or None if calls in progress delay the restart."""

OPEN_STATES = (ConnectionState.READY, ConnectionState.CONNECTING)

AuthorizerFactory = Callable[[str, McpServer], StoredLoginAuthorizer | None]


class McpHub:
    """All enabled servers of the settings `mcp_servers`.

    `authorizers` returns the authorizer of a server, if it needs one. `tell` shows the user a line;
    each line is shown once. The constructor connects to nothing.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        options: McpOptions | None = None,
        *,
        authorizers: AuthorizerFactory = lambda _name, _settings: None,
        tell: Callable[[str], None] = lambda _text: None,
        clock: Clock | None = None,
    ) -> None:
        self._options = options or McpOptions()
        self._authorizers, self._tell = authorizers, tell
        self._clock = clock or SystemClock()
        self._transports = TransportFactory(self._options.limits, self._options.boundary)
        self._servers = self._create_handles(servers, {})
        self._retired: list[ServerConnection] = []
        """Removed servers that may still have calls in progress."""
        self._discovering: dict[ServerConnection, asyncio.Task[ServerCatalog]] = {}
        self._slow: set[ServerConnection] = set()  #: Servers that new sessions no longer wait for.

    def _create_handles(
        self, servers: Mapping[str, McpServer], kept: Mapping[str, ServerConnection]
    ) -> dict[str, ServerConnection]:
        return {
            name: kept.get(name)
            or ServerConnection(
                name,
                settings,
                self._transports,
                self._options,
                clock=self._clock,
                tell=self._tell,
                authorizer=self._authorizers(name, settings),
            )
            for name, settings in sorted(servers.items())
            if settings.enabled
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        await self.close()

    async def tools(self, caller: Caller = NO_CALLER) -> list[Tool]:
        """Return the tools of a new session, always in the same order.

        Servers with a cached catalog are not started. The others are connected concurrently, for a
        few seconds in total; a slower one continues in the background and its tools are available
        in the next session.
        """
        await self._discover_missing()
        return self.known_tools(caller)

    def known_tools(self, caller: Caller = NO_CALLER) -> list[Tool]:
        """Return the tools that are known without connecting."""
        known = [(each, each.catalog) for each in self._servers.values() if each.catalog]
        names = assign_names(
            origin
            for server, catalog in known
            for origin in origins(server.name, server.settings, catalog)
        )
        return [
            tool
            for server, catalog in known
            for tool in session_tools(server, catalog, names, caller)
        ]

    async def refresh(self, name: str) -> ServerCatalog:
        """Update and return the catalog of a server, for new sessions. Raises `ToolError`."""
        server = self._servers.get(name)
        if server is None:
            known = ", ".join(self._servers) or "none"
            raise UsageError(f"there is no MCP server {name!r}", hint=f"there are: {known}")
        return await server.refresh()

    async def reload(self, servers: Mapping[str, McpServer]) -> dict[str, RestartResult]:
        """Apply new settings: stop removed and changed servers and restart the others, each after
        its calls in progress."""
        before = self._servers
        kept = {name: each for name, each in before.items() if servers.get(name) == each.settings}
        gone = [each for name, each in before.items() if name not in kept]
        for each in gone:
            each.retire()
        self._retired = [each for each in self._retired if each.state in OPEN_STATES] + gone
        self._servers = now = self._create_handles(servers, kept)
        found = await asyncio.gather(
            *(server.restart() for server in now.values()), return_exceptions=True
        )
        return dict(zip(now, found, strict=True))

    def status(self) -> list[ServerStatus]:
        return [
            ServerStatus(
                name,
                server.state.value,
                server.kind,
                len(server.catalog.tools) if server.catalog is not None else None,
                server.catalog.problems if server.catalog is not None else (),
                server.last_error,
            )
            for name, server in self._servers.items()
        ]

    async def close(self) -> None:
        """Close all connections and end all programs."""
        for task in self._discovering.values():
            task.cancel()
        await asyncio.gather(*self._discovering.values(), return_exceptions=True)
        servers = (*self._servers.values(), *self._retired)
        await asyncio.gather(*(server.close() for server in servers), return_exceptions=True)
        await self._transports.close()

    async def _discover_missing(self) -> None:
        for server in self._servers.values():
            if server.catalog is None and server not in self._discovering:
                self._discovering[server] = asyncio.create_task(server.discover())
        awaited = {each: task for each, task in self._discovering.items() if each not in self._slow}
        if awaited:
            await asyncio.wait(awaited.values(), timeout=self._options.start_seconds)
        for server, task in awaited.items():
            if task.done():
                self._on_discovered(server, task)
            elif server not in self._slow:
                self._slow.add(server)
                task.add_done_callback(partial(self._on_discovered, server))
                server.notify(
                    f"The MCP server {server.name} takes long to start; its tools are there in the "
                    "next conversation"
                )

    def _on_discovered(self, server: ServerConnection, task: "asyncio.Task[ServerCatalog]") -> None:
        self._slow.discard(server)
        self._discovering.pop(server, None)
        error = None if task.cancelled() else task.exception()
        if error is None or isinstance(error, ToolError):
            return  # the connection has reported the error
        log.error("the MCP server %s could not be asked", server.name, exc_info=error)
        server.notify(f"The MCP server {server.name} cannot be used; the log says why")


class ProbeResult(msgspec.Struct, frozen=True):
    transport: str  #: `stdio`, `http` or `sse`.
    server_info: ServerInfo
    """Name, version, protocol, capabilities and instructions of the server."""
    connect_seconds: float  #: Time until the tools were known.
    list_seconds: float  #: Time to list resources and prompts.
    tools: tuple[RemoteTool, ...]
    """All admitted tools, regardless of `tools.include` and `tools.exclude`."""
    problems: tuple[str, ...]  #: Rejected tools, each with the reason.
    resources: tuple[str, ...]  #: One line per resource and template.
    prompts: tuple[str, ...]  #: Names of the prompts.


async def probe(
    name: str,
    settings: McpServer,
    options: McpOptions | None = None,
    authorizer: StoredLoginAuthorizer | None = None,
) -> ProbeResult:
    """Connect once, list what the server offers and disconnect.

    With a cache in `options` the next session starts with the result. Raises `ToolError`, redacted.
    """
    options = options or McpOptions()
    transports = TransportFactory(options.limits, options.boundary)
    server = ServerConnection(
        name,
        settings,
        transports,
        options,
        clock=SystemClock(),
        tell=lambda _text: None,
        authorizer=authorizer,
    )
    try:
        began = time.monotonic()
        catalog = await server.refresh()
        connected = time.monotonic()
        info, resources, prompts = await server.use(_list_everything)
        return ProbeResult(
            server.kind,
            info,
            connected - began,
            time.monotonic() - connected,
            catalog.tools,
            catalog.problems,
            resources,
            prompts,
        )
    finally:
        await server.close()
        await transports.close()


async def _list_everything(
    session: McpSession,
) -> tuple[ServerInfo, tuple[str, ...], tuple[str, ...]]:
    """Return what the server says about itself, its resources and its prompts, one line each."""
    resources: list[Any] = []
    prompts: list[Any] = []
    if session.server_info.has("resources"):
        resources = await _list_or_empty(session, "resources/list", "resources")
        resources += await _list_or_empty(session, "resources/templates/list", "resourceTemplates")
    if session.server_info.has("prompts"):
        prompts = await _list_or_empty(session, "prompts/list", "prompts")
    names = (str(each.get("name")) for each in prompts if isinstance(each, dict))
    return session.server_info, tuple(map(resource_line, resources)), tuple(names)


async def _list_or_empty(session: McpSession, method: str, key: str) -> list[Any]:
    try:
        return (await session.pages(method, key, seconds=30)).items
    except ServerRefused:
        return []
