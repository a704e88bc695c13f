"""Dotted keys such as `terminal.timeout`, and looking them up in settings and plain data.

A name that itself holds a dot may be quoted: `providers.openai.models."gpt-4.1".timeout_seconds`.
It is found without quotes too when it exists.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from hermes.core.errors import UsageError

Parts = tuple[str, ...]

MISSING: Final = msgspec.UNSET
"""What `find` answers when there is nothing."""

_PART = re.compile(r'"([^"]+)"|([^."\s]+)')


def split_key(key: str) -> Parts:
    parts: list[str] = []
    position = 0
    while match := _PART.match(key, position):
        parts.append(match[1] or match[2])
        position = match.end() + 1
        if match.end() == len(key):
            return tuple(parts)
        if key[match.end()] != ".":
            break
    raise UsageError(f"{key!r} is not a settings key", hint="write it like terminal.timeout")


def join_key(parts: Iterable[str]) -> str:
    return ".".join(f'"{part}"' if "." in part else part for part in parts)


def child(value: Any, name: str) -> Any:
    """What `name` holds inside `value`, or MISSING."""
    if isinstance(value, msgspec.Struct):
        return getattr(value, name) if name in value.__struct_fields__ else MISSING
    if isinstance(value, Mapping):
        if name in value:
            return value[name]
        # YAML reads a key such as a channel id as a number.
        return next((held for key, held in value.items() if str(key) == name), MISSING)
    if isinstance(value, Sequence) and not isinstance(value, str) and name.isdigit():
        return value[int(name)] if int(name) < len(value) else MISSING
    return MISSING


def find(value: Any, parts: Parts) -> Any:
    """What the key holds, or MISSING. Names with dots are tried after shorter ones."""
    if not parts:
        return value
    for size in range(1, len(parts) + 1):
        held = child(value, ".".join(parts[:size]))
        if held is not MISSING:
            found = find(held, parts[size:])
            if found is not MISSING:
                return found
    return MISSING


def nest(flat: Mapping[Parts, Any]) -> dict[str, Any]:
    """`{("a", "b"): 1}` as `{"a": {"b": 1}}`."""
    nested: dict[str, Any] = {}
    for parts, value in flat.items():
        inner = nested
        for part in parts[:-1]:
            inner = inner.setdefault(part, {})
        inner[parts[-1]] = value
    return nested


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Both, where `high` wins; `null` in `high` means that it does not say."""
    merged = dict(low)
    for key, value in high.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = merge(below, value)
        elif value is not None or below is None:
            merged[key] = value
    return merged
