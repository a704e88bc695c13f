"""Every tool there is: ours, found in `hermes.tools.builtin`, and those that plugins register."""

import inspect
import logging
import pkgutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.config.settings import Settings
from hermes.core.errors import ToolError
from hermes.core.model import ToolSpec
from hermes.core.ports import Auxiliary, Clarifier
from hermes.core.tool import Effect, Tool, ToolContext
from hermes.security.paths import Guard
from hermes.terminal.base import Workplace
from hermes.terminal.output import OutputLimits
from hermes.terminal.processes import Processes
from hermes.tools.tool_search import tool_search_tool
from hermes.tools.toolsets import TOOLSETS, Known, Toolset, expand, is_rare
from hermes.util.threads import in_thread

if TYPE_CHECKING:
    from hermes.tools.builtin.todo import Todos
    from hermes.tools.editing.files import Reads


# What the tools of one session are made over.


class Bench(msgspec.Struct, frozen=True):
    settings: Settings
    place: Workplace
    guard: Guard
    processes: Processes
    reads: "Reads"
    todos: "Todos"
    variables: Callable[[str], str | None] = lambda _name: None
    """A variable of .env or of the process, by name: keys of services."""
    clarifier: Clarifier | None = None
    patience: float = 0.0
    """Seconds a question to them waits at least."""
    auxiliary: Auxiliary | None = None
    transform_output: Callable[[str], Awaitable[str]] | None = None
    """What plugins make of a command's output."""
    given: Mapping[str, Tool] = {}
    """Tools that were made for the session, by name."""
    others: tuple[ToolSpec, ...] = ()
    """The other tools of the session, for those whose schema names them."""

    @property
    def limits(self) -> OutputLimits:
        output = self.settings.tool_output
        return OutputLimits(output.max_bytes, output.max_lines, output.max_line_length)

    def keys(self, names: Mapping[str, str]) -> Mapping[str, str]:
        """Values of the variables in `names` (name by purpose) that are set when they are asked
        for."""
        return _Keys(self.variables, names)


class _Keys(Mapping[str, str]):
    def __init__(self, variables: Callable[[str], str | None], names: Mapping[str, str]) -> None:
        self._variables, self._names = variables, names

    def __getitem__(self, purpose: str) -> str:
        value = self._variables(self._names[purpose]) if purpose in self._names else None
        if not value:
            raise KeyError(purpose)
        return value

    def __iter__(self) -> Iterator[str]:
        return (purpose for purpose, name in self._names.items() if self._variables(name))

    def __len__(self) -> int:
        return len(list(iter(self)))


log = logging.getLogger(__name__)

BUILTIN = "hermes.tools.builtin"


def always_there(_bench: Bench) -> str:
    return ""


class ToolEntry(msgspec.Struct, frozen=True):
    """A tool that a session can have."""

    name: str
    toolset: str
    make: Callable[[Bench], Tool]
    missing: Callable[[Bench], str] = always_there
    """Why it cannot be used here and now; "" when it can. Shared by several tools, it runs once."""
    names_others: bool = False
    """Its schema names the other tools of the session (`Bench.others`), so it is made last."""
    requires_env: tuple[str, ...] = ()
    """Variables it needs, for displays."""
    emoji: str = ""


def given_tool(name: str, toolset: str, emoji: str = "") -> ToolEntry:
    """A tool that needs more than a bench and is made with the session (`Bench.given`)."""

    def make(bench: Bench) -> Tool:
        return bench.given[name]

    def missing(bench: Bench) -> str:
        return "" if name in bench.given else "it is switched off in the settings"

    return ToolEntry(name, toolset, make, missing, emoji=emoji)


Handler = Callable[..., Any]
Schema = dict[str, Any]


class ToolRegistry:
    """One entry a name. When two toolsets bring the same name, the later one wins."""

    def __init__(self) -> None:
        self._entries: dict[str, ToolEntry] = {}

    def add(self, entry: ToolEntry) -> None:
        other = self._entries.get(entry.name)
        if other is not None and other.toolset != entry.toolset:
            log.warning(
                "tool %s of %s replaces that of %s", entry.name, entry.toolset, other.toolset
            )
        self._entries[entry.name] = entry

    def remove(self, name: str) -> None:
        self._entries.pop(name, None)

    def register(
        self,
        name: str,
        toolset: str,
        schema: Schema,
        handler: Handler,
        check_fn: Callable[[], bool] | None = None,
        requires_env: Iterable[str] | None = None,
        is_async: bool = False,
        description: str = "",
        emoji: str = "",
        effect: Effect = Effect.EXECUTE,
    ) -> None:
        """A tool as plugins know it: `handler(args, **kwargs)` returns a JSON string.

        A handler that is not async runs in a thread of its own. What it may do is not known unless
        `effect` says so, and then it may do anything.
        """
        parameters = schema.get("parameters", schema if "properties" in schema else {})
        spec = ToolSpec(
            name,
            description or str(schema.get("description", "")),
            {"type": "object", "properties": {}, **parameters},
        )
        asynchronous = is_async or inspect.iscoroutinefunction(handler)

        async def run(context: ToolContext, arguments: dict[str, Any]) -> str:
            details = {"task_id": context.session_id}
            if asynchronous:
                try:
                    return as_text(await handler(arguments, **details))
                except SystemExit as error:
                    raise ToolError(f"the tool wanted to exit: {error}") from None
            return as_text(await in_thread(handler, arguments, **details))

        def make(_bench: Bench) -> Tool:
            return Tool(spec, run, effect=effect, toolset=toolset)

        def missing(_bench: Bench) -> str:
            return "" if check_fn is None or check_fn() else "its check says it cannot be used"

        variables = tuple(requires_env or ())
        self.add(ToolEntry(name, toolset, make, missing, False, variables, emoji))

    def joined_by(self, tools: Iterable[Tool]) -> "ToolRegistry":
        """A registry with these as well, where their names are free."""
        both = ToolRegistry()
        both._entries = dict(self._entries)
        for tool in tools:
            if tool.name in both._entries:
                log.warning("the tool %s of %s is there already", tool.name, tool.toolset)
                continue
            both.add(ToolEntry(tool.name, tool.toolset, partial(_made, tool)))
        return both

    def get(self, name: str) -> ToolEntry | None:
        return self._entries.get(name)

    def found(self, names: Iterable[str]) -> list[ToolEntry]:
        """The entries of `names`, as far as there are any."""
        return [self._entries[name] for name in names if name in self._entries]

    def lacking(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in self._entries]

    @property
    def entries(self) -> tuple[ToolEntry, ...]:
        """By name."""
        return tuple(self._entries[name] for name in sorted(self._entries))

    def found_toolsets(self) -> dict[str, Toolset]:
        """Toolsets that exist only because a tool belongs to them."""
        names = {e.toolset for e in self._entries.values() if e.toolset not in TOOLSETS}
        return {
            name: Toolset(
                f"brought by {name}", tuple(e.name for e in self.entries if e.toolset == name)
            )
            for name in sorted(names)
        }


