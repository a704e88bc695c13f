"""What a provider returns, read into plain data.

It may be anything, so it is read in the provider's own thread: whatever that raises is a failure of
the provider, and nothing of its making leaves the thread.
"""

import inspect
import json
import logging
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from hermes.memory.provider import Dict, Dicts
from hermes.util.text import clean

log = logging.getLogger(__name__)

MOST_TEXT = 100_000
"""Characters of a text for a prompt or a person."""
MOST_RESULT = 1_000_000
"""Characters of what a tool returns."""
MOST_TOOLS = 50
MOST_DESCRIPTION = 2_000
MOST_PARAMETERS = 20_000
"""Characters of a tool's parameters as JSON."""

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def read_answer(method: str, found: Any) -> Any:
    """What `method` returned, as its callers expect it. Raises `TypeError`."""
    if inspect.iscoroutine(found):
        found.close()
        raise TypeError(f"{method} is async; it must be an ordinary method")
    read = _READERS.get(method)
    if read is None:
        return None
    try:
        return read(found)
    except _WrongType as wrong:
        raise TypeError(f"{method} returned {type(found).__name__}, not {wrong}") from None


class _WrongType(Exception):
    """Its text is what was expected."""


def _text(found: Any) -> str:
    if found is None:
        return ""
    if not isinstance(found, str):
        raise _WrongType("text")
    return clean(found[:MOST_TEXT])


def _result(found: Any) -> str:
    if isinstance(found, str):
        return clean(found[:MOST_RESULT])
    try:
        text = json.dumps(msgspec.to_builtins(found))
    except (TypeError, ValueError) as error:
        raise _WrongType(f"text or what JSON can hold ({error})") from None
    return clean(text[:MOST_RESULT])


def _list(found: Any) -> list[Any]:
    if found is None:
        return []
    if not isinstance(found, list | tuple):
        raise _WrongType("a list")
    return list(found)


def _entries(found: Any) -> Dicts:
    return [
        {clean(str(key)): _plain(value) for key, value in each.items()}
        | {name: clean(str(each.get(name, ""))) for name in ("id", "text")}
        for each in _list(found)
        if isinstance(each, dict)
    ]


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float) else clean(str(value))


def _tools(found: Any) -> Dicts:
    """Tools a model can be given, each once; the wrapped form is understood too."""
    kept: dict[str, Dict] = {}
    for each in _list(found):
        inner = each.get("function", each) if isinstance(each, dict) else None
        tool = _tool(inner) if isinstance(inner, dict) else None
        if tool is None or tool["name"] in kept or len(kept) == MOST_TOOLS:
            named = tool["name"] if tool else "one that no endpoint would take"
            log.warning("a tool of the memory provider is left out: %s", named)
        else:
            kept[tool["name"]] = tool
    return list(kept.values())


def _tool(said: Dict) -> Dict | None:
    """None when an endpoint would refuse it, and the whole request with it."""
    name, parameters = said.get("name"), said.get("parameters") or {}
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        return None
    try:
        written = json.dumps(parameters)
    except (TypeError, ValueError, RecursionError):
        return None
    schema = json.loads(written) if len(written) <= MOST_PARAMETERS else None
    if not isinstance(schema, dict) or schema.setdefault("type", "object") != "object":
        return None
    if not isinstance(schema.get("properties", {}), dict):
        return None
    description = str(said.get("description") or "")[:MOST_DESCRIPTION]
    return {"name": name, "description": description, "parameters": schema}


_READERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "is_available": bool,
        "get_tool_schemas": _tools,
        "handle_tool_call": _result,
        "system_prompt_block": _text,
        "prefetch": _text,
        "summary": _text,
        "entries": _entries,
        "edit": bool,
        "forget": bool,
    }
)
