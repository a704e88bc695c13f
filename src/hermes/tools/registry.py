"""Every tool there is: ours, found in `hermes.tools.builtin`, and those that plugins register."""

import inspect
import logging
import pkgutil
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib import import_module
from typing import Any

import msgspec

from hermes.core.errors import ToolError
from hermes.core.model import ToolSpec
from hermes.core.tool import Effect, Tool, ToolContext
from hermes.tools.bench import Bench
from hermes.tools.toolsets import TOOLSETS, Toolset
from hermes.util.threads import in_thread

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