def discover_builtin(registry: ToolRegistry) -> None:
    """Adds the `ENTRY` of every module in `hermes.tools.builtin`, in the order of their names.

    A name that is there already stays: a plugin has replaced the tool, or this was called before. A
    module that cannot be loaded, because a library is missing, is reported; the others go on.
    """
    for module in registry.lacking(_builtin_names()):
        try:
            registry.add(import_module(f"{BUILTIN}.{module}").ENTRY)
        except ImportError as error:
            log.warning("tool %s is not available: %s", module, error)


@cache
def _builtin_names() -> tuple[str, ...]:
    folder = import_module(BUILTIN).__path__
    return tuple(sorted(info.name for info in pkgutil.iter_modules(folder)))


def _made(tool: Tool, _bench: Bench) -> Tool:
    return tool


def as_text(result: Any) -> str:
    """What a tool of somebody else answered, for the model."""
    if isinstance(result, str):
        return result
    try:
        return msgspec.json.encode(result).decode()
    except TypeError as error:
        raise ToolError(f"the tool answered with something that is no text: {error}") from error


registry = ToolRegistry()
"""The one that plugins register with."""


# From the names of tools to the tools of a session.


class Assembled(msgspec.Struct, frozen=True):
    tools: tuple[Tool, ...]
    """Those whose schemas stand in every request, `tool_search` included when it is needed."""
    rare: tuple[Tool, ...]
    """Those that `tool_search` finds."""
    missing: dict[str, str]
    """Those that cannot be used here, and why."""


def assemble(names: Iterable[str], bench: Bench, registry: ToolRegistry, known: Known) -> Assembled:
    """The tools behind `names`, in that order, as far as they can be used."""
    reason_of = _once(bench)
    entries: list[ToolEntry] = []
    missing: dict[str, str] = {}
    for entry in registry.found(names):
        if reason := reason_of(entry):
            missing[entry.name] = reason
        else:
            entries.append(entry)
    made = {entry.name: entry.make(bench) for entry in entries if not entry.names_others}
    others = msgspec.structs.replace(bench, others=tuple(tool.spec for tool in made.values()))
    made |= {entry.name: entry.make(others) for entry in entries if entry.names_others}
    tools = [made[entry.name] for entry in entries]
    rare = _rare(tools, bench, known) if bench.settings.tools.search else []
    shown = tuple(tool for tool in tools if tool not in rare)
    if rare:
        shown += (tool_search_tool(rare),)
    return Assembled(shown, tuple(rare), missing)


def size(spec: ToolSpec) -> int:
    """Characters a tool adds to every request, in the form most endpoints take."""
    return len(msgspec.json.encode({"type": "function", "function": spec}).decode())


def _once(bench: Bench) -> Callable[[ToolEntry], str]:
    """Asks each check once, however many tools share it. A check that fails means no."""
    known: dict[int, str] = {}

    def reason(entry: ToolEntry) -> str:
        check = id(entry.missing)  # a plugin's need not be hashable
        if check not in known:
            try:
                known[check] = entry.missing(bench)
            except Exception as error:  # noqa: BLE001 - a plugin's check may do anything
                known[check] = f"its check failed: {type(error).__name__}: {error}"
        return known[check]

    return reason


def _rare(tools: Sequence[Tool], bench: Bench, known: Known) -> list[Tool]:
    """The seldom used ones, and what others brought beyond the size the settings allow."""
    settings = bench.settings.tools
    kept = set(expand(settings.always, known))
    rare = [
        tool for tool in tools if is_rare(tool.name, tool.toolset, known) and tool.name not in kept
    ]
    brought = [tool for tool in tools if tool.toolset not in TOOLSETS and tool.name not in kept]
    if not brought:
        return rare
    room = settings.max_chars - sum(
        size(tool.spec) for tool in tools if tool not in rare and tool.toolset in TOOLSETS
    )
    for tool in brought:
        room -= size(tool.spec)
        if room < 0:
            rare.append(tool)
    return rare
