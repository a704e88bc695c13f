"""The servers of a process, shared by all its sessions."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self

import msgspec

from hermes.config.settings.abilities import McpServer
from hermes.core.errors import ToolError, UsageError
from hermes.core.ports import Clock
from hermes.core.tool import Tool
from hermes.mcp.caller import NO_CALLER, Caller
from hermes.mcp.catalog import CatalogCache, RemoteTool, ServerCatalog
from hermes.mcp.connection import (
    ConnectionState,
    McpOptions,
    ServerConnection,
    SessionConnector,
    TransportFactory,
)
from hermes.mcp.errors import RequestRefused
from hermes.mcp.session import MAX_ITEMS, ListResult, McpSession, ServerInfo
from hermes.mcp.tools import admit_tools, assign_names, origins, resource_line, session_tools
from hermes.mcp.transport import RequestAuthorizer, one_line
from hermes.util.clock import SystemClock
from hermes.util.text import many
from hermes.util.threads import in_thread

# One server as a session sees it: what it offers, known from earlier or found out now.

FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0
"""Between a change the server reports and looking; longer while it keeps reporting."""
MAX_PROBLEMS_SHOWN = 5
NOTICE_CHARS = 2_000

log = logging.getLogger(__name__)


class McpServerHandle:
    """`tell` gets what the user should know, each thing once."""

    def __init__(
        self,
        name: str,
        settings: McpServer,
        transports: TransportFactory,
        options: McpOptions,
        *,
        clock: Clock,
        tell: Callable[[str], None],
        authoriser: RequestAuthorizer | None = None,
    ) -> None:
        self.name, self.settings = name, settings
        self._clock = clock
        self._cache = CatalogCache(options.cache)
        self._told: set[str] = set()
        self._tell_user, self._quiet = tell, False
        self._looking: asyncio.Task[None] | None = None
        self._changes = 0
        self.catalogue = self._cache.load(name, settings)
        """None while it is not known."""
        dialler = SessionConnector(
            name,
            settings,
            transports,
            options,
            clock=clock,
            authoriser=authoriser,
            greeted=self._learn,
            changed=self._changed,
        )
        self.connection = ServerConnection(
            dialler, clock=clock, tell=self.tell, unmade=self._failed
        )

    def tell(self, text: str) -> None:
        line = one_line(text, NOTICE_CHARS)
        if line not in self._told:
            self._told.add(line)
            if not self._quiet:
                self._tell_user(line)

    async def find_out(self) -> ServerCatalog:
        """What it offers, asked now when it is not known. Raises `ToolError`."""
        if self.catalogue is None:
            await self.connection.use(_only_connect)  # connecting looks
        return self.catalogue or ServerCatalog()

    async def refresh(self) -> ServerCatalog:
        """What it offers now, also when it is left alone after failures. Raises `ToolError`."""
        self.connection.forgive()
        connected = self.connection.state is ConnectionState.READY
        await self.connection.use(self._learn if connected else _only_connect)
        return self.catalogue or ServerCatalog()

    async def restart(self) -> ServerCatalog | None:
        """What it offers after a new start; None while calls are under way, after which it is
        started anew. Who asked hears of everything, so nobody else is told. Raises `ToolError`."""
        self._quiet = True
        try:
            return await self.refresh() if await self.connection.renew() else None
        finally:
            self._quiet = False

    def retire(self) -> None:
        """It is not wanted any more: it ends when the calls under way have."""
        if self._looking is not None:
            self._looking.cancel()
        self.connection.retire()

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self.connection.close()

    async def _learn(self, session: McpSession) -> None:
        welcome = session.welcome
        offered = ListResult([], more=False)
        if welcome.has("tools") or not welcome.capabilities:
            seconds = self.settings.connect_timeout
            offered = await session.pages("tools/list", "tools", seconds=seconds)
        # Texts are looked at one by one, and there may be many.
        tools, problems = await in_thread(admit_tools, offered.items)
        if problems:
            self.tell(_rejected_notice(self.name, problems))
        if offered.more:
            words = f"only the first {MAX_ITEMS:,} tools are used; there are more"
            self.tell(f"The MCP server {self.name}: {words}")
            problems += (words,)
        found = ServerCatalog(tools, welcome.has("resources"), welcome.has("prompts"), problems)
        before, self.catalogue = self.catalogue, found
        if found == before:
            self._cache.seen(self.name)
            return
        self._cache.save(self.name, self.settings, found)
        if before is not None:
            self.tell(
                f"The MCP server {self.name} offers other tools than before; "
                "new conversations have them"
            )

    def _failed(self, reason: str) -> None:
        self._cache.failed(self.name, self.settings, one_line(reason, NOTICE_CHARS))

    def _changed(self, what: str) -> None:
        self._changes += what == "tools"
        if self._changes and self._looking is None:
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        pause = FIRST_PAUSE
        try:
            while self._changes:
                await self._clock.sleep(pause)
                self._changes, pause = 0, min(pause * 2, MAX_PAUSE)
                if self.connection.state is ConnectionState.READY:  # else connecting looks
                    await self.refresh()
        except ToolError as error:
            log.info("the tools of %s could not be listed again: %s", self.name, error)
        finally:
            self._looking = None


async def _only_connect(_session: McpSession) -> None:
    return None


def _rejected_notice(name: str, problems: tuple[str, ...]) -> str:
    shown = "; ".join(problems[:MAX_PROBLEMS_SHOWN])
    more = (
        f"; and {len(problems) - MAX_PROBLEMS_SHOWN} more"
        if len(problems) > MAX_PROBLEMS_SHOWN
        else ""
    )
    return f"The MCP server {name}: {many(len(problems), 'tool')} left out ({shown}{more})"


class ServerStatus(msgspec.Struct, frozen=True):
    name: str
    state: str
    transport: str
    """`stdio`, `http`, `sse`, or empty when that is not known yet."""
    tools: int | None
    """How many it offers; None when that is not known yet."""
    problems: tuple[str, ...]
    error: str
    """The last failure, while it lasts."""


RestartResult = ServerCatalog | BaseException | None
"""What a server offers after a new start, or why there was none; None while calls are under way."""

OPEN_STATES = (ConnectionState.READY, ConnectionState.CONNECTING)

AuthorizerFactory = Callable[[str, McpServer], RequestAuthorizer | None]


class McpHub:
    """`servers` are the settings `mcp_servers`; those that are not enabled do not count.

    `authorisers` gives the authoriser of a server, where it needs one. `tell` gets what the user
    should know beside the conversation, each thing once. Making it starts nothing.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        options: McpOptions | None = None,
        *,
        authorisers: AuthorizerFactory = lambda _name, _settings: None,
        tell: Callable[[str], None] = lambda _text: None,
        clock: Clock | None = None,
    ) -> None:
        self._options = options or McpOptions()
        self._authorisers, self._tell = authorisers, tell
        self._clock = clock or SystemClock()
        self._transports = TransportFactory(self._options.limits)
        self._servers = self._of(servers, {})
        self._retired: list[McpServerHandle] = []
        """Those that may still have calls under way."""
        self._finding: dict[McpServerHandle, asyncio.Task[ServerCatalog]] = {}
        self._slow: set[McpServerHandle] = set()
        """Those nobody waits for any more."""

    def _of(
        self, servers: Mapping[str, McpServer], kept: Mapping[str, McpServerHandle]
    ) -> dict[str, McpServerHandle]:
        return {
            name: kept.get(name)
            or McpServerHandle(
                name,
                settings,
                self._transports,
                self._options,
                clock=self._clock,
                tell=self._tell,
                authoriser=self._authorisers(name, settings),
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
        """The tools of a new session, always in the same order.

        Servers that were connected before are not started: what they offered then is offered. The
        others are asked side by side, for a few seconds in all; who is slower goes on in the
        background and has tools in the next session.
        """
        await self._find_out()
        return self.known_tools(caller)

    def known_tools(self, caller: Caller = NO_CALLER) -> list[Tool]:
        """Those that are known without starting anything."""
        known = [(each, each.catalogue) for each in self._servers.values() if each.catalogue]
        names = assign_names(
            origin
            for server, catalogue in known
            for origin in origins(server.name, server.settings, catalogue)
        )
        return [
            tool
            for server, catalogue in known
            for tool in session_tools(server.connection, catalogue, names, caller)
        ]

    async def refresh(self, name: str) -> ServerCatalog:
        """What the server offers now; new sessions have it. Raises `ToolError`."""
        return await self._server(name).refresh()

    async def reload(self, servers: Mapping[str, McpServer]) -> dict[str, RestartResult]:
        """Have the servers of these settings: those that are gone or changed are stopped, the
        others started anew, and none before the calls under way have ended."""
        before = self._servers
        kept = {name: each for name, each in before.items() if servers.get(name) == each.settings}
        gone = [each for name, each in before.items() if name not in kept]
        for each in gone:
            each.retire()
        self._retired = [
            each for each in self._retired if each.connection.state in OPEN_STATES
        ] + gone
        self._servers = now = self._of(servers, kept)
        found = await asyncio.gather(
            *(server.restart() for server in now.values()), return_exceptions=True
        )
        return dict(zip(now, found, strict=True))

    def status(self) -> list[ServerStatus]:
        return [_status(server) for server in self._servers.values()]

    async def close(self) -> None:
        """Ends every connection and every program."""
        for task in self._finding.values():
            task.cancel()
        await asyncio.gather(*self._finding.values(), return_exceptions=True)
        servers = (*self._servers.values(), *self._retired)
        await asyncio.gather(*(server.close() for server in servers), return_exceptions=True)
        await self._transports.close()

    async def _find_out(self) -> None:
        for server in self._servers.values():
            if server.catalogue is None and server not in self._finding:
                self._finding[server] = asyncio.create_task(server.find_out())
        awaited = {each: task for each, task in self._finding.items() if each not in self._slow}
        if awaited:
            await asyncio.wait(awaited.values(), timeout=self._options.start_seconds)
        for server, task in awaited.items():
            if task.done():
                self._found(server, task)
            elif server not in self._slow:
                self._slow.add(server)
                task.add_done_callback(partial(self._found, server))
                server.tell(
                    f"The MCP server {server.name} takes long to start; its tools are there in the "
                    "next conversation"
                )

    def _found(self, server: McpServerHandle, task: "asyncio.Task[ServerCatalog]") -> None:
        self._slow.discard(server)
        self._finding.pop(server, None)
        error = None if task.cancelled() else task.exception()
        if error is None or isinstance(error, ToolError):
            return  # of an error its connection has told
        log.error("the MCP server %s could not be asked", server.name, exc_info=error)
        server.tell(f"The MCP server {server.name} cannot be used; the log says why")

    def _server(self, name: str) -> McpServerHandle:
        server = self._servers.get(name)
        if server is None:
            known = ", ".join(self._servers) or "none"
            raise UsageError(f"there is no MCP server {name!r}", hint=f"there are: {known}")
        return server


def _status(server: McpServerHandle) -> ServerStatus:
    catalogue = server.catalogue
    return ServerStatus(
        server.name,
        server.connection.state.value,
        server.connection.kind,
        len(catalogue.tools) if catalogue is not None else None,
        catalogue.problems if catalogue is not None else (),
        server.connection.last_error,
    )


# Connect to a server once and see what it offers.


class ProbeResult(msgspec.Struct, frozen=True):
    transport: str
    """`stdio`, `http` or `sse`."""
    welcome: ServerInfo
    """Its name, version and protocol, what it can do, and its instructions."""
    connect_seconds: float
    """Until the tools were known."""
    list_seconds: float
    """For resources and prompts."""
    tools: tuple[RemoteTool, ...]
    """All that are fit, whatever `tools.include` and `tools.exclude` say."""
    problems: tuple[str, ...]
    """Tools that were left out, each with the reason."""
    resources: tuple[str, ...]
    """A line for each, templates too."""
    prompts: tuple[str, ...]
    """Their names."""


async def probe(
    name: str,
    settings: McpServer,
    options: McpOptions | None = None,
    authoriser: RequestAuthorizer | None = None,
) -> ProbeResult:
    """What the server offers; everything is stopped again when this returns. With a cache in
    `options` the next session starts with what was found. Raises `ToolError`, without secrets."""
    options = options or McpOptions()
    transports = TransportFactory(options.limits)
    server = McpServerHandle(
        name,
        settings,
        transports,
        options,
        clock=SystemClock(),
        tell=lambda _text: None,
        authoriser=authoriser,
    )
    try:
        began = time.monotonic()
        catalogue = await server.refresh()
        connected = time.monotonic()
        found = await server.connection.use(_list_everything)
        return ProbeResult(
            server.connection.kind,
            found.welcome,
            connected - began,
            time.monotonic() - connected,
            catalogue.tools,
            catalogue.problems,
            found.resources,
            found.prompts,
        )
    finally:
        await server.close()
        await transports.close()


class _ListedItems(msgspec.Struct, frozen=True):
    welcome: ServerInfo
    resources: tuple[str, ...]
    prompts: tuple[str, ...]


async def _list_everything(session: McpSession) -> _ListedItems:
    resources: list[Any] = []
    prompts: list[Any] = []
    if session.welcome.has("resources"):
        resources = await _list_or_empty(session, "resources/list", "resources")
        resources += await _list_or_empty(session, "resources/templates/list", "resourceTemplates")
    if session.welcome.has("prompts"):
        prompts = await _list_or_empty(session, "prompts/list", "prompts")
    return _ListedItems(
        session.welcome,
        tuple(resource_line(each) for each in resources),
        tuple(str(each.get("name")) for each in prompts if isinstance(each, dict)),
    )


async def _list_or_empty(session: McpSession, method: str, key: str) -> list[Any]:
    try:
        return (await session.pages(method, key, seconds=30)).items
    except RequestRefused:
        return []
