"""Dotted keys such as `terminal.timeout`, their types, and conversion of plain data to settings.

A name that contains a dot may be quoted: `providers.openai.models."gpt-4.1".timeout_seconds`. It is
also found without quotes if it exists.
"""

import json
import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import cache, partial
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

import msgspec
from msgspec.structs import FieldInfo

from hermes.config.environment import Parts
from hermes.config.settings import Settings
from hermes.config.settings.base import PlatformConnectionSettings, Section, TimeZone
from hermes.config.settings.platforms import PlatformsSettings
from hermes.core.errors import UsageError
from hermes.util.lazy import bundled_manifest, bundled_names, late_pattern

if TYPE_CHECKING:
    from hermes.config.loader import Variable

S = TypeVar("S", bound=msgspec.Struct)


class PlatformDeclaration(Protocol):
    """The part of a manifest that is about settings."""

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> type[Section] | None: ...
    @property
    def connection(self) -> type[PlatformConnectionSettings]: ...
    @property
    def variables(self) -> "tuple[Variable, ...]": ...


def bundled_platforms() -> tuple[str, ...]:
    """Return the names of the bundled platforms, without importing them."""
    return bundled_names("platforms")


def platform_names() -> tuple[str, ...]:
    """Return the names of the bundled platforms and of those that the settings have."""
    return (*bundled_platforms(), *PlatformsSettings.__struct_fields__)


@cache
def declarations() -> tuple[PlatformDeclaration, ...]:
    return tuple(bundled_manifest("platforms", name) for name in bundled_platforms())


@cache
def complete_settings() -> type[Settings]:
    """Return `Settings` with the sections of the bundled platforms."""
    connections = {each.name: each.connection for each in declarations()}
    platforms = _extend(PlatformsSettings, connections)
    own = {each.name: each.settings for each in declarations() if each.settings is not None}
    return _extend(Settings, {"platforms": platforms, **own})


def _extend(base: type[S], sections: Mapping[str, type[Section]]) -> type[S]:
    fields = [(name, kind, kind()) for name, kind in sections.items()]
    made: Any = msgspec.defstruct(
        base.__name__, fields, bases=(base,), module=base.__module__, frozen=True, kw_only=True
    )
    return cast("type[S]", made)


MISSING: Final = msgspec.UNSET  #: What `find` answers when there is nothing.

_PART = late_pattern(r'"([^"]+)"|([^."\s]+)')


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
    """Return the value of `name` inside `value`, or MISSING."""
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
    """Return the value of the key, or MISSING. Names with dots are tried after shorter ones."""
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
    """Return `{("a", "b"): 1}` as `{"a": {"b": 1}}`."""
    nested: dict[str, Any] = {}
    for parts, value in flat.items():
        inner = nested
        for part in parts[:-1]:
            inner = inner.setdefault(part, {})
        inner[parts[-1]] = value
    return nested


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Merge both; `high` takes precedence, and `null` in `high` counts as not set."""
    merged = dict(low)
    for key, value in high.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = merge(below, value)
        elif value is not None or below is None:
            merged[key] = value
    return merged


# Queries of the settings tree: the type of a key, the existing keys.

PLACEHOLDER = "<name>"


class SettingLocation(NamedTuple):
    """An existing key: its parts (a name with dots is one part) and its type."""

    parts: Parts
    type: Any


@cache
def fields_of(section: type[msgspec.Struct]) -> dict[str, FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(section)}


def is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def members(kind: Any) -> tuple[Any, ...]:
    """Return the member types of a union; of any other type, the type itself."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def bare(kind: Any) -> Any:
    """Return `kind` without constraints."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def default_of(field: FieldInfo) -> Any:
    """Return the field's default, or NODEFAULT if it is required."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def locate(parts: Parts, kind: Any = None) -> SettingLocation | None:
    """Return the location of `parts`, or None if the settings have no such key."""
    kind = complete_settings() if kind is None else kind
    if not parts:
        return SettingLocation((), kind)
    for member in members(kind):
        for size in range(1, len(parts) + 1):
            name = ".".join(parts[:size])
            inner = _inner(member, name)
            if inner is not None:
                rest = locate(parts[size:], inner)
                if rest is not None:
                    return SettingLocation((name, *rest.parts), rest.type)
    return None


def _inner(kind: Any, name: str) -> Any:
    """Return the type of `name` inside `kind`, or None."""
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


