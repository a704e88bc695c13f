"""Which transport a server needs. Each is loaded when the first server needs it."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from hermes.config.environment import variables
from hermes.config.expand import unset_names
from hermes.config.settings.abilities import McpServer
from hermes.mcp.authorising import Authoriser
from hermes.mcp.failures import Unavailable
from hermes.mcp.transport import Limits, Transport

BASELINE = frozenset({"PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR"})
"""Variables every program gets, beside those of its settings and `XDG_…`."""


class Transports:
    """Makes the transports of a process; what the programs share ends with it."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._lifeline: Any = None

    def kinds(self, name: str, settings: McpServer) -> tuple[str, ...]:
        """What to try, the most likely first. Raises `Unavailable`."""
        if bool(settings.command) == bool(settings.url):
            what = "both `command` and `url`" if settings.url else "neither `command` nor `url`"
            raise Unavailable(f"the MCP server {name} has {what}", hint="set one of them")
        if unset := _unset(settings):
            what = "variables that are" if len(unset) > 1 else "a variable that is"
            raise Unavailable(
                f"the settings of {name} name {what} not set: {', '.join(unset)}",
                hint=f"write {unset[0]}=… into .env; `hermes config env-path` says where that is",
            )
        if settings.command:
            return ("stdio",)
        return (settings.transport,) if settings.transport else ("http", "sse")

    def make(
        self, kind: str, name: str, settings: McpServer, authoriser: Authoriser | None
    ) -> Transport:
        transport: Transport
        if kind == "stdio":
            transport = self._program(name, settings)
            return transport
        door = import_module("hermes.mcp.http_door").Door(
            name, settings.url, settings.headers, authoriser, self.limits.message_bytes
        )
        if kind == "http":
            transport = import_module("hermes.mcp.http").HttpTransport(door)
        else:
            transport = import_module("hermes.mcp.sse").SseTransport(door)
        return transport

    async def close(self) -> None:
        if self._lifeline is not None:
            await self._lifeline.close()
            self._lifeline = None

    def _program(self, name: str, settings: McpServer) -> Transport:
        try:
            stdio = import_module("hermes.mcp.stdio")
        except ImportError as error:  # native Windows
            raise Unavailable(
                f"the MCP server {name} is a program, and programs cannot be run here",
                hint="Linux, macOS and WSL2 can; or use a server with a `url`",
            ) from error
        if self._lifeline is None:
            try:
                self._lifeline = stdio.make_lifeline()
            except OSError as error:
                raise Unavailable(f"no program can be started: {error.strerror}") from error
        command = (settings.command, *settings.args)
        transport: Transport = stdio.StdioTransport(
            name, command, program_environment(settings.env), self._lifeline, self.limits
        )
        return transport


def _unset(settings: McpServer) -> list[str]:
    """Variables that are referred to and have no value: sent as written, they would be taken for
    one. Arguments may mean them for a shell, or for a program that replaces them itself."""
    values = (settings.command, *settings.env.values(), settings.url, *settings.headers.values())
    return list(dict.fromkeys(name for value in values for name in unset_names(value)))


def program_environment(given: Mapping[str, str]) -> dict[str, str]:
    """No key of the agent's own reaches a server by accident."""
    basis = {
        name: value
        for name, value in variables().items()
        if name in BASELINE or name.startswith("XDG_")
    }
    return {**basis, **given}
