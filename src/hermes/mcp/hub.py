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
from hermes.mcp.names import tool_names
from hermes.mcp.options import McpOptions
from hermes.mcp.server import Server, ServerStatus
from hermes.mcp.tools import origins, session_tools
from hermes.mcp.transports import Transports
from hermes.util.clock import SystemClock

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
        self._tell = tell
        self._transports = Transports(self._options.limits)
        self._servers = {
            name: Server(
                name,
                settings,
                self._transports,
                self._options,
                clock=clock or SystemClock(),
                tell=tell,
                authoriser=authorisers(name, settings),
            )
            for name, settings in sorted(servers.items())
            if settings.enabled
        }
        self._finding: dict[str, asyncio.Task[Catalogue]] = {}
        self._slow: set[str] = set()
        """Those nobody waits for any more."""

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

    def status(self) -> list[ServerStatus]:
        return [_status(server) for server in self._servers.values()]

    async def close(self) -> None:
        """Ends every connection and every program."""
        for task in self._finding.values():
            task.cancel()
        await asyncio.gather(*self._finding.values(), return_exceptions=True)
        servers = self._servers.values()
        await asyncio.gather(*(server.close() for server in servers), return_exceptions=True)
        await self._transports.close()

    async def _find_out(self) -> None:
        for name, server in self._servers.items():
            if server.catalogue is None and name not in self._finding:
                self._finding[name] = asyncio.create_task(server.find_out())
        awaited = {name: task for name, task in self._finding.items() if name not in self._slow}
        if awaited:
            await asyncio.wait(awaited.values(), timeout=self._options.start_seconds)
        for name, task in awaited.items():
            if task.done():
                self._found(name, task)
            elif name not in self._slow:
                self._slow.add(name)
                task.add_done_callback(partial(self._found, name))
                self._servers[name].tell(
                    f"The MCP server {name} takes long to start; its tools are there in the next "
                    "conversation"
                )

    def _found(self, name: str, task: "asyncio.Task[Catalogue]") -> None:
        self._slow.discard(name)
        self._finding.pop(name, None)
        error = None if task.cancelled() else task.exception()
        if error is None or isinstance(error, ToolError):
            return  # of an error its connection has told
        log.error("the MCP server %s could not be asked", name, exc_info=error)
        self._servers[name].tell(f"The MCP server {name} cannot be used; the log says why")

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
