"""Writes docs/reference/tools.md from the tools themselves. `--check` only compares."""

import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from generated_page import row, write_or_check

from hermes.app.tools import find_toolsets, unbound_tool_deps
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.tool import Tool
from hermes.tools.toolsets import PRESETS, TOOLSETS, expand

HEAD = """\
# Tools

Written by `make docs` from the tools themselves; edit those instead. Each has a description and
parameters that the model sees, as they stand here. What a call may do (its effect) decides whether
you are asked first: [approvals](../guide/approvals.md). `hermes tools list` says
which of them are on and why one cannot be used; [tools](../guide/tools.md) is the guide. MCP
servers and plugins bring more.
"""

EFFECTS = {
    "read": "looks; of what is yours nothing changes",
    "write": "changes files",
    "execute": "runs programs",
    "network": "reaches other machines",
    "send": "sends something in your name",
    "spend": "costs money",
    "persist": "changes what later sessions do",
}


def reference() -> str:
    """Return the whole page."""
    tools = sorted(every_tool(), key=lambda tool: (tool.toolset, tool.name))
    parts = [HEAD, *toolset_table({tool.name for tool in tools})]
    for toolset, held in groupby(tools, key=lambda tool: tool.toolset):
        parts += ["", f"## {toolset}"]
        for tool in held:
            parts += section(tool)
    return "\n".join(parts) + "\n"


def every_tool() -> list[Tool]:
    """Return all tools, including those that cannot be used on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        here, home = Path(folder), Home(Path(folder, "home"))
        loaded = load(home, user_config=False)
        deps = unbound_tool_deps(loaded, home, here)
        entries = find_toolsets(loaded).registry.entries
        made = {entry.name: entry.make(deps) for entry in entries if not entry.needs_others}
        full = msgspec.structs.replace(deps, others=tuple(tool.spec for tool in made.values()))
        made |= {entry.name: entry.make(full) for entry in entries if entry.needs_others}
        toolsets = {entry.name: entry.toolset for entry in entries}
        return [
            msgspec.structs.replace(tool, toolset=toolsets[name]) for name, tool in made.items()
        ]


def toolset_table(there: set[str]) -> Iterator[str]:
    """Yield the rows of toolsets that have a tool, and of those that combine them."""
    known = {**TOOLSETS, **PRESETS}
    yield row("toolset", "tools", "for")
    yield row("---", "---", "---")
    for name, toolset in TOOLSETS.items():
        held = [f"`{tool}`" for tool in expand([name], known) if tool in there]
        if (toolset.includes and not toolset.tools) or there & set(toolset.tools):
            yield row(f"`{name}`", ", ".join(held), toolset.description)
    yield row("`all`", "all of them", "everything")


def section(tool: Tool) -> Iterator[str]:
    yield f"\n### `{tool.name}`\n"
    yield f"Effect: {tool.effect} ({EFFECTS[tool.effect]}).\n"
    yield "\n".join(f"> {line}".rstrip() for line in tool.spec.description.split("\n"))
    properties = tool.spec.parameters.get("properties", {})
    if not properties:
        return
    required = tool.spec.parameters.get("required", ())
    yield ""
    yield row("parameter", "type", "default", "meaning")
    yield row("---", "---", "---", "---")
    for name, schema in properties.items():
        yield row(f"`{name}`", kind(schema), usual(name in required, schema), meaning(schema))


def kind(schema: dict[str, Any]) -> str:
    """Return a JSON type in words."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(kind(option) for option in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


def usual(required: bool, schema: dict[str, Any]) -> str:
    if required:
        return "needed"
    return f"`{msgspec.json.encode(schema['default']).decode()}`" if "default" in schema else ""


def meaning(schema: dict[str, Any]) -> str:
    return " ".join(str(schema.get("description", "")).split())


if __name__ == "__main__":
    sys.exit(write_or_check("tools.md", reference))
