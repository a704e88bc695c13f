"""The tools of a session and the policy in front of them."""

import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module

import msgspec

from hermes.app.request import SessionRequest
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings import Settings
from hermes.config.settings.agent import ApprovalSettings
from hermes.core.hooks import Hooks
from hermes.core.ports import Approver, Auxiliary
from hermes.core.tool import Tool
from hermes.tools import (
    MCP_TOOLSET_PREFIX,
    ApprovalRules,
    Approvals,
    Assembled,
    LocalResultStore,
    ModelJudge,
    RemoteResultStore,
    Toolbox,
    ToolDeps,
    ToolRegistry,
    Toolset,
    ToolsetMap,
    all_toolsets,
    assemble,
    custom_toolsets,
    discover_builtin,
    drop_gone_names,
    expand,
    selected_toolsets,
    with_added,
)
from hermes.tools.registry import registry


class Toolsets(msgspec.Struct, frozen=True):
    """Every tool and every toolset that can be chosen from."""

    settings: Settings
    registry: ToolRegistry
    known: ToolsetMap

    brought: ToolsetMap
    """Toolsets of plugins and MCP servers."""

    def usual(self, platform: str) -> tuple[str, ...]:
        """The names of toolsets and tools a platform has."""
        return with_added(selected_toolsets(self.settings, platform), self.brought)

    def names(self, platform: str, toolsets: tuple[str, ...] = ()) -> list[str]:
        """The tools of a platform, or those behind the names in `toolsets`; raises `UsageError`."""
        if toolsets:
            return expand(toolsets, self.known)
        return expand(drop_gone_names(self.usual(platform), self.known), self.known)

    def make(self, names: Sequence[str], deps: ToolDeps) -> Assembled:
        return assemble(names, deps, self.registry, self.known)


def find_toolsets(loaded: Loaded, brought: Sequence[Tool] = ()) -> Toolsets:
    """`brought` are tools of MCP servers."""
    discover_builtin(registry)
    found, settings = registry.with_tools(brought) if brought else registry, loaded.settings
    servers = {
        f"{MCP_TOOLSET_PREFIX}{name}": Toolset("an MCP server; its tools are not known yet")
        for name, server in settings.mcp_servers.items()
        if server.enabled
    }
    more = {**servers, **found.added_toolsets()}
    known = all_toolsets(custom_toolsets(settings), {**found.extended_toolsets(), **more})
    return Toolsets(settings, found, known, more)


def build_toolbox(
    assembled: Assembled, deps: ToolDeps, home: Home, redact: Callable[[str], str]
) -> Toolbox:
    local = deps.place.name == "local"
    store = (
        LocalResultStore(home.cache / "tool-results")
        if local
        else RemoteResultStore(deps.place.files)
    )
    return Toolbox(assembled.tools, store.save, rare=assembled.rare, redact=redact)


def consent_seconds(settings: ApprovalSettings, request: SessionRequest) -> float:
    """How long a question for consent waits for its answer."""
    said = settings.platform_timeouts.get(request.source)
    return max(settings.timeout, request.patience) if said is None else said


def build_approvals(
    loaded: Loaded,
    home: Home,
    approver: Approver | None,
    auxiliary: Auxiliary | None,
    hooks: Hooks,
    *,
    seconds: float = 0.0,
) -> Approvals:
    """`seconds` a question waits; 0 is what the settings say."""
    settings = loaded.settings.approvals

    async def remember(kind: str) -> None:
        # Editing keeps the user's comments, which takes a heavier YAML library: loaded on demand.
        edit = import_module("hermes.config.edit")
        await asyncio.to_thread(edit.add_value, home, ("command_allowlist",), kind)

    return Approvals(
        ApprovalRules(
            settings.mode, settings.headless, seconds or settings.timeout, settings.effects
        ),
        approver,
        loaded.settings.command_allowlist,
        remember,
        judge=ModelJudge(auxiliary) if auxiliary is not None else None,
        hooks=hooks,
    )
