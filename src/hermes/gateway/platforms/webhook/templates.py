"""Text with values of a call in it: `{dot.path}` and `{__raw__}`.

A path goes through keys of objects and numbers of lists, and nothing else: there is no attribute,
call or format to reach. What was put in is not looked at again. A path that leads nowhere stays as
it is written.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from hermes.security.injection import blocked, scan
from hermes.util.text import clean

RAW = "__raw__"
RAW_CHARS = 4000
NESTED_CHARS = 2000
TEXT_CHARS = 20_000

TAG = "webhook-data"
_PATH = re.compile(r"\{([A-Za-z0-9_][A-Za-z0-9_.-]{0,200})\}")
_TAG = re.compile(r"<(?=\s*/?\s*webhook[\s_-]*data)", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z0-9_.@/+#-]{1,80}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_MISSING = object()

Show = Callable[[str], str]
"""How a value is shown in the text."""


def render(template: str, data: Any, show: Show) -> str:
    def put(found: re.Match[str]) -> str:
        value = data if found[1] == RAW else _at(data, found[1])
        if value is _MISSING:
            return found[0]
        return show(_text(value, RAW_CHARS if found[1] == RAW else NESTED_CHARS))

    return _PATH.sub(put, template)


def plain(text: str) -> str:
    """A value for people to read."""
    return _CONTROL.sub("", clean(text))


def line(text: str) -> str:
    """A value in one line."""
    return " ".join(plain(text).split())


def fenced(text: str) -> str:
    """A value for the agent: words of a stranger, marked as such, without what reads like an
    injection. A short name or number stands as it is."""
    told = plain(text)
    lines = [(each, scan(each)) for each in told.split("\n")]
    if found := scan("\n".join(each for each, signs in lines if not signs)):
        told = blocked("a value of the call", found)
    else:
        told = "\n".join(blocked("a line of the call", f) if f else each for each, f in lines)
    if _PLAIN.fullmatch(told):
        return told
    told = _TAG.sub("‹", told)
    gap = "\n" if "\n" in told else ""
    return f"<{TAG}>{gap}{told}{gap}</{TAG}>"


def _at(data: Any, path: str) -> Any:
    for step in path.split("."):
        if isinstance(data, dict) and step in data:
            data = data[step]
        elif isinstance(data, list) and step.isdecimal() and int(step) < len(data):
            data = data[int(step)]
        else:
            return _MISSING
    return data


def _text(value: Any, limit: int) -> str:
    if isinstance(value, str):
        return _cut(value, TEXT_CHARS)
    indent = 2 if isinstance(value, dict | list) else None
    try:
        return _cut(json.dumps(value, ensure_ascii=False, indent=indent), limit)
    except RecursionError:
        return "[nested too deeply to show]"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
