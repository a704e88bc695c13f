"""The meaning of each setting, read from the source of the settings classes."""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
from typing import Any, NamedTuple, get_args, get_origin

import msgspec

from hermes.config.environment import Parts
from hermes.config.schema import (
    PLACEHOLDER,
    complete_settings,
    default_of,
    describe,
    fields_of,
    is_section,
    locate,
    members,
)
from hermes.config.settings.reserved import MEANINGS


class Entry(NamedTuple):
    """One key of the reference."""

    key: str
    type: str
    default: str
    meaning: str


def meaning(parts: Parts) -> str:
    """Return the meaning of the key, or "" for a block or an unknown key."""
    place = locate(parts)
    if place is None or not parts:
        return ""
    for size in range(len(place.parts), 0, -1):
        holder = locate(place.parts[: size - 1])
        for kind in members(holder.type) if holder else ():
            if is_section(kind):
                return meanings(kind).get(place.parts[size - 1], "")
    return ""


def entries(section: type[msgspec.Struct] | None = None, prefix: str = "") -> Iterator[Entry]:
    """Yield every key below `section`, in the order of the fields."""
    section = section or complete_settings()
    for name, field in fields_of(section).items():
        key = f"{prefix}{name}"
        if is_section(field.type):
            yield from entries(field.type, f"{key}.")
            continue
        default = default_of(field)
        shown = "unset" if default is None else "required"
        if default is not None and default is not msgspec.NODEFAULT:
            shown = msgspec.json.encode(default).decode()
        yield Entry(key, describe(field.type), shown, meanings(section).get(name, ""))
        for kind in members(field.type):
            yield from _inside(kind, key)


def _inside(kind: Any, key: str) -> Iterator[Entry]:
    """Yield the keys of the blocks inside a mapping or a list."""
    if get_origin(kind) in (dict, tuple):
        inner = get_args(kind)[1 if get_origin(kind) is dict else 0]
        step = f".{PLACEHOLDER}" if get_origin(kind) is dict else "[]"
        for member in members(inner):
            if is_section(member):
                yield from entries(member, f"{key}{step}.")
            elif get_origin(member) is tuple:
                yield from _inside(member, f"{key}{step}")


def meanings(section: type[msgspec.Struct]) -> dict[str, str]:
    """Return the meanings of the fields of `section` and of its base sections."""
    found: dict[str, str] = {}
    for base in reversed(section.__mro__):
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            found |= MEANINGS.get(base.__name__) or _texts(base.__module__).get(base.__name__, {})
    return found


@cache
def _texts(module: str) -> dict[str, dict[str, str]]:
    """Return the meanings of all classes of a module: a comment `#:` after a field, or a string
    below it."""
    source = inspect.getsource(sys.modules[module])
    lines, found = source.splitlines(), dict[str, dict[str, str]]()
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef):
            continue
        texts = found[node.name] = dict[str, str]()
        for field, under in zip_longest(node.body, node.body[1:]):
            match field, under:
                case ast.AnnAssign(target=ast.Name(id=name), end_lineno=int(line)), _ if (
                    text := lines[line - 1].partition("  #: ")[2]
                ):
                    texts[name] = text
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    texts[name] = text
    return found
