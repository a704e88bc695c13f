"""Questions about the tree of settings: what is at a key, which keys there are."""

import types
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from hermes.config.keys import Parts
from hermes.config.settings import Settings

PLACEHOLDER = "<name>"


class Place(NamedTuple):
    """A key that exists: its parts (a name with dots is one part) and its type."""

    parts: Parts
    type: Any


@cache
def fields_of(section: type[msgspec.Struct]) -> dict[str, FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(section)}


def is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def members(kind: Any) -> tuple[Any, ...]:
    """The types a union is made of; any other type is its own only member."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def bare(kind: Any) -> Any:
    """`kind` without constraints."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def default_of(field: FieldInfo) -> Any:
    """The field's default, or NODEFAULT when it must be given."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def locate(parts: Parts, kind: Any = Settings) -> Place | None:
    """The place `parts` name, or None when the settings have no such key."""
    if not parts:
        return Place((), kind)
    for member in members(kind):
        for size in range(1, len(parts) + 1):
            name = ".".join(parts[:size])
            inner = _inner(member, name)
            if inner is not None:
                rest = locate(parts[size:], inner)
                if rest is not None:
                    return Place((name, *rest.parts), rest.type)
    return None


def _inner(kind: Any, name: str) -> Any:
    """The type of what `name` holds inside `kind`, or None."""
    if is_section(kind):
        field = fields_of(kind).get(name)
        return field.type if field else None
    if kind is Any:
        return Any
    if get_origin(kind) is dict:
        return get_args(kind)[1]
    if get_origin(kind) is tuple and name.isdigit():
        return get_args(kind)[0]
    return None


def leaf_keys(section: type[msgspec.Struct] = Settings, prefix: str = "") -> Iterator[str]:
    """Every key that holds a value of its own, `<name>` standing for names of your choice."""
    for name, field in fields_of(section).items():
        yield from _leaves(field.type, f"{prefix}{name}")


def _leaves(kind: Any, key: str) -> Iterator[str]:
    for member in members(kind):
        if is_section(member):
            yield from leaf_keys(member, f"{key}.")
            return
        if get_origin(member) is dict and is_section(get_args(member)[1]):
            yield from leaf_keys(get_args(member)[1], f"{key}.{PLACEHOLDER}.")
            return
    yield key


def suggestion(key: str, wanted: str = "") -> str:
    """A key that looks like `key`, or nothing. `wanted` limits it to one section."""
    known = [leaf for leaf in leaf_keys() if leaf.startswith(wanted)]
    sections = {leaf.rpartition(".")[0] for leaf in known} - {""}
    close = get_close_matches(key, [*known, *sections], n=1, cutoff=0.75)
    if close:
        return close[0]
    last = key.rpartition(".")[2]
    same = [leaf for leaf in known if leaf.rpartition(".")[2] == last]
    return same[0] if len(same) == 1 else ""


def describe(kind: Any) -> str:
    """What a value of this type is, for a person."""
    names = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
    origin = get_origin(kind)
    if origin is Annotated:
        return _with_bounds(kind)
    if origin is Literal:
        return "one of " + ", ".join(str(choice) or '""' for choice in get_args(kind))
    if origin is tuple:
        return "a list"
    if origin is dict or is_section(kind):
        return "a block of keys"
    if len(members(kind)) > 1:
        kinds = [describe(member) for member in members(kind) if member is not types.NoneType]
        if str in members(kind):
            kinds = [name for name in kinds if not name.startswith("one of ")]
        return " or ".join(kinds)
    return names.get(kind, "any value")


def _with_bounds(kind: Any) -> str:
    base, meta = get_args(kind)[:2]
    if meta.title:
        return str(meta.title)
    low = "" if meta.ge is None else f" from {meta.ge}"
    high = "" if meta.le is None else f" to {meta.le}"
    return f"{describe(base)}{low}{high}"
