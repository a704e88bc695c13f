"""The MCP servers of a process, and what a session has of them."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from hermes.app.session_models import AuxiliaryRouter
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.errors import HermesError, ProviderError
from hermes.core.model import ModelRequest, Reply
from hermes.core.ports import Clarifier
from hermes.core.tool import Tool
from hermes.util.text import many

TASK = "mcp"


class SessionSampler:
    """Asks a model for a server (`mcp.caller.Sampler`), once the session has models."""

    def __init__(self) -> None:
        self.auxiliary: AuxiliaryRouter | None = None

    async def ask(self, request: ModelRequest, wishes: tuple[str, ...]) -> Reply:
        if self.auxiliary is None:
            raise ProviderError("the session has not begun")
        targets = self.auxiliary.wished(TASK, wishes)
        return await self.auxiliary.ask_one_of(targets, TASK, request)


class McpServers:
    """The hub of all sessions, made when a session first wants tools and there are servers."""

    def __init__(self, home: Home, loaded: Loaded, tell: Callable[[str], None]) -> None:
        self._home, self._loaded, self._tell = home, loaded, tell
        self._hub: Any = None

    async def tools(self, clarifier: Clarifier | None, sampler: SessionSampler) -> list[Tool]:
        """Those of a new session."""
        if not self._loaded.settings.mcp_servers:
            return []
        if self._hub is None:
            self._hub = make_hub(self._home, self._loaded, self._tell)
        caller = import_module("hermes.mcp.caller").Caller(clarifier, sampler)
        found: list[Tool] = await self._hub.tools(caller)
        return found

    async def reload(self) -> list[str]:
        """Ask every server anew what it offers; a line for each. New sessions have it."""
        if self._hub is None:
            self._hub = make_hub(self._home, self._loaded, self._tell)
        names = list(self._loaded.settings.mcp_servers)
        found = await asyncio.gather(*map(self._hub.refresh, names), return_exceptions=True)
        return [_offer(name, each) for name, each in zip(names, found, strict=True)]

    async def close(self) -> None:
        if self._hub is not None:
            await self._hub.close()


def _offer(name: str, found: Any) -> str:
    if isinstance(found, HermesError):
        return f"{name}: {found}"
    if isinstance(found, BaseException):
        raise found
    return f"{name}: {many(len(found.tools), 'tool')}"


def make_hub(home: Home, loaded: Loaded, tell: Callable[[str], None]) -> Any:
    """A hub over `mcp_servers`; nothing is started yet."""
    options = import_module("hermes.mcp.options").McpOptions(
        cache=home.cache / "mcp",
        folder=str(Path.cwd()),
        question_seconds=loaded.settings.clarify.timeout,
    )
    hub = import_module("hermes.mcp.hub")
    return hub.McpHub(
        loaded.settings.mcp_servers, options, authorisers=authorisers(home), tell=tell
    )


def authorisers(home: Home) -> Callable[[str, Any], Any]:
    """Who signs in to a server: only those with `auth: oauth` need anybody."""

    def authoriser(name: str, settings: Any) -> Any:
        if settings.auth != "oauth":
            return None
        oauth = import_module("hermes.mcp.oauth")
        return oauth.stored_authoriser(name, settings.url, home.root / "mcp-tokens")

    return authoriser
