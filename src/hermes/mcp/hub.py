"""The servers of a process, shared by all its sessions."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Self

from hermes.config.settings.abilities import McpServer
from hermes.core.errors import ToolError, UsageError
from hermes.core.ports import Clock
from hermes.core.tool import Tool
from hermes.mcp.authorising import Authoriser
from hermes.mcp.caller import NOBODY, Caller
from hermes.mcp.catalogue import Catalogue
from hermes.mcp.connection import State
from hermes.mcp.names import tool_names
from hermes.mcp.options import McpOptions
from hermes.mcp.server import Server, ServerStatus
from hermes.mcp.tools import origins, session_tools
from hermes.mcp.transports import Transports
from hermes.util.clock import SystemClock

Restarted = Catalogue | BaseException | None
"""What a server offers after a new start, or why there was none; None while calls are under way."""

OPEN = (State.READY, State.CONNECTING)

log = logging.getLogger(__name__)

Authorisers = Callable[[str, McpServer], Authoriser | None]


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
        authorisers: Authorisers = lambda _name, _settings: None,
        tell: Callable[[str], None] = lambda _text: None,
        clock: Clock | None = None,
    ) -> None:
        self._options = options or McpOptions()
        self._authorisers, self._tell = authorisers, tell
        self._clock = clock or SystemClock()
        self._transports = Transports(self._options.limits)
        self._servers = self._of(servers, {})
        self._retired: list[Server] = []
        """Those that may still have calls under way."""
        self._finding: dict[Server, asyncio.Task[Catalogue]] = {}
        self._slow: set[Server] = set()
        """Those nobody waits for any more."""

    def _of(
        self, servers: Mapping[str, McpServer], kept: Mapping[str, Server]
    ) -> dict[str, Server]:
        return {
            name: kept.get(name)
            or Server(
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

    async def tools(self, caller: Caller = NOBODY) -> list[Tool]:
        """The tools of a new session, always in the same order.

        Servers that were connected before are not started: what they offered then is offered. The
        others are asked side by side, for a few seconds in all; who is slower goes on in the
        background and has tools in the next session.
        """
        await self._find_out()
        return self.known_tools(caller)

    def known_tools(self, caller: Caller = NOBODY) -> list[Tool]:
        """Those that are known without starting anything."""
        known = [(each, each.catalogue) for each in self._servers.values() if each.catalogue]
        names = tool_names(
            origin
            for server, catalogue in known
            for origin in origins(server.name, server.settings, catalogue)
        )
        return [
            tool
            for server, catalogue in known
            for tool in session_tools(server.connection, catalogue, names, caller)
        ]

    async def refresh(self, name: str) -> Catalogue:
        """What the server offers now; new sessions have it. Raises `ToolError`."""
        return await self._server(name).refresh()

    async def reload(self, servers: Mapping[str, McpServer]) -> dict[str, Restarted]:
        """Have the servers of these settings: those that are gone or changed are stopped, the
        others started anew, and none before the calls under way have ended."""
        before = self._servers
        kept = {name: each for name, each in before.items() if servers.get(name) == each.settings}
        gone = [each for name, each in before.items() if name not in kept]
        for each in gone:
            each.retire()
        self._retired = [each for each in self._retired if each.connection.state in OPEN] + gone
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

    def _found(self, server: Server, task: "asyncio.Task[Catalogue]") -> None:
        self._slow.discard(server)
        self._finding.pop(server, None)
        error = None if task.cancelled() else task.exception()
        if error is None or isinstance(error, ToolError):
            return  # of an error its connection has told
        log.error("the MCP server %s could not be asked", server.name, exc_info=error)
        server.tell(f"The MCP server {server.name} cannot be used; the log says why")

    def _server(self, name: str) -> Server:
        server = self._servers.get(name)
        if server is None:
            known = ", ".join(self._servers) or "none"
            raise UsageError(f"there is no MCP server {name!r}", hint=f"there are: {known}")
        return server


def _status(server: Server) -> ServerStatus:
    catalogue = server.catalogue
    return ServerStatus(
        server.name,
        server.connection.state.value,
        server.connection.kind,
        len(catalogue.tools) if catalogue is not None else None,
        catalogue.problems if catalogue is not None else (),
        server.connection.last_error,
    )
