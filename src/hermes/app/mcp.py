"""The MCP servers of a process and their tools."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.app.providers import AuxiliaryModels
from hermes.config.document import read_document
from hermes.config.home import Home
from hermes.config.loader import Loaded, load
from hermes.config.settings import McpServer
from hermes.core.errors import ConfigError, HermesError
from hermes.core.model import ModelRequest, Reply
from hermes.core.ports import Clarifier
from hermes.core.tool import Tool
from hermes.util.text import many, plain_line

if TYPE_CHECKING:
    from hermes.mcp import McpHub


TASK = "mcp"


class SessionSampler:
    """Lets a server ask a model of the session."""

    def __init__(self, auxiliary: AuxiliaryModels) -> None:
        self._auxiliary = auxiliary

    async def ask(self, request: ModelRequest, wishes: tuple[str, ...]) -> Reply:
        targets = self._auxiliary.preferred_targets(TASK, wishes)
        return await self._auxiliary.ask_one_of(targets, TASK, request)


class McpServers:
    """The MCP servers of all sessions, connected when a session first needs their tools."""

    def __init__(self, home: Home, loaded: Loaded, tell: Callable[[str], None]) -> None:
        self._home, self._loaded, self._tell = home, loaded, tell
        self._hub: McpHub | None = None
        self._reloading = asyncio.Lock()
        self._ignores_config = _ignores_config(home, loaded)

    async def tools(self, clarifier: Clarifier | None, sampler: SessionSampler) -> list[Tool]:
        """Return the tools for a new session."""
        if not self._loaded.settings.mcp_servers:
            return []
        if self._hub is None:
            self._hub = make_hub(self._home, self._loaded, self._tell)
        from hermes.mcp import Caller  # only sessions with servers need the client

        return await self._hub.tools(Caller(clarifier, sampler))

    async def reload(self, learn: Callable[[], object]) -> list[str]:
        """Read `mcp_servers` again and restart the servers; return a line for each.

        Only new sessions get the new tools. `learn` is called after the settings were read, which
        may contain new secrets. Raises `ConfigError` without any change.
        """
        async with self._reloading:
            before = self._loaded.settings.mcp_servers
            if not self._ignores_config:
                fresh = (await asyncio.to_thread(load, self._home)).settings.mcp_servers
                settings = msgspec.structs.replace(self._loaded.settings, mcp_servers=fresh)
                self._loaded.settings = settings
                await asyncio.to_thread(learn)
            now = self._loaded.settings.mcp_servers
            if self._hub is None and now:
                self._hub = make_hub(self._home, self._loaded, self._tell)
            found = await self._hub.reload(now) if self._hub is not None else {}
            return [
                f"`{name}` {_outcome(name, before, now, found)}" for name in sorted(before | now)
            ]

    async def close(self) -> None:
        if self._hub is not None:
            await self._hub.close()


def _ignores_config(home: Home, loaded: Loaded) -> bool:
    """Return whether config.yaml has settings but was not read, as the user wished."""
    if loaded.raw:
        return False
    try:
        return bool(read_document(home.config_file).data)
    except ConfigError:
        return True


Servers = Mapping[str, McpServer]


def _outcome(name: str, before: Servers, now: Servers, found: Mapping[str, Any]) -> str:
    if name not in now:
        return "removed"
    if name not in found:
        return "is switched off"
    offer = found[name]
    if isinstance(offer, HermesError):
        hint = f" ({plain_line(offer.hint)})" if offer.hint else ""
        return f"failed: {plain_line(str(offer))}{hint}"
    if isinstance(offer, BaseException):
        raise offer
    if offer is None:
        return "is at work; it is started anew when its calls have ended"
    old = before.get(name)
    how = "started anew" if old == now[name] else "changed" if old else "added"
    left_out = f", {len(offer.problems)} left out" if offer.problems else ""
    return f"{how}: {many(len(offer.tools), 'tool')}{left_out}"


def make_hub(home: Home, loaded: Loaded, tell: Callable[[str], None]) -> "McpHub":
    """Return a hub for `mcp_servers` that has not started any server."""
    from hermes.mcp import McpHub, McpOptions  # only sessions with servers need the client

    options = McpOptions(
        cache=home.cache / "mcp",
        folder=str(Path.cwd()),
        question_seconds=loaded.settings.clarify.timeout,
    )
    return McpHub(loaded.settings.mcp_servers, options, authorizers=authorizers(home), tell=tell)


def known_tools(home: Home, loaded: Loaded) -> list[Tool]:
    """Return the tools of servers that were connected before, for listing. Nothing is started."""
    if not loaded.settings.mcp_servers:
        return []
    return make_hub(home, loaded, lambda _text: None).known_tools()


def authorizers(home: Home) -> Callable[[str, Any], Any]:
    """Return a function that returns the stored login of a server with `auth: oauth`, or None."""

    def authorizer(name: str, settings: Any) -> Any:
        if settings.auth != "oauth":
            return None
        from hermes.mcp.oauth import stored_authorizer  # only servers with OAuth need it

        return stored_authorizer(name, settings.url, home.root / "mcp-tokens")

    return authorizer
