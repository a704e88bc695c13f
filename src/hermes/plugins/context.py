"""`ctx`: what a plugin's `register(ctx)` is given."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.tool import Effect
from hermes.plugins.apart import PluginFailed, name_of
from hermes.plugins.events import event_named
from hermes.plugins.guards import check_guard, cli_guards, command_guard, tool_guard
from hermes.plugins.hooks import HookRunner
from hermes.plugins.host import Host
from hermes.plugins.names import Names, Thing
from hermes.plugins.reports import Reports
from hermes.plugins.tool_schema import own_schema

_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What models' endpoints take as a name."""
_COMMAND = re.compile(r"[a-z0-9][a-z0-9_-]*")
_SKILL = re.compile(r"[A-Za-z0-9][\w-]*")
_MORE = ("requires_env", "is_async", "description", "emoji")
"""Further arguments of `register_tool`, passed on to the registry."""


class Desk(msgspec.Struct, frozen=True):
    """Where registrations of plugins go."""

    host: Host
    hooks: HookRunner
    names: Names
    reports: Reports


class PluginContext:
    """The documented interface.

    What is registered takes effect when `register` has returned, so that a plugin that fails
    half-way leaves nothing behind; what a plugin registers later takes effect at once.
    """

    def __init__(self, plugin: str, folder: Path | None, desk: Desk) -> None:
        self._plugin, self._folder, self._desk = plugin, folder, desk
        self._waiting: list[Callable[[], None]] | None = []
        self._closed = ""

    def register_tool(
        self,
        name: str,
        toolset: Any = "",
        schema: Any = None,
        handler: Any = None,
        check_fn: Callable[[], Any] | None = None,
        **more: Any,
    ) -> None:
        """A tool: `handler(args, **kwargs)` returns a JSON string. Without a toolset the plugin's
        name is taken; the older order `(name, schema, handler)` is understood too. `effect` says
        what calls can do, by the names of `Effect`; without it they need consent."""
        if isinstance(toolset, dict):
            toolset, schema, handler = "", toolset, schema if handler is None else handler
        self._check_name("register_tool", name, _TOOL)
        try:
            schema = own_schema(schema)
        except TypeError as error:
            raise TypeError(f"register_tool({name!r}): {error}") from error
        self._check_callable(f"register_tool({name!r})", handler)
        usable = None
        if check_fn is not None:
            usable = check_guard(self._plugin, name, check_fn, self._desk.reports)
        known = {key: more[key] for key in _MORE if key in more}
        known["requires_env"] = tuple(known.get("requires_env") or ())
        if "effect" in more:
            known["effect"] = _effect(name, more["effect"])

        def add() -> None:
            if self._claims(Thing.TOOL, name):
                self._desk.host.add_tool(
                    self._plugin,
                    name=name,
                    toolset=str(toolset or self._plugin),
                    schema=schema,
                    handler=tool_guard(handler),
                    check_fn=usable,
                    **known,
                )

        self._register(add)

    def register_hook(self, event: str, cb: Callable[..., Any]) -> None:
        """`cb` is called with the keyword arguments of the event that it names."""
        self._check_callable(f"register_hook({str(event)!r})", cb)
        try:
            name = event_named(event)
        except ValueError as error:
            text = f"plugin {self._plugin}: {error}"
            self._desk.reports.once((self._plugin, "hook", event), text)
            return
        self._register(lambda: self._desk.hooks.add(self._plugin, name, cb))

    def register_command(
        self, name: str, handler: Callable[[str], Any], description: str = ""
    ) -> None:
        """A slash command: `handler(raw_args)` returns a text to show, or None."""
        name = str(name).lstrip("/").lower()
        self._check_name("register_command", name, _COMMAND)
        self._check_callable(f"register_command({name!r})", handler)
        guarded = command_guard(self._plugin, name, handler)

        def add() -> None:
            if self._claims(Thing.COMMAND, name):
                self._desk.host.add_command(name, guarded, str(description))

        self._register(add)

    def register_cli_command(
        self,
        name: str,
        help: str,  # noqa: A002 - the documented name
        setup_fn: Callable[..., Any],
        handler_fn: Callable[..., Any],
    ) -> None:
        """`hermes <name>`: `setup_fn(parser)` adds arguments, `handler_fn(args)` does the work."""
        name = str(name).lower()
        self._check_name("register_cli_command", name, _COMMAND)
        for function in (setup_fn, handler_fn):
            self._check_callable(f"register_cli_command({name!r})", function)
        set_up, act = cli_guards(self._plugin, name, setup_fn, handler_fn)

        def add() -> None:
            if self._claims(Thing.CLI_COMMAND, name):
                self._desk.host.add_cli_command(name, str(help), set_up, act)

        self._register(add)

    def register_skill(self, name: str, path: str | Path) -> None:
        """A skill known as `<plugin>:<name>`: a folder with SKILL.md, or that file. A relative
        path begins in the plugin's folder."""
        self._check_name("register_skill", name, _SKILL)
        place = (self._folder or Path()) / Path(path).expanduser()
        folder = place.parent if place.name == "SKILL.md" else place
        if not (folder / "SKILL.md").is_file():
            raise FileNotFoundError(f"register_skill({name!r}): there is no {folder / 'SKILL.md'}")

        def add() -> None:
            if self._claims(Thing.SKILL, f"{self._plugin}:{name}"):
                self._desk.host.add_skill(self._plugin, name, folder)

        self._register(add)

    def register_memory_provider(self, provider: Any) -> None:
        name = _own_name(provider)

        def add() -> None:
            if self._claims(Thing.MEMORY, name):
                self._desk.host.add_memory_provider(provider)

        self._register(add)

    def register_context_engine(self, engine: Any) -> None:
        """Only one plugin can bring an engine; `context.engine` must name it."""
        name = _own_name(engine)

        def add() -> None:
            if self._claims(Thing.ENGINE, name):
                self._desk.host.add_context_engine(engine)

        self._register(add)

    def inject_message(self, content: str, role: str = "user") -> bool:
        """Put a message into the running conversation of the terminal; False elsewhere."""
        return self._desk.host.inject_message(str(content), str(role))

    def _register(self, add: Callable[[], None]) -> None:
        if self._closed:
            raise PluginFailed(self._closed)
        if self._waiting is None:
            add()
        else:
            self._waiting.append(add)

    def _claims(self, thing: Thing, name: str) -> bool:
        return self._desk.names.claim(thing, name, self._plugin)

    def _check_name(self, method: str, name: object, shape: re.Pattern[str]) -> None:
        if not isinstance(name, str) or not shape.fullmatch(name):
            raise ValueError(f"{method}: {name!r} cannot be a name")

    def _check_callable(self, method: str, thing: object) -> None:
        if not callable(thing):
            raise TypeError(f"{method}: {name_of(thing)} cannot be called")


def put_into_effect(context: PluginContext) -> None:
    """The plugin's `register` has returned."""
    waiting, context._waiting = context._waiting or [], None  # noqa: SLF001 - not for plugins
    for add in waiting:
        add()


def close(context: PluginContext, reason: str) -> None:
    """Nothing of it takes effect, also not what a thread left behind registers later."""
    context._closed, context._waiting = reason, []  # noqa: SLF001 - not for plugins


def _effect(tool: str, given: Any) -> Effect:
    try:
        return Effect(given)
    except ValueError:
        known = ", ".join(Effect)
        raise ValueError(f"register_tool({tool!r}): effect {given!r} is none of {known}") from None


def _own_name(thing: Any) -> str:
    name = thing.name
    if not isinstance(name, str) or not name:
        raise TypeError(f"{name_of(thing)} has no name")
    return name
