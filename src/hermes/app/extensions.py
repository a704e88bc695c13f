"""Plugins, shell hooks and telemetry of a process, loaded when the settings name any."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from hermes.app.log_files import is_logging, start_logging
from hermes.app.providers import stored_secrets
from hermes.config.environment import child_environment, export_variable
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings import TelemetrySettings
from hermes.core.errors import ConfigError
from hermes.core.ports import Hooks, NoHooks
from hermes.sdk.telemetry import StartTelemetry, Telemetry, TelemetryOptions
from hermes.security import Redactor
from hermes.skills import SkillRoot, Source
from hermes.tools import ToolEntry
from hermes.tools.registry import registry
from hermes.util.extras import install_hint

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
        taken: ReservedNames = ReservedNames(),  # noqa: B008 - frozen
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

    def _load(self, tell: Callable[[str], None], taken: ReservedNames) -> None:
        settings = self._loaded.settings
        if not is_logging():  # problems of a plugin are logged
            secrets = self._loaded.secrets() | stored_secrets(self._home)
            start_logging(self._home, settings.logging, Redactor(secrets))
        # Only for homes with plugins or hooks: others must not pay for it at start-up.
        from hermes.plugins import HookRunner, ProblemReporter

        reports = ProblemReporter(tell)
        self._shell = self._shell_hooks(reports) if settings.hooks else None
        runner = HookRunner(
            timeout=settings.plugins.hook_timeout, reports=reports, shell=self._shell
        )
        self.hooks = runner
        if not settings.plugins.enabled:
            return
        from hermes.plugins import (
            NameRegistry,
            PluginSelection,
            PluginServices,
            PluginVariables,
            RegistrationKind,
            cache_commands,
            default_places,
            load_plugins,
        )

        self._names = names = NameRegistry(reports, taken.commands, taken.cli_commands)
        project = Path.cwd() if settings.plugins.project else None
        self.outcomes = load_plugins(
            default_places(self._home.plugins, project),
            PluginSelection(settings.plugins.enabled, settings.plugins.disabled),
            PluginServices(self, runner, names, reports),
            PluginVariables(self._loaded.variable, export_variable),
        )
        held = {
            each.name: names.names_of(RegistrationKind.CLI_COMMAND, each.name)
            for each in self.outcomes
            if not each.problem
        }
        cache_commands(self._home.cache, held)

    def plugin_with(self, thing: str, name: str) -> str:
        """Return the plugin that registered a name of a `RegistrationKind`, or ""."""
        return str(self._names.owner(thing, name)) if self._names else ""

    def _shell_hooks(self, reports: Any) -> Any:
        # Only for homes with hooks.
        from hermes.plugins import HookApprovals, HookOptions, ShellHooks, parse_hooks

        approvals = HookApprovals(self._home.root)
        settings = self._loaded.settings
        options = HookOptions(
            environment=child_environment((), self._loaded.saved),
            folder=lambda: str(Path.cwd()),
            ask=self._ask,
            auto_accept=settings.hooks_auto_accept,
        )
        hooks = parse_hooks(settings.hooks, reports)
        return ShellHooks(hooks, approvals, options, reports)

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
    """Return None if telemetry is off."""
    if not wanted.enabled:
        return None
    options = TelemetryOptions(
        wanted.endpoint, wanted.headers, wanted.service_name, wanted.capture_content
    )
    return start_telemetry(options, redact)


def start_telemetry(options: TelemetryOptions, redact: Callable[[str], str]) -> Telemetry:
    """`redact` removes secrets from texts. Raises `ConfigError` for a wrong setting or a missing
    package, not for a collector that does not answer."""
    if not options.endpoint.startswith(("http://", "https://")):
        raise ConfigError(
            "telemetry.endpoint must begin with http:// or https://",
            hint="for example http://127.0.0.1:4318",
        )
    # Only processes with telemetry load a plugin here.
    from hermes.plugins import import_folder
    from hermes.plugins.manifest import BUNDLED

    try:
        start: StartTelemetry = import_folder(BUNDLED / "telemetry" / "otlp").start
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("opentelemetry"):
            raise
        raise ConfigError(
            f"telemetry.enabled is on, but {error.name} is not installed",
            hint=f"{install_hint('otel')}, or hermes config set telemetry.enabled false",
        ) from None
    return start(options, redact)
