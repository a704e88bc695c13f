"""`ctx`, the argument of a plugin's `register(ctx)`, and the guards around what it registers."""

import argparse
import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from hermes.core.tool import Effect
from hermes.plugins.hooks import HookRunner, parse_event
from hermes.plugins.isolation import (
    AcceptedArguments,
    PluginFailed,
    ProblemReporter,
    call_plugin,
    describe_error,
    display_name,
    is_async,
    run_with_timeout,
)

CommandHandler = Callable[[str], Awaitable[str]]
"""Runs a slash command with its arguments and returns the text to show. It never raises."""
SetUp = Callable[[argparse.ArgumentParser], None]
"""Adds arguments to the parser of a subcommand. Raises `PluginFailed`."""
Act = Callable[[argparse.Namespace], int]
"""Runs a subcommand and returns the exit code. Raises `PluginFailed`."""


class PluginHost(Protocol):
    """The program as plugins see it, implemented by `app`.

    Called in the thread that loads plugins, after a plugin's `register` has succeeded. Names are
    valid and not taken.
    """

    def add_tool(self, plugin: str, **registration: Any) -> None:
        """`registration` are the arguments of `ToolRegistry.register`, or `name` and `entry`."""
        ...

    def add_command(self, name: str, handler: CommandHandler, description: str) -> None:
        """A slash command, without the slash."""
        ...

    def add_cli_command(self, name: str, help: str, setup_fn: SetUp, handler_fn: Act) -> None:  # noqa: A002 - the documented name
        """`hermes <name> …`"""
        ...

    def add_skill(self, plugin: str, name: str, path: Path) -> None:
        """A folder with SKILL.md, known as `plugin:name`."""
        ...

    def add_memory_provider(self, provider: Any) -> None: ...

    def add_context_engine(self, engine: Any) -> None: ...

    def add_terminal_backend(self, manifest: Any) -> None: ...

    def add_platform(self, manifest: Any) -> None: ...

    def inject_message(self, content: str, role: str) -> bool:
        """Add a message to the running conversation. Return False outside of the terminal, where
        no conversation can take it. Called from any thread."""
        ...


OWN_NAMES_HOLDER = "Hermes itself"


class RegistrationKind(StrEnum):
    TOOL = "tool"
    COMMAND = "command"
    CLI_COMMAND = "subcommand"
    SKILL = "skill"
    MEMORY = "memory provider"
    ENGINE = "context engine"
    TERMINAL = "terminal backend"
    PLATFORM = "platform"


SINGLE = frozenset({RegistrationKind.ENGINE})
"""Kinds of which only one can be registered in total."""
ONE_EACH = frozenset({RegistrationKind.MEMORY})
"""Kinds of which each plugin can register one; the first wins."""


class NameRegistry:
    """The owner of each registered name: first the program, then plugins in loading order.

    `commands` are the slash commands with their aliases, `cli_commands` the subcommands, `tools`
    the built-in tools: with such a name, a plugin would replace the checks of the tool too.
    """

    def __init__(
        self,
        reports: ProblemReporter,
        commands: Iterable[str] = (),
        cli_commands: Iterable[str] = (),
        tools: Iterable[str] = (),
    ) -> None:
        self._reports = reports
        self._owners: dict[tuple[RegistrationKind, str], str] = {}
        for thing, names in (
            (RegistrationKind.COMMAND, commands),
            (RegistrationKind.CLI_COMMAND, cli_commands),
            (RegistrationKind.TOOL, tools),
        ):
            self._owners |= {(thing, name.lstrip("/").lower()): OWN_NAMES_HOLDER for name in names}

    def claim(self, thing: RegistrationKind, name: str, plugin: str) -> bool:
        """Register a name for a plugin. Report and return False if it is taken."""
        holder = self.owner(thing, name)
        if thing in SINGLE:  # any owner of another name counts, too
            holder = next((own for (kind, _), own in self._owners.items() if kind is thing), "")
        elif thing in ONE_EACH and self.names_of(thing, plugin):
            holder = plugin
        if not holder or (holder == plugin and thing not in SINGLE | ONE_EACH):
            self._owners[thing, name] = plugin
            return True  # if a plugin registers a name twice, the later one wins
        self._reports.report(
            (plugin, thing, name),
            f"plugin {plugin}: its {thing} {name} is left out: {holder} has one already",
            lasting=True,
        )
        return False

    def owner(self, thing: RegistrationKind, name: str) -> str:
        """Return the plugin that owns a name, or ""."""
        return self._owners.get((thing, name), "")

    def names_of(self, thing: RegistrationKind, plugin: str) -> list[str]:
        """Return the names of one kind that a plugin owns."""
        held = self._owners.items()
        return [name for (kind, name), owner in held if (kind, owner) == (thing, plugin)]


