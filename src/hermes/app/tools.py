"""The tools of a session, the policy in front of them, and the table of all tools."""

import asyncio
import logging
import os.path
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.app.extensions import known_tools
from hermes.app.sessions import Services, SessionRequest
from hermes.app.skills import SessionSkills, SkillCatalog
from hermes.app.workspace import SessionWorkspace, make_workspace
from hermes.config import policy
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings import AllowRule, Settings
from hermes.core.messages import PROCESS_NEWS, Message, User
from hermes.core.ports import (
    Auxiliary,
    HookName,
    Hooks,
    NoHooks,
)
from hermes.core.tool import Tool
from hermes.memory import (
    BuiltinMemory,
    MemoryOptions,
    MemoryScope,
    OnWrite,
    memory_tool,
    open_memory,
)
from hermes.providers import Target
from hermes.security import EgressPolicy, EgressRules, class_rule, host_of, is_loopback
from hermes.terminal import BackgroundProcesses, ProcessEvent, open_boundary
from hermes.tools import (
    MCP_TOOLSET_PREFIX,
    ApprovalRules,
    Approvals,
    Assembled,
    FileReads,
    LocalResultStore,
    ModelJudge,
    RemoteResultStore,
    SessionServices,
    TodoList,
    Toolbox,
    ToolDeps,
    ToolEntry,
    ToolRegistry,
    Toolset,
    ToolsetMap,
    ToolUsage,
    all_toolsets,
    assemble,
    custom_toolsets,
    discover_builtin,
    drop_gone_names,
    expand,
    platform_key,
    schema_chars,
    selected_toolsets,
    switch_toolsets,
    with_added,
)
from hermes.tools.checkpoints import CheckpointOptions, Checkpoints, TurnCheckpoints, find_workspace
from hermes.tools.registry import registry
from hermes.util.files import inside, upwards

log = logging.getLogger(__name__)


class ToolSelection(msgspec.Struct, frozen=True):
    """All tools and toolsets."""

    settings: Settings
    registry: ToolRegistry
    known: ToolsetMap
    brought: ToolsetMap  #: Toolsets of plugins and MCP servers.

    def usual(self, platform: str) -> tuple[str, ...]:
        """Return the names of the toolsets and tools of a platform."""
        return with_added(selected_toolsets(self.settings, platform), self.brought)

    def names(self, platform: str, toolsets: tuple[str, ...] = ()) -> list[str]:
        """Return the tools of a platform, or of the names in `toolsets`; raises `UsageError`."""
        if toolsets:
            return expand(toolsets, self.known)
        return expand(drop_gone_names(self.usual(platform), self.known), self.known)

    def make(self, names: Sequence[str], deps: ToolDeps) -> Assembled:
        return assemble(names, deps, self.registry, self.known)


def find_toolsets(loaded: Loaded, brought: Sequence[Tool] = ()) -> ToolSelection:
    """Return all tools and toolsets; `brought` are tools of MCP servers."""
    discover_builtin(registry)
    found, settings = registry.with_tools(brought) if brought else registry, loaded.settings
    servers = {
        f"{MCP_TOOLSET_PREFIX}{name}": Toolset("an MCP server; its tools are not known yet")
        for name, server in settings.mcp_servers.items()
        if server.enabled
    }
    more = {**servers, **found.added_toolsets()}
    known = all_toolsets(custom_toolsets(settings), {**found.extended_toolsets(), **more})
    return ToolSelection(settings, found, known, more)


def build_toolbox(
    assembled: Assembled, deps: ToolDeps, home: Home, redact: Callable[[str], str]
) -> Toolbox:
    if deps.place.name == "local":
        save = LocalResultStore(home.cache / "tool-results").save
    else:
        save = RemoteResultStore(deps.place.files).save
    return Toolbox(assembled.tools, save, rare=assembled.rare, redact=redact)


def build_approvals(
    loaded: Loaded,
    home: Home,
    hooks: Hooks,
    auxiliary: Auxiliary | None = None,
    request: SessionRequest | None = None,
    *,
    folder: str = "",
    learns: Callable[[], bool] = lambda: False,
) -> Approvals:
    """Return the policy of a session, which works in `folder`. Without a request, no user can be
    asked; `learns` is for reviews (`Approvals`)."""
    given, seconds = loaded.settings.approvals, 0.0
    if request is not None:
        patience = max(given.timeout, request.patience)
        seconds = given.platform_timeouts.get(request.source, patience)
    rules = ApprovalRules(given.mode, given.headless, seconds or given.timeout, given.effects)

    async def remember(rule: AllowRule) -> None:
        from hermes.config import edit  # a slow YAML library, needed only for changes

        if rule.folder or rule.command or rule.arguments:
            record = {key: value for key, value in msgspec.to_builtins(rule).items() if value}
            await asyncio.to_thread(policy.confirm_entry, home.root, "approvals.rules", rule)
            await asyncio.to_thread(edit.add_value, home, ("approvals", "rules"), record)
            return
        for kind in rule.classes:
            await asyncio.to_thread(policy.confirm_entry, home.root, "command_allowlist", kind)
            await asyncio.to_thread(edit.add_value, home, ("command_allowlist",), kind)

    return Approvals(
        rules,
        request.approver if request else None,
        allow_rules(loaded.settings),
        remember,
        judge=ModelJudge(auxiliary) if auxiliary is not None else None,
        hooks=hooks,
        folder=folder,
        persists=request is None or request.persists,
        learns=learns,
        permission_mode=request.permission_mode if request else "accept-edits",
        confinement=_confinement(loaded, home, request),
    )