def leaf_keys(section: type[msgspec.Struct] | None = None, prefix: str = "") -> Iterator[str]:
    """Yield every key that holds a value; `<name>` stands for a name of your choice."""
    for name, field in fields_of(section or complete_settings()).items():
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
    """Return a key similar to `key`, or "". `wanted` limits the search to one section."""
    known = [leaf for leaf in leaf_keys() if leaf.startswith(wanted)]
    sections = {leaf.rpartition(".")[0] for leaf in known} - {""}
    from difflib import get_close_matches  # only for an unknown key

    close = get_close_matches(key, [*known, *sections], n=1, cutoff=0.75)
    if close:
        return close[0]
    last = key.rpartition(".")[2]
    same = [leaf for leaf in known if leaf.rpartition(".")[2] == last]
    return same[0] if len(same) == 1 else ""


def choices(kind: Any) -> tuple[str, ...]:
    """Return the words that are allowed, in a `Literal` or from the function in `Meta.extra`."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    extra = get_args(kind)[1].extra if get_origin(kind) is Annotated else None
    words: tuple[str, ...] = extra["choices"]() if extra else ()
    return words


def describe(kind: Any) -> str:
    """Describe the values of this type."""
    names = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
    origin = get_origin(kind)
    if words := choices(kind):
        return "one of " + ", ".join(str(word) or '""' for word in words)
    if origin is Annotated:
        base, meta = get_args(kind)[:2]
        low = "" if meta.ge is None else f" from {meta.ge}"
        high = "" if meta.le is None else f" to {meta.le}"
        return str(meta.title or f"{describe(base)}{low}{high}")
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


# Conversion of plain data (YAML, variables, command line) to settings, collecting all problems.
#
# Users write `"true"`, `"90"`, `mode: off` (which YAML reads as false), numbers for ids and `a,b`
# for lists; all of these are accepted. A value of the wrong type is an error, an unknown key a
# warning.


_TRUE = {"true", "yes", "on", "1", "y"}
_FALSE = {"false", "no", "off", "0", "n"}
_WORDS = {False: ("off", "none", "false"), True: ("on", "all", "true")}
"""The words that a YAML boolean stands for where an enumerated word is expected."""


class Mismatch(Exception):
    """A value of the wrong type."""

    def __init__(self, expected: str, found: Any) -> None:
        super().__init__(f"expected {expected}, found {show(found)}")


class Problem(msgspec.Struct, frozen=True):
    """A problem with the settings; `where` is the file and line, or the variable."""

    parts: Parts
    message: str
    severity: Literal["error", "warning"] = "error"
    where: str = ""

    @property
    def key(self) -> str:
        return join_key(self.parts)


class Converter:
    """Converts one document and collects the `problems`."""

    def __init__(self, known: frozenset[str] = frozenset()) -> None:
        self.problems: list[Problem] = []
        self.known = known  #: Names of plugins: their blocks, and what they add.

    def section(self, kind: type[S], data: Any, path: Parts = ()) -> S:
        """Convert `data` to a `kind`; invalid parts are reported and replaced by their defaults."""
        if not isinstance(data, Mapping):
            raise Mismatch("a block of keys", data)
        fields = fields_of(kind)
        given: dict[str, Any] = {}
        for key, value in data.items():
            name = str(key)
            if name not in fields:
                self._unknown((*path, name))
            elif not _unset(fields[name].type, value):
                held = self._try(fields[name].type, value, (*path, name))
                if held is not msgspec.UNSET:
                    given[name] = held
        for name, field in fields.items():
            if name not in given and default_of(field) is msgspec.NODEFAULT:
                self.problems.append(Problem((*path, name), "is missing"))
                given[name] = ""
        return kind(**given)

    def value(self, kind: Any, data: Any, path: Parts = ()) -> Any:
        """Convert `data` to a `kind`. Raises Mismatch."""
        origin = get_origin(kind)
        if is_section(kind):
            return self.section(kind, data, path)
        if words := choices(kind):
            meant = _WORDS[data] if isinstance(data, bool) else (str(data).strip(),)
            for word in meant:
                for choice in words if origin is Literal else (*words, *self.known):
                    if word.lower() == choice.lower():
                        return choice
            raise Mismatch(describe(kind), data)
        if origin is Annotated:
            return _bounded(kind, data)
        if origin is dict:
            return self._mapping(kind, data, path)
        if origin is tuple:
            return self._sequence(kind, data, path)
        if len(members(kind)) > 1:
            return self._union(kind, data, path)
        return _SCALARS[kind](data) if kind in _SCALARS else data

    def _try(self, kind: Any, data: Any, path: Parts) -> Any:
        """Return the converted value, or UNSET after recording a Mismatch."""
        try:
            return self.value(kind, data, path)
        except Mismatch as mismatch:
            self.problems.append(Problem(path, str(mismatch)))
            return msgspec.UNSET

    def _mapping(self, kind: Any, data: Any, path: Parts) -> dict[str, Any]:
        data = _from_json(data, "{")
        if not isinstance(data, Mapping):
            raise Mismatch(describe(kind), data)
        inner = get_args(kind)[1]
        if is_section(inner):
            # A name without content has all defaults.
            data = {key: {} if value is None else value for key, value in data.items()}
        held = {str(key): self._try(inner, data[key], (*path, str(key))) for key in data}
        return {key: value for key, value in held.items() if value is not msgspec.UNSET}

    def _sequence(self, kind: Any, data: Any, path: Parts) -> tuple[Any, ...]:
        data = _from_json(data, "[")
        inner = get_args(kind)[0]
        if isinstance(data, str):
            data = [part.strip() for part in data.split(",") if part.strip()]
        elif inner is str and isinstance(data, int) and not isinstance(data, bool):
            data = [data]
        if not isinstance(data, list | tuple):
            raise Mismatch(describe(kind), data)
        held = [self._try(inner, item, (*path, str(at))) for at, item in enumerate(data)]
        return tuple(item for item in held if item is not msgspec.UNSET)

    def _union(self, kind: Any, data: Any, path: Parts) -> Any:
        """Convert to the member whose shape fits, else to the first possible one."""
        if data is None and NoneType in members(kind):
            return None
        kinds = [member for member in members(kind) if member is not NoneType]
        if len(kinds) == 1:
            return self.value(kinds[0], data, path)
        fitting = [member for member in kinds if _fits(member, data)]
        if fitting:
            return self.value(fitting[0], data, path)
        for member in kinds:
            if member in _SCALARS and not isinstance(data, Mapping | list):
                return _SCALARS[member](data)
        raise Mismatch(describe(kind), data)

    def _unknown(self, path: Parts) -> None:
        """Names that begin with `_` are notes of other programs; plugins have their own blocks."""
        of_plugin = path[-1] in self.known and path[:-1] in ((), ("platforms",))
        if path[-1].startswith("_") or of_plugin:
            return
        guess = suggestion(join_key(path))
        meant = f"; did you mean {guess}?" if guess else ""
        self.problems.append(Problem(path, f"unknown key, kept but not used{meant}", "warning"))


def show(value: Any) -> str:
    """Return a value for a message, as YAML or JSON would write it, shortened."""
    kinds = {dict: "a block of keys", list: "a list", NoneType: "nothing"}
    if type(value) in kinds:
        return kinds[type(value)]
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _unset(kind: Any, value: Any) -> bool:
    """Return whether the value means the default: `null`, or `""` where text is not allowed."""
    if value != "":
        return value is None
    numbers_or_words = {int, float, bool, NoneType}
    options = {bare(member) for member in members(kind)}
    return options <= numbers_or_words or "" not in (choices(kind) or ("",))


def _fits(kind: Any, data: Any) -> bool:
    if is_section(kind) or get_origin(kind) is dict:
        return isinstance(data, Mapping)
    if get_origin(kind) is tuple:
        return isinstance(data, list | tuple)
    if get_origin(kind) is Literal:
        return isinstance(data, bool)
    return kind is type(data)


def _from_json(data: Any, opening: str) -> Any:
    """Decode the JSON with which variables hold lists and blocks; keep other text."""
    if isinstance(data, str) and data.strip().startswith(opening):
        with suppress(ValueError):
            return json.loads(data)
    return data


def _bounded(kind: Any, data: Any) -> Any:
    if kind is TimeZone:
        return _time_zone(_text(data))
    try:
        return msgspec.convert(_SCALARS[bare(kind)](data), kind)
    except (Mismatch, msgspec.ValidationError) as error:
        raise Mismatch(describe(kind), data) from error


def _time_zone(name: str) -> str:
    # Costs more than all other checks together.
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        if name:
            ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Mismatch(describe(TimeZone), name) from error
    return name


def _text(data: Any) -> str:
    if isinstance(data, str):
        return data
    if isinstance(data, bool):
        raise Mismatch("text (put it in quotes)", data)
    if isinstance(data, int | float):
        return str(data)
    if isinstance(data, date):
        return data.isoformat()
    raise Mismatch("text", data)


def _bool(data: Any) -> bool:
    word = str(data).strip().lower()
    if word not in _TRUE | _FALSE:
        raise Mismatch("true or false", data)
    return word in _TRUE


def _number(kind: type[int] | type[float], data: Any) -> float:
    try:
        number = kind(data) if isinstance(data, int | float | str) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    cut = isinstance(data, float) and number != data
    infinite = isinstance(number, float) and not math.isfinite(number)
    if isinstance(data, bool) or cut or infinite:
        raise Mismatch(describe(kind), data)
    return number


_SCALARS: dict[Any, Callable[[Any], Any]] = {
    str: _text,
    bool: _bool,
    int: partial(_number, int),
    float: partial(_number, float),
}
