"""From the names of tools to the tools of a session."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from hermes.core.model import ToolSpec
from hermes.core.tool import Tool
from hermes.tools.bench import Bench
from hermes.tools.registry import ToolEntry, ToolRegistry
from hermes.tools.tool_search import tool_search_tool
from hermes.tools.toolsets import TOOLSETS, Known, expand, is_rare


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
