"""Turn plain data (YAML, variables, command line) into settings, leniently, noting every problem.

People write `"true"`, `"90"`, `mode: off` (which YAML reads as false), numbers for ids and `a,b`
for lists; all of these are taken for what they mean. What cannot be understood is an error; a key
nobody knows is a warning.
"""

import json
import math
from collections.abc import Callable, Mapping
from datetime import date
from importlib import import_module
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec

from hermes.config.keys import Parts, join_key
from hermes.config.schema import (
    bare,
    default_of,
    describe,
    fields_of,
    is_section,
    members,
    suggestion,
)
from hermes.config.settings.base import TimeZone

S = TypeVar("S", bound=msgspec.Struct)

_TRUE = {"true", "yes", "on", "1", "y"}
_FALSE = {"false", "no", "off", "0", "n"}
_WORDS = {False: ("off", "none", "false"), True: ("on", "all", "true")}
"""What a YAML true or false stands for where one of a few words is expected."""


class Mismatch(Exception):
    """A value that is not what the key takes."""

    def __init__(self, expected: str, found: Any) -> None:
        super().__init__(f"expected {expected}, found {show(found)}")


class Problem(msgspec.Struct, frozen=True):
    """Something wrong with the settings; `where` is the file and line or the variable."""

    parts: Parts
    message: str
    severity: Literal["error", "warning"] = "error"
    where: str = ""

    @property
    def key(self) -> str:
        return join_key(self.parts)


class Converter:
    """Converts one document; `problems` fills as it goes."""

    def __init__(self, known: frozenset[str] = frozenset()) -> None:
        self.problems: list[Problem] = []
        self.known = known
        """Top-level blocks that belong to plugins."""

    def section(self, kind: type[S], data: Any, path: Parts = ()) -> S:
        """`data` as a `kind`; what is wrong is noted and replaced by its default."""
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
        """`data` as a `kind`; raises Mismatch when it cannot be."""
        origin = get_origin(kind)
        if is_section(kind):
            return self.section(kind, data, path)
        if origin is Annotated:
            return _bounded(kind, data)
        if origin is Literal:
            return _word(kind, data)
        if origin is dict:
            return self._mapping(kind, data, path)
        if origin is tuple:
            return self._sequence(kind, data, path)
        if len(members(kind)) > 1:
            return self._union(kind, data, path)
        return _SCALARS[kind](data) if kind in _SCALARS else data

    def _try(self, kind: Any, data: Any, path: Parts) -> Any:
        """`value`, with a Mismatch noted and UNSET in its place."""
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
            # A name without anything below it takes all the defaults.
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
        """The member whose shape fits, else the first that can be made of it."""
        if data is None and NoneType in members(kind):
            return None
        choices = [member for member in members(kind) if member is not NoneType]
        if len(choices) == 1:
            return self.value(choices[0], data, path)
        fitting = [member for member in choices if _fits(member, data)]
        if fitting:
            return self.value(fitting[0], data, path)
        for member in choices:
            if member in _SCALARS and not isinstance(data, Mapping | list):
                return _SCALARS[member](data)
        raise Mismatch(describe(kind), data)

    def _unknown(self, path: Parts) -> None:
        """Names that begin with `_` are other programs' notes; plugins have blocks of their own."""
        if path[-1].startswith("_") or (len(path) == 1 and path[0] in self.known):
            return
        guess = suggestion(join_key(path))
        meant = f"; did you mean {guess}?" if guess else ""
        self.problems.append(Problem(path, f"unknown key, kept but not used{meant}", "warning"))


def show(value: Any) -> str:
    """A value in a message: as YAML or JSON would write it, not too long."""
    kinds = {dict: "a block of keys", list: "a list", NoneType: "nothing"}
    if type(value) in kinds:
        return kinds[type(value)]
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _unset(kind: Any, value: Any) -> bool:
    """`null` means the default, and so does `""` where text makes no sense."""
    if value != "":
        return value is None
    numbers_or_words = {int, float, bool, NoneType}
    options = {bare(member) for member in members(kind)}
    return options <= numbers_or_words or (get_origin(kind) is Literal and "" not in get_args(kind))


def _fits(kind: Any, data: Any) -> bool:
    if is_section(kind) or get_origin(kind) is dict:
        return isinstance(data, Mapping)
    if get_origin(kind) is tuple:
        return isinstance(data, list | tuple)
    if get_origin(kind) is Literal:
        return isinstance(data, bool)
    return kind is type(data)


def _from_json(data: Any, opening: str) -> Any:
    """Variables hold lists and blocks as JSON; other text stays as it is."""
    if isinstance(data, str) and data.strip().startswith(opening):
        try:
            return json.loads(data)
        except ValueError:
            return data
    return data


def _bounded(kind: Any, data: Any) -> Any:
    if kind is TimeZone:
        return _time_zone(_text(data))
    try:
        return msgspec.convert(_SCALARS[bare(kind)](data), kind)
    except (Mismatch, msgspec.ValidationError) as error:
        raise Mismatch(describe(kind), data) from error


def _time_zone(name: str) -> str:
    zones = import_module("zoneinfo")  # costs more than all other checks together
    try:
        if name:
            zones.ZoneInfo(name)
    except (zones.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Mismatch(describe(TimeZone), name) from error
    return name


def _word(kind: Any, data: Any) -> str:
    choices: tuple[str, ...] = get_args(kind)
    words = _WORDS[data] if isinstance(data, bool) else (str(data).strip(),)
    for word in words:
        for choice in choices:
            if word.lower() == choice.lower():
                return choice
    raise Mismatch(describe(kind), data)


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
    if isinstance(data, bool):
        return data
    word = str(data).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise Mismatch("true or false", data)


def _int(data: Any) -> int:
    if isinstance(data, bool) or not isinstance(data, int | float | str):
        raise Mismatch("a whole number", data)
    try:
        number = int(data)
    except (ValueError, OverflowError) as error:
        raise Mismatch("a whole number", data) from error
    if isinstance(data, float) and number != data:
        raise Mismatch("a whole number", data)
    return number


def _float(data: Any) -> float:
    if isinstance(data, bool) or not isinstance(data, int | float | str):
        raise Mismatch("a number", data)
    try:
        number = float(data)
    except (ValueError, OverflowError) as error:
        raise Mismatch("a number", data) from error
    if not math.isfinite(number):
        raise Mismatch("a number", data)
    return number


_SCALARS: dict[Any, Callable[[Any], Any]] = {str: _text, bool: _bool, int: _int, float: _float}
