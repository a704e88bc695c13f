"""Documented settings that no code reads yet: speech, browser, images, dashboard, platforms.

They are data in `reserved.txt`, so that a config.yaml that has them is checked and explained like
any other. A setting moves to a class of its own when its feature arrives.
"""

from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.config.settings.base import (
    PlatformConnectionSettings,
    Port,
    Positive,
    Seconds,
    Section,
)

_TYPES: dict[str, Any] = {
    "str": str,
    "bool": bool,
    "bool?": bool | None,
    "float": float,
    "float?": float | None,
    "positive": Positive,
    "seconds": Seconds,
    "port": Port,
    "dialog": Literal["must_respond", "auto_dismiss", "auto_accept"],
    "texts": tuple[str, ...],
    "values": tuple[Any, ...],
    "map": dict[str, Any],
}

MEANINGS: dict[str, dict[str, str]] = {}  #: The meaning of each key, by section.


def _define_sections() -> dict[str, type[Section]]:
    fields: dict[str, list[Any]] = {}
    table = Path(__file__).with_name("reserved.txt").read_text(encoding="utf-8")
    for line in table.splitlines()[1:]:  # the first line explains the columns
        section, key, kind, *rest = line.split(" ", 4)
        default, text = rest if rest else ("", "")
        fields.setdefault(section, []).append((key, kind, default))
        MEANINGS.setdefault(section, {})[key] = text
    made: dict[str, Any] = {}
    for name, rows in fields.items():  # a section stands below those it contains
        typed: list[tuple[str, Any, Any]] = []
        for key, kind, default in rows:
            if kind in made:
                typed.append((key, made[kind], made[kind]()))
                continue
            inner, value = made.get(kind.removesuffix("*")), msgspec.json.decode(default)
            known = _TYPES[kind] if inner is None else dict.__class_getitem__((str, inner))
            typed.append((key, known, tuple(value) if isinstance(value, list) else value))
        base = PlatformConnectionSettings if name.endswith("Platform") else Section
        made[name] = msgspec.defstruct(name, typed, bases=(base,), frozen=True, kw_only=True)
    return made


_SECTIONS = _define_sections()


def __getattr__(name: str) -> Any:
    if name not in _SECTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _SECTIONS[name]
