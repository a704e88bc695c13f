"""The tool `tool_search`: find and run tools whose schemas are not in every request."""

import difflib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from hermes.core.errors import ToolArgumentsInvalid
from hermes.core.model import ToolSpec
from hermes.core.tool import Tool, ToolContext, no_concern

MAX_SHOWN = 8  #: Tools in one answer.
MAX_NAMES = 20  #: Names shown when no tool matches; an MCP server may have a thousand.

_WORD = re.compile(r"[a-z0-9]+")


def tool_search_tool(rare: Sequence[Tool]) -> Tool:
    """Make the tool for `rare`. The request stays the same, so prompt caches stay valid."""
    by_name = {tool.name: tool for tool in rare}

    async def tool_search(
        call: ToolContext, query: str = "", name: str = "", arguments: dict[str, Any] | None = None
    ) -> str:
        """Find and run further tools: search first, then call again with a name.

        query: what you want to do; answers with matching tools and their parameters
        name: run this tool
        arguments: its arguments
        """
        if name:
            return await call.invoke(name, arguments or {})
        if not query.strip():
            raise ToolArgumentsInvalid("give a query, or the name of a tool to run")
        found = _matches(query, rare)
        if not found:
            return f"no tool fits; {_nearest_names(query, sorted(by_name))}"
        return "\n".join(_describe(tool.spec) for tool in found)

    tool = Tool.from_function(tool_search, toolset="tool_search", examine=no_concern)
    groups = ", ".join(dict.fromkeys(each.toolset for each in rare))
    text = f"{tool.spec.description}\nThey are for: {groups}"
    return msgspec.structs.replace(tool, spec=msgspec.structs.replace(tool.spec, description=text))


def _matches(query: str, tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools that share words with the query, best first; the name counts most."""
    wanted = set(_WORD.findall(query.lower()))
    scored = [(_score(wanted, tool), tool) for tool in tools]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: (-pair[0], pair[1].name))
    return [tool for _, tool in best[:MAX_SHOWN]]


def _nearest_names(query: str, names: Sequence[str]) -> str:
    if len(names) <= MAX_NAMES:
        return f"there are: {', '.join(names)}"
    nearest = difflib.get_close_matches(query.lower(), names, n=MAX_NAMES, cutoff=0)
    return f"of {len(names):,} the nearest by name are: {', '.join(nearest)}"


def _score(wanted: set[str], tool: Tool) -> int:
    name = set(_WORD.findall(tool.name.lower())) | set(_WORD.findall(tool.toolset.lower()))
    text = set(_WORD.findall(tool.spec.description.lower()))
    return sum(_has_word(word, name) * 3 + _has_word(word, text) for word in wanted)


def _has_word(word: str, words: set[str]) -> bool:
    """True when `words` has the word, or a longer or shorter form of it."""
    if word in words:
        return True
    return len(word) > 3 and any(
        each.startswith(word) or (len(each) > 3 and word.startswith(each)) for each in words
    )


def _describe(spec: ToolSpec) -> str:
    parameters = msgspec.json.encode(spec.parameters.get("properties", {})).decode()
    required = spec.parameters.get("required")
    needs = f" required: {', '.join(required)}" if required else ""
    return f"{spec.name}: {spec.description}\n  parameters: {parameters}{needs}"
