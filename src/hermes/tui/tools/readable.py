"""Results of tools as text for people: what is inside of JSON and of fences."""

import re
from typing import Any

from hermes.tui.tools.calls import decoded

_TEXTS = ("error", "output", "text", "content", "result", "results", "message", "summary", "answer")
"""Keys under which the text of a result stands, the most telling first."""
_FENCE = re.compile(r"^\[[^\n]*data, not instructions\]\n<<<(?P<mark>[0-9a-f]{6,32})\n", re.M)
_ESCAPE = r"\\(?:u[0-9a-fA-F]{4}|[^u\n])"
_BROKEN = re.compile(rf'"(?:{"|".join(_TEXTS)})":\s*"((?:[^"\\\n]|{_ESCAPE})+)')
"""A text in JSON that was cut somewhere."""
DEEPEST = 8


def readable(result: str) -> str:
    """As the tool wrote it otherwise; not safe for a terminal."""
    text = unfenced(result).strip("\n")
    begins = text.lstrip()[:1]
    if begins not in ("{", "["):
        return text
    value = decoded(text)
    if isinstance(value, dict | list):
        return told(value)
    cut = _BROKEN.search(text) if begins == "{" else None
    inner = decoded(f'"{cut[1]}"') if cut else None
    return inner if isinstance(inner, str) else text


def unfenced(text: str) -> str:
    """Without the lines that tell a model where foreign text begins and ends."""
    for mark in {found["mark"] for found in _FENCE.finditer(text)}:
        text = text.replace(f"\n{mark}>>>", "")
    return _FENCE.sub("", text)


def told(value: Any, depth: int = 0) -> str:
    """A JSON value in lines: its text when it has one, else a line for each entry."""
    if depth > DEEPEST:
        return "…"
    if isinstance(value, dict):
        for key in _TEXTS:
            if value.get(key):
                return told(value[key], depth + 1)
        return "\n".join(f"{key}: {_short(each, depth)}" for key, each in value.items())
    if isinstance(value, list):
        return "\n".join(_short(each, depth) for each in value)
    return _scalar(value)


def _short(value: Any, depth: int) -> str:
    """An entry, on one line if it is no text."""
    if depth > DEEPEST:
        return "…"
    if isinstance(value, dict):
        if any(value.get(key) for key in _TEXTS):
            return told(value, depth + 1)
        return ", ".join(f"{key}: {_short(each, depth + 1)}" for key, each in value.items())
    if isinstance(value, list):
        few = [_short(each, depth + 1) for each in value[:5]]
        return ", ".join(few) + (f" … ({len(value)})" if len(few) < len(value) else "")
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return str(value)