def _confinement(
    loaded: Loaded, home: Home, request: SessionRequest | None
) -> Literal["", "boundary", "sandbox"]:
    """Return what the system keeps the commands of a session from; see `Approvals`."""
    backend = (request and request.backend) or loaded.settings.terminal.backend
    if backend == "local":
        return "boundary" if open_boundary(home, loaded.settings).holds else ""
    return "" if backend == "ssh" else "sandbox"


def egress_rules(
    loaded: Loaded, request: SessionRequest, target: Target, redact: Callable[[str], str]
) -> EgressRules:
    """Return where the data of a session may go without approval."""
    urls = [target.base_url, *(entry.base_url for entry in loaded.settings.fallback_providers)]
    hosts = dict.fromkeys(map(host_of, filter(None, urls)))
    # Other programs listen on this machine as well, so a local model does not list it.
    providers = [host for host in hosts if not is_loopback(host)]
    allowed = (*loaded.settings.security.egress_allow, *providers)
    return EgressRules(allowed, headless=request.approver is None, redact=redact)


def allow_rules(settings: Settings) -> list[AllowRule]:
    """Return what the settings allow permanently: `command_allowlist`, then `approvals.rules`."""
    return [*map(class_rule, settings.command_allowlist), *settings.approvals.rules]


class SessionTools:
    """The state of one session that its tools share; closed with it."""

    def __init__(
        self,
        loaded: Loaded,
        home: Home,
        place: SessionWorkspace,
        request: SessionRequest,
        services: SessionServices,
        *,
        hooks: Hooks | None = None,
        auxiliary: Auxiliary | None = None,
        history: Sequence[Message] = (),
        egress: EgressPolicy | None = None,
        on_news: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """`on_news` is called with messages of background processes."""
        self._loaded, self._home, self.place = loaded, home, place
        self._hooks = hooks or NoHooks()
        self.processes = BackgroundProcesses(
            place.workplace.shell, lambda event: on_news(process_notice(event))
        )
        self.has_checkpoints = loaded.settings.checkpoints.enabled and place.here
        self.turns = TurnCheckpoints(lambda: self.checkpoints) if self.has_checkpoints else None
        self.usage = ToolUsage(home.cache / "tool-use.json")
        todos = TodoList()
        todos.restore(history)
        self.deps = ToolDeps(
            settings=loaded.settings,
            place=place.workplace,
            guard=place.guard,
            processes=self.processes,
            reads=FileReads(),
            todos=todos,
            variables=loaded.variable,
            clarifier=request.clarifier,
            patience=request.patience,
            auxiliary=auxiliary,
            transform_output=self._transform_output,
            services=services,
            egress=egress,
            usage=self.usage,
            about=request.about
            or next((each.text for each in history if isinstance(each, User)), ""),
        )

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of the working folder or of its nearest parent that has any."""
        folder = self._home.root / "checkpoints"
        options = CheckpointOptions(max_snapshots=self._loaded.settings.checkpoints.max_snapshots)
        workspace = find_workspace(folder, Path(self.place.folder))
        return Checkpoints(folder, workspace, Path.home(), options)

    async def _transform_output(self, output: str) -> str:
        for answer in await self._hooks.fire(HookName.TRANSFORM_TERMINAL_OUTPUT, output=output):
            if isinstance(answer, str):
                output = answer
        return output

    async def close(self) -> None:
        await self.processes.close()
        await self.place.workplace.shell.close()


def process_notice(event: ProcessEvent) -> str:
    """Return the message for the agent about a background process."""
    head = f"{PROCESS_NEWS}{event.id} ({event.command[:200]}): {event.kind}"
    code = f", exit code {event.exit_code}" if event.exit_code is not None else ""
    return f"{head}{code}]\n{event.text}".rstrip()


# Services for tools: memory, skills, subagents, messages.


def open_notes(
    loaded: Loaded, home: Home, place: SessionWorkspace, request: SessionRequest
) -> BuiltinMemory | None:
    """Return the notes of a session; None if the settings or the request disable them."""
    settings = loaded.settings.memory
    if request.skip_memory or not (settings.memory_enabled or settings.user_profile_enabled):
        return None
    options = MemoryOptions(
        memory_enabled=settings.memory_enabled,
        user_profile_enabled=settings.user_profile_enabled,
        memory_char_limit=settings.memory_char_limit,
        user_char_limit=settings.user_char_limit,
    )
    return open_memory(home.root / "memories", memory_scope(place, request), options)


def memory_scope(place: SessionWorkspace, request: SessionRequest) -> MemoryScope:
    """Return the user, the chat and the project whose memory a session uses."""
    # Notes of a guest must not reach the owner through the project.
    own = place.here and not request.scope.user
    project = project_root(place.folder) if own else ""
    return msgspec.structs.replace(request.scope, project=request.scope.project or project)


def project_root(folder: str | Path) -> str:
    """Return the root of the git repository of `folder`; "" if there is none."""
    for each in upwards(str(folder)):
        if os.path.exists(inside(each, ".git")):  # noqa: PTH110 - each session asks
            return each
    return ""


def session_services(
    request: SessionRequest,
    services: Services,
    skills: SessionSkills,
    notes: BuiltinMemory | None,
    on_write: OnWrite | None = None,
    **parts: Any,
) -> SessionServices:
    """Collect what the tools of a session may use. `on_write` is called for each change of the
    notes; `parts` are further fields."""
    tools = skills.tools()
    if notes is not None:
        tools["memory"] = memory_tool(notes, on_write)
    limits = {
        "user": request.user_id,
        "folder": str(request.working_folder) if request.user_id else "",
        "toolsets": list(request.toolsets),
        "backend": request.backend,
        "day_usd": request.user_day_usd,
        "no_files": not request.sends_files,
    }
    return SessionServices(
        # A scheduled job must not schedule further jobs.
        scheduler=services.scheduler if request.source != "cron" else None,
        trainer=services.trainer if not request.user_id else None,  # runs are the owner's
        outbox=services.outbox,
        user=request.user_id,
        origin=request.origin,
        job_limits={name: value for name, value in limits.items() if value},
        tools=tools,
        **parts,
    )


def unbound_services(
    loaded: Loaded, home: Home, place: SessionWorkspace, request: SessionRequest
) -> SessionServices:
    """Return services for tools that are only listed: they have schemas and are never called."""
    unused: Any = object()
    services, notes = Services(unused, unused, unused), open_notes(loaded, home, place, request)
    skills = SkillCatalog(loaded, home, (), log.info).session(place, request.source, str, None)
    return session_services(request, services, skills, notes, sessions=unused, spawner=unused)


def unbound_tool_deps(
    loaded: Loaded, home: Home, folder: Path | None = None, platform: str = "cli"
) -> ToolDeps:
    """Return what tools need to be listed: nothing is started. `folder` is the working folder."""
    request = SessionRequest(folder or Path.cwd(), source=platform)
    place = make_workspace(loaded, home, request.working_folder, log.info)
    services = unbound_services(loaded, home, place, request)
    return SessionTools(loaded, home, place, request, services).deps


# The table of tools, and switching them permanently.


class ToolRow(msgspec.Struct, frozen=True):
    name: str
    toolset: str
    purpose: str  #: The purpose of the toolset.
    on: bool
    missing: str  #: Why it cannot be used; "" if it can.
    rare: bool  #: Not in the request, but found by tool_search.
    description: str
    chars: int


def tool_rows(loaded: Loaded, home: Home, platform: str) -> list[ToolRow]:
    """Return a row for each tool, by toolset; tools of MCP servers as far as they are known."""
    found = find_toolsets(loaded, known_tools(home, loaded))
    deps = unbound_tool_deps(loaded, home, platform=platform)
    chosen = found.make(found.names(platform), deps)
    every = found.make(found.names(platform, ("all",)), deps)
    specs = {tool.name: tool.spec for tool in (*every.tools, *every.rare)}
    on = {tool.name for tool in (*chosen.tools, *chosen.rare)} | set(chosen.unavailable)
    rare = {tool.name for tool in chosen.rare}

    def row(entry: ToolEntry) -> ToolRow:
        spec, toolset = specs.get(entry.name), found.known.get(entry.toolset)
        return ToolRow(
            entry.name,
            entry.toolset,
            toolset.description if toolset else "",
            entry.name in on,
            every.unavailable.get(entry.name, ""),
            entry.name in rare,
            spec.description.split("\n")[0] if spec else "",
            schema_chars(spec) if spec else 0,
        )

    return sorted(map(row, found.registry.entries), key=lambda row: (row.toolset, row.name))


def undescribed_toolsets(loaded: Loaded, home: Home, platform: str) -> dict[str, bool]:
    """Return the toolsets of MCP servers with unknown tools, and whether they are on."""
    found = find_toolsets(loaded, known_tools(home, loaded))
    usual = found.usual(platform)
    return {
        name: name in usual and f"-{name}" not in usual
        for name, each in sorted(found.brought.items())
        if not each.tools
    }


def set_tool_enabled(
    loaded: Loaded, home: Home, platform: str, names: Sequence[str], *, on: bool
) -> list[str]:
    """Write `platform_toolsets` of config.yaml and return the resulting toolsets."""
    found = find_toolsets(loaded, known_tools(home, loaded))
    current = selected_toolsets(loaded.settings, platform)
    now = switch_toolsets(current, names, found.known, on=on, added=found.brought)
    from hermes.config import edit  # a slow YAML library, needed only for changes

    edit.set_value(home, ("platform_toolsets", platform_key(loaded.settings, platform)), now)
    return now
