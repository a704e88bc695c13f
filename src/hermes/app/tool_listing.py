"""The tools of a platform as a table, and what they cost in every request."""

from pathlib import Path

import msgspec

from hermes.app.mcp import known_tools
from hermes.app.prompting import preview_prompt
from hermes.app.request import SessionRequest
from hermes.app.tools import find_toolsets, unbound_services, unbound_tool_deps
from hermes.app.workspace import make_workspace
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.model import ToolSpec
from hermes.tools import ToolDeps, ToolEntry, schema_chars

CHARS_PER_TOKEN = 4


class ToolRow(msgspec.Struct, frozen=True):
    name: str
    toolset: str
    purpose: str  #: What the toolset is for.
    on: bool
    missing: str  #: Why it cannot be used; "" when it can.
    rare: bool  #: Not in the request, but found by tool_search.
    description: str
    chars: int


class Paid(msgspec.Struct, frozen=True):
    name: str
    chars: int
    spec: ToolSpec


class RequestSize(msgspec.Struct, frozen=True):
    """What stands in every request beside the conversation."""

    tools: tuple[Paid, ...]
    system_prompt: int
    total: int
    tokens: int  #: About.


def tool_rows(loaded: Loaded, home: Home, platform: str) -> list[ToolRow]:
    """Every tool there is, by toolset; those of MCP servers as far as they are known."""
    found = find_toolsets(loaded, known_tools(home, loaded))
    bench = _bench(loaded, home, platform)
    mine = found.make(found.names(platform), bench)
    every = found.make(found.names(platform, ("all",)), bench)
    specs = {tool.name: tool.spec for tool in (*every.tools, *every.rare)}
    on = {tool.name for tool in (*mine.tools, *mine.rare)} | set(mine.unavailable)
    rare = {tool.name for tool in mine.rare}

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
    """Toolsets of MCP servers whose tools are not known yet, and whether they are on."""
    found = find_toolsets(loaded, known_tools(home, loaded))
    usual = found.usual(platform)
    return {
        name: name in usual and f"-{name}" not in usual
        for name, each in sorted(found.brought.items())
        if not each.tools
    }


def request_size(loaded: Loaded, home: Home, platform: str) -> RequestSize:
    found = find_toolsets(loaded, known_tools(home, loaded))
    bench = _bench(loaded, home, platform)
    tools = tuple(
        Paid(tool.name, schema_chars(tool.spec), tool.spec)
        for tool in found.make(found.names(platform), bench).tools
    )
    prompt = len(preview_prompt(loaded, home, Path.cwd(), platform).prompt.text)
    total = sum(tool.chars for tool in tools) + prompt
    return RequestSize(tools, prompt, total, total // CHARS_PER_TOKEN)


def _bench(loaded: Loaded, home: Home, platform: str) -> ToolDeps:
    folder = Path.cwd()
    place = make_workspace(loaded, home, folder, lambda _text: None)
    services = unbound_services(loaded, home, place, SessionRequest(folder, source=platform))
    return unbound_tool_deps(loaded, home, folder, services)