def check_schema(given: Any) -> dict[str, Any]:
    """Return a copy of a tool schema, which the plugin cannot change later.

    Raises `TypeError` for a schema that model endpoints refuse: it would fail every request of a
    conversation, not only calls of this tool.
    """
    if not isinstance(given, dict):
        raise TypeError("schema is not a JSON Schema in a dict")
    try:
        schema: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(given))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"schema is not JSON: {error}") from error
    parameters = schema.get("parameters", schema if "properties" in schema else {})
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise TypeError("the parameters in schema are not a JSON Schema of an object")
    properties, required = parameters.get("properties", {}), parameters.get("required", [])
    if not isinstance(properties, dict) or not all(
        isinstance(each, dict | bool) for each in properties.values()
    ):
        raise TypeError("the properties in schema are not JSON Schemas in a dict")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise TypeError("`required` in schema is not a list of names")
    return schema


# Guards: functions of plugins, wrapped so that their failures are contained.

CHECK_SECONDS = 5.0  #: Time limit for the check of a tool, which runs when a session starts.


def command_guard(plugin: str, name: str, handler: Callable[..., Any]) -> CommandHandler:
    """Return a slash command that answers with its failure instead of raising."""

    async def run(raw_args: str) -> str:
        work = asyncio.ensure_future(call_plugin(handler, raw_args))
        try:
            await asyncio.wait({work})
        finally:
            work.cancel()  # if the caller was cancelled
        if work.cancelled():
            return f"/{name} of plugin {plugin} was cancelled"
        if (failure := work.exception()) is not None:
            return f"/{name} of plugin {plugin} failed: {describe_error(failure)}"
        answer = work.result()
        return "" if answer is None else str(answer)

    return run


def check_guard(
    plugin: str, name: str, check: Callable[[], Any], reports: ProblemReporter
) -> Callable[[], bool]:
    """Return the check of a tool that returns False if the check fails or hangs."""

    def usable() -> bool:
        try:
            return bool(run_with_timeout(check, CHECK_SECONDS))
        except PluginFailed as error:
            text = f"plugin {plugin}: tool {name} is left out: its check failed: {error}"
            reports.report((plugin, "check", name), text, error)
            return False

    return usable


