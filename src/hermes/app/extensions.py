"""What other programs add to a process: plugins, shell hooks, MCP servers and telemetry."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from hermes.app.log_files import is_logging, start_logging
from hermes.app.providers import AuxiliaryModels, stored_secrets
from hermes.config.document import read_document
from hermes.config.environment import child_environment, export_variable
from hermes.config.home import Home
from hermes.config.loader import Loaded, load
from hermes.config.settings import McpServer, TelemetrySettings
from hermes.core.errors import ConfigError, HermesError
from hermes.core.model import ModelRequest, Reply
from hermes.core.ports import Clarifier, Hooks, NoHooks
from hermes.core.tool import Tool
from hermes.sdk.telemetry import StartTelemetry, Telemetry, TelemetryOptions
from hermes.security import Redactor
from hermes.skills import SkillRoot, Source
from hermes.terminal import open_boundary
from hermes.tools import ToolEntry
from hermes.tools.registry import builtin_names, registry
from hermes.util.extras import install_hint
from hermes.util.text import many, plain_line

if TYPE_CHECKING:
    from hermes.mcp import McpHub, ServerStatus

Inject = Callable[[str, str], bool]
"""Adds a message to the conversation: text and role; returns False if that is not possible."""


class SlashCommand(msgspec.Struct, frozen=True):
    handler: Callable[[str], Any]
    """Async: receives the text after the command and returns the answer. It never raises."""
    description: str


class CliCommand(msgspec.Struct, frozen=True):
    help: str
    setup: Callable[..., None]
    act: Callable[..., int]


class ReservedNames(msgspec.Struct, frozen=True):
    """Names that plugins cannot use."""

    commands: Iterable[str] = ()  #: Slash commands.
    cli_commands: Iterable[str] = ()  #: Subcommands.


class Extensions:
    """The registrations of plugins. Implements `plugins.PluginHost`."""

    _open: ClassVar[list["Extensions"]] = []

    @classmethod
    def in_force(cls) -> "Extensions | None":
        """Return the newest instance of this process, for plugins that use a documented path."""
        return cls._open[-1] if cls._open else None

    def __init__(
        self,
        home: Home,
        loaded: Loaded,
        tell: Callable[[str], None],
        *,
        ask: Any = None,
        taken: Callable[[], ReservedNames] = ReservedNames,
    ) -> None:
        """`ask(event, command)` asks for approval of a shell hook; None if no user can be asked."""
        self._home, self._loaded, self._ask = home, loaded, ask
        self.hooks: Hooks = NoHooks()
        self.commands: dict[str, SlashCommand] = {}
        self.cli_commands: dict[str, CliCommand] = {}
        self.skills: list[SkillRoot] = []
        self.memory_providers: dict[str, Any] = {}
        self.context_engines: list[Any] = []
        self.terminals: dict[str, Any] = {}  #: Manifests of terminal backends.
        self.platforms: dict[str, Any] = {}  #: Manifests of messaging platforms.
        self.inject: Inject | None = None  #: Set by the conversation of a terminal.
        self.outcomes: tuple[Any, ...] = ()
        self._replaced: dict[str, ToolEntry | None] = {}
        """Tools of plugins, and the tools that they replace."""
        self._shell: Any = None
        self._names: Any = None
        self._open.append(self)
        settings = loaded.settings
        if settings.plugins.enabled or settings.hooks:
            self._load(tell, taken)

    def _load(self, tell: Callable[[str], None], taken: Callable[[], ReservedNames]) -> None:
        settings = self._loaded.settings
        if not is_logging():  # problems of a plugin are logged
            secrets = self._loaded.secrets() | stored_secrets(self._home)
            start_logging(self._home, settings.logging, Redactor(secrets))
        # Only for homes with plugins or hooks: others must not pay for it at start-up.
        from hermes import plugins

        history = plugins.StartHistory.read(self._home.cache)
        reports = plugins.ProblemReporter(tell, history.warnings)
        if settings.hooks:
            options = plugins.HookOptions(
                environment=child_environment((), self._loaded.saved),
                folder=lambda: str(Path.cwd()),
                ask=self._ask,
                auto_accept=settings.hooks_auto_accept,
                boundary=open_boundary(self._home, settings),
            )
            hooks = plugins.parse_hooks(settings.hooks, reports)
            approvals = plugins.HookApprovals(self._home.root)
            self._shell = plugins.ShellHooks(hooks, approvals, options, reports)
        runner = plugins.HookRunner(
            timeout=settings.plugins.hook_timeout, reports=reports, shell=self._shell
        )
        self.hooks = runner
        if not settings.plugins.enabled:
            return
        reserved = taken()
        names = plugins.NameRegistry(
            reports, reserved.commands, reserved.cli_commands, builtin_names()
        )
        self._names = names
        project = Path.cwd() if settings.plugins.project else None
        self.outcomes = plugins.load_plugins(
            plugins.default_places(self._home.plugins, project),
            plugins.PluginSelection(settings.plugins.enabled, settings.plugins.disabled),
            plugins.PluginServices(self, runner, names, reports),
            plugins.PluginVariables(self._loaded.variable, export_variable),
            history=history,
        )
        history.warnings = sorted(reports.lasting)
        history.write(self._home.cache)
        held = {
            each.name: names.names_of(plugins.RegistrationKind.CLI_COMMAND, each.name)
            for each in self.outcomes
            if not each.problem
        }
        plugins.cache_commands(self._home.cache, held)

    def plugin_with(self, thing: str, name: str) -> str:
        """Return the plugin that registered a name of a `RegistrationKind`, or ""."""
        return str(self._names.owner(thing, name)) if self._names else ""

    async def settle(self) -> None:
        """Request missing approvals now instead of during a turn."""
        if self._shell is not None and self._ask is not None:
            await self._shell.settle()

    async def close(self) -> None:
        if self in self._open:
            self._open.remove(self)
        for name, before in self._replaced.items():
            registry.remove(name)
            if before is not None:
                registry.add(before)
        if self._shell is not None:
            await self._shell.close()

    def add_tool(self, plugin: str, **registration: Any) -> None:  # noqa: ARG002 - the toolset tells
        name = registration["name"]
        self._replaced.setdefault(name, registry.get(name))
        if "entry" in registration:
            registry.add_foreign(registration["entry"])
        else:
            registry.register(**registration)

    def add_command(self, name: str, handler: Callable[[str], Any], description: str) -> None:
        self.commands[name] = SlashCommand(handler, description)

    def add_cli_command(
        self,
        name: str,
        help: str,  # noqa: A002 - the documented name
        setup_fn: Callable[..., None],
        handler_fn: Callable[..., int],
    ) -> None:
        self.cli_commands[name] = CliCommand(help, setup_fn, handler_fn)

    def add_skill(self, plugin: str, name: str, path: Path) -> None:
        self.skills.append(SkillRoot(path, Source.PLUGIN, plugin, name))

    def add_memory_provider(self, provider: Any) -> None:
        self.memory_providers[provider.name] = provider

    def add_context_engine(self, engine: Any) -> None:
        self.context_engines.append(engine)

    def add_terminal_backend(self, manifest: Any) -> None:
        self.terminals[manifest.name] = manifest

    def add_platform(self, manifest: Any) -> None:
        self.platforms[manifest.name] = manifest

    def inject_message(self, content: str, role: str) -> bool:
        return self.inject is not None and self.inject(content, role)


def message_injector(loop: asyncio.AbstractEventLoop, agent: Callable[[], Any]) -> Inject:
    """Add the message to the running turn, or send it as the next; called from any thread."""

    def put(content: str) -> None:
        talking = agent()
        if talking is not None and not talking.steer(content):
            talking.pending.add(content)

    def inject(content: str, role: str) -> bool:
        if role != "user" or not content.strip() or loop.is_closed():
            return False
        loop.call_soon_threadsafe(put, content)
        return True

    return inject


# Telemetry: the bundled plugin `otlp` sends spans to a collector, in the background.


def telemetry_of(wanted: TelemetrySettings, redact: Callable[[str], str]) -> Telemetry | None:
    """Return None if telemetry is off. `redact` removes secrets from texts. Raises `ConfigError`
    for a wrong setting or a missing package, not for a collector that does not answer."""
    if not wanted.enabled:
        return None
    if not wanted.endpoint.startswith(("http://", "https://")):
        raise ConfigError(
            "telemetry.endpoint must begin with http:// or https://",
            hint="for example http://127.0.0.1:4318",
        )
    # Only processes with telemetry load a plugin here.
    from hermes.plugins import import_folder
    from hermes.plugins.discovery import BUNDLED

    try:
        start: StartTelemetry = import_folder(BUNDLED / "telemetry" / "otlp").start
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("opentelemetry"):
            raise
        raise ConfigError(
            f"telemetry.enabled is on, but {error.name} is not installed",
            hint=f"{install_hint('otel')}, or hermes config set telemetry.enabled false",
        ) from None
    options = TelemetryOptions(
        wanted.endpoint, wanted.headers, wanted.service_name, wanted.capture_content
    )
    return start(options, redact)


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
        # Whether config.yaml has settings but was not read, as the user wished.
        self._ignores_config = False
        if not loaded.raw:
            try:
                self._ignores_config = bool(read_document(home.config_file).data)
            except ConfigError:
                self._ignores_config = True

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

    def status(self) -> "list[ServerStatus]":
        """Return the state of the servers that a session has asked for."""
        return self._hub.status() if self._hub is not None else []

    async def close(self) -> None:
        if self._hub is not None:
            await self._hub.close()


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


def make_hub(
    home: Home, loaded: Loaded, tell: Callable[[str], None], servers: Servers | None = None
) -> "McpHub":
    """Return a hub that has not started any server: of `servers`, or those of the settings."""
    from hermes.mcp import McpHub, McpOptions  # only sessions with servers need the client

    options = McpOptions(
        cache=home.cache / "mcp",
        folder=str(Path.cwd()),
        question_seconds=loaded.settings.clarify.timeout,
        boundary=open_boundary(home, loaded.settings),
    )
    named = loaded.settings.mcp_servers if servers is None else servers
    return McpHub(named, options, authorizers=authorizers(home), tell=tell)


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