def tool_guard(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a tool handler that takes any keyword argument and passes on the accepted ones."""
    known = AcceptedArguments(handler)
    if is_async(handler):

        async def wait(arguments: dict[str, Any], **details: Any) -> Any:
            return await handler(arguments, **known.select(details))

        return wait

    def call(arguments: dict[str, Any], **details: Any) -> Any:
        return handler(arguments, **known.select(details))

    return call


def cli_guards(
    plugin: str, name: str, setup_fn: Callable[..., Any], handler_fn: Callable[..., Any]
) -> tuple[SetUp, Act]:
    """Return the functions of a subcommand, with failures as `PluginFailed`."""

    def set_up(parser: argparse.ArgumentParser) -> None:
        _attempt(plugin, name, lambda: setup_fn(parser))

    def act(args: argparse.Namespace) -> int:
        code = _attempt(plugin, name, lambda: handler_fn(args))
        return code if isinstance(code, int) else 0

    return set_up, act


def _attempt(plugin: str, name: str, work: Callable[[], Any]) -> Any:
    """Run `work` in this thread, where the user can stop it with Ctrl-C."""
    try:
        return work()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) or error.code is None else 1
    except Exception as error:  # third-party code may raise anything
        raise PluginFailed(
            f"`hermes {name}` of plugin {plugin} failed: {describe_error(error)}",
            hint=f"`hermes plugins disable {plugin}` switches it off",
        ) from error


_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")  #: Names that model endpoints accept.
_COMMAND = re.compile(r"[a-z0-9][a-z0-9_-]*")
_SKILL = re.compile(r"[A-Za-z0-9][\w-]*")
_MORE = ("requires_env", "is_async", "description", "emoji")
"""Further arguments of `register_tool` that are passed on to the registry."""


class PluginServices(msgspec.Struct, frozen=True):
    """The services that registrations of plugins use."""

    host: PluginHost
    hooks: HookRunner
    names: NameRegistry
    reports: ProblemReporter


class PluginContext:
    """The documented interface of plugins.

    Registrations take effect when `register` has returned, so that a plugin that fails half-way
    leaves nothing behind. Later registrations take effect at once.
    """

    def __init__(self, plugin: str, folder: Path | None, services: PluginServices) -> None:
        self._plugin, self._folder, self._services = plugin, folder, services
        self._waiting: list[Callable[[], None]] | None = []
        self._closed = ""

    def register_tool(
        self,
        name: Any,
        toolset: Any = "",
        schema: Any = None,
        handler: Any = None,
        check_fn: Callable[[], Any] | None = None,
        **more: Any,
    ) -> None:
        """Register a tool: one that `hermes.sdk.tool` decorates, as the only argument, or the parts
        of one; `handler(args, **kwargs)` returns a JSON string.

        The default toolset is the plugin's name. The older order `(name, schema, handler)` is
        accepted too. `effect` is a name of `Effect`; without it, calls need approval.
        """
        if hasattr(name, "make"):
            self._check_name("register_tool", name.name, _TOOL)
            add = partial(self._services.host.add_tool, self._plugin, name=name.name, entry=name)
            self._claim(RegistrationKind.TOOL, name.name, add)
            return
        if isinstance(toolset, dict):
            toolset, schema, handler = "", toolset, schema if handler is None else handler
        self._check_name("register_tool", name, _TOOL)
        try:
            schema = check_schema(schema)
        except TypeError as error:
            raise TypeError(f"register_tool({name!r}): {error}") from error
        self._check_callable(f"register_tool({name!r})", handler)
        usable = None
        if check_fn is not None:
            usable = check_guard(self._plugin, name, check_fn, self._services.reports)
        known = {key: more[key] for key in _MORE if key in more}
        known["requires_env"] = tuple(known.get("requires_env") or ())
        if "effect" in more:
            try:
                known["effect"] = Effect(more["effect"])
            except ValueError:
                text = f"effect {more['effect']!r} is none of {', '.join(Effect)}"
                raise ValueError(f"register_tool({name!r}): {text}") from None

        add = partial(
            self._services.host.add_tool,
            self._plugin,
            name=name,
            toolset=str(toolset or self._plugin),
            schema=schema,
            handler=tool_guard(handler),
            check_fn=usable,
            **known,
        )
        self._claim(RegistrationKind.TOOL, name, add)

    def register_hook(self, event: str, cb: Callable[..., Any]) -> None:
        """Register a hook; `cb` is called with the event's arguments that it accepts."""
        self._check_callable(f"register_hook({str(event)!r})", cb)
        try:
            name = parse_event(event)
        except ValueError as error:
            text = f"plugin {self._plugin}: {error}"
            self._services.reports.report((self._plugin, "hook", event), text, lasting=True)
            return
        self._register(lambda: self._services.hooks.add(self._plugin, name, cb))

    def register_command(
        self, name: str, handler: Callable[[str], Any], description: str = ""
    ) -> None:
        """Register a slash command; `handler(raw_args)` returns a text to show, or None."""
        name = str(name).lstrip("/").lower()
        self._check_name("register_command", name, _COMMAND)
        self._check_callable(f"register_command({name!r})", handler)
        guarded = command_guard(self._plugin, name, handler)
        add = partial(self._services.host.add_command, name, guarded, str(description))
        self._claim(RegistrationKind.COMMAND, name, add)

    def register_cli_command(
        self,
        name: str,
        help: str,  # noqa: A002 - the documented name
        setup_fn: Callable[..., Any],
        handler_fn: Callable[..., Any],
    ) -> None:
        """Register `hermes <name>`; `setup_fn(parser)` adds arguments, `handler_fn(args)` runs."""
        name = str(name).lower()
        self._check_name("register_cli_command", name, _COMMAND)
        for function in (setup_fn, handler_fn):
            self._check_callable(f"register_cli_command({name!r})", function)
        set_up, act = cli_guards(self._plugin, name, setup_fn, handler_fn)
        add = partial(self._services.host.add_cli_command, name, str(help), set_up, act)
        self._claim(RegistrationKind.CLI_COMMAND, name, add)

    def register_skill(self, name: str, path: str | Path) -> None:
        """Register a skill `<plugin>:<name>`: a folder with SKILL.md, or that file. A relative path
        starts in the plugin's folder."""
        self._check_name("register_skill", name, _SKILL)
        place = (self._folder or Path()) / Path(path).expanduser()
        folder = place.parent if place.name == "SKILL.md" else place
        if not (folder / "SKILL.md").is_file():
            raise FileNotFoundError(f"register_skill({name!r}): there is no {folder / 'SKILL.md'}")
        add = partial(self._services.host.add_skill, self._plugin, name, folder)
        self._claim(RegistrationKind.SKILL, f"{self._plugin}:{name}", add)

    def register_memory_provider(self, provider: Any) -> None:
        add = partial(self._services.host.add_memory_provider, provider)
        self._claim(RegistrationKind.MEMORY, _own_name(provider), add)

    def register_context_engine(self, engine: Any) -> None:
        """Register a context engine. Only one plugin can; `context.engine` must name it."""
        add = partial(self._services.host.add_context_engine, engine)
        self._claim(RegistrationKind.ENGINE, _own_name(engine), add)

    def register_terminal_backend(self, manifest: Any) -> None:
        """Register a terminal backend, a `hermes.sdk.terminal.TerminalManifest`. It has the name of
        the plugin, and `terminal.backend` must name it."""
        if _own_name(manifest) != self._plugin:
            raise ValueError(
                f"register_terminal_backend: the backend {manifest.name!r} does not have the name "
                f"of its plugin, {self._plugin!r}"
            )
        add = partial(self._services.host.add_terminal_backend, manifest)
        self._claim(RegistrationKind.TERMINAL, manifest.name, add)

    def register_platform(self, manifest: Any) -> None:
        """Register a messaging platform, a `hermes.sdk.platforms.PlatformManifest` whose `adapter`
        is the class. A platform that comes with Hermes keeps its name."""
        add = partial(self._services.host.add_platform, manifest)
        self._claim(RegistrationKind.PLATFORM, _own_name(manifest), add)

    def inject_message(self, content: str, role: str = "user") -> bool:
        """Add a message to the running conversation in the terminal. Return False elsewhere."""
        return self._services.host.inject_message(str(content), str(role))

    def _register(self, add: Callable[[], None]) -> None:
        if self._closed:
            raise PluginFailed(self._closed)
        if self._waiting is None:
            add()
        else:
            self._waiting.append(add)

    def _claim(self, thing: RegistrationKind, name: str, add: Callable[[], None]) -> None:
        """Register `add`, which is skipped when the name is taken by then."""

        def claim() -> None:
            if self._services.names.claim(thing, name, self._plugin):
                add()

        self._register(claim)

    def _check_name(self, method: str, name: object, shape: re.Pattern[str]) -> None:
        if not isinstance(name, str) or not shape.fullmatch(name):
            raise ValueError(f"{method}: {name!r} is not a valid name")

    def _check_callable(self, method: str, thing: object) -> None:
        if not callable(thing):
            raise TypeError(f"{method}: {display_name(thing)} is not callable")


def apply_registrations(context: PluginContext) -> None:
    """Apply what the plugin registered; called when its `register` has returned."""
    waiting, context._waiting = context._waiting or [], None  # noqa: SLF001 - not for plugins
    for add in waiting:
        add()


def discard_registrations(context: PluginContext, reason: str) -> None:
    """Drop all registrations, also later ones of a thread that is still running."""
    context._closed, context._waiting = reason, []  # noqa: SLF001 - not for plugins


def _own_name(thing: Any) -> str:
    name = thing.name
    if not isinstance(name, str) or not name:
        raise TypeError(f"{display_name(thing)} has no name")
    return name
