"""Skins: those that come with Hermes, and those of the user."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import msgspec
from msgspec import field

from hermes.core.errors import ConfigError, UsageError
from hermes.tui.text import DEFAULT_COLOURS, Depth, codes, one_line, safe, width

# What a skin is: colours, symbols and words of the terminal.


class Spinner(msgspec.Struct, frozen=True):
    """Shown while the agent works; a skin may leave any of it out."""

    waiting_faces: tuple[str, ...] = ("⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏")
    """Frames while the model is waited for."""
    thinking_faces: tuple[str, ...] = ()
    """Frames while it thinks; the others when there are none."""
    thinking_verbs: tuple[str, ...] = ("thinking",)
    """One of them for each turn."""
    wings: tuple[tuple[str, str], ...] = ()
    """What stands left and right of the verb, in turns."""


class Branding(msgspec.Struct, frozen=True):
    agent_name: str = "Hermes"
    welcome: str = ""
    """A line under the name at the start."""
    goodbye: str = ""
    """A line at the end."""
    response_label: str = ""
    """Stands before an answer."""
    prompt_symbol: str = "❯"
    help_header: str = ""
    """Stands above the list of commands."""


class Skin(msgspec.Struct, frozen=True):
    name: str = "default"
    description: str = ""
    colors: dict[str, str] = field(default_factory=dict)
    """By role; see `paint.DEFAULT_COLOURS`."""
    spinner: Spinner = Spinner()
    branding: Branding = Branding()
    tool_prefix: str = "●"
    """Stands before a tool call."""
    tool_emojis: dict[str, str] = field(default_factory=dict)
    """By tool, instead of the prefix."""


DEFAULT = Skin()


# Colours for every role from a few that go together.

GREY = "#808080"
"""Readable on black and on white."""


def palette(
    accent: str,
    second: str,
    *,
    code: str,
    link: str,
    ok: str,
    warn: str,
    error: str,
    dim: str = GREY,
) -> dict[str, str]:
    """`accent` is the colour of the skin, `second` goes with it."""
    return {
        "dim": dim,
        "accent": accent,
        "heading": f"bold {accent}",
        "code": code,
        "link": f"underline {link}",
        "quote": f"italic {dim}",
        "ok": ok,
        "warn": warn,
        "error": error,
        "added": ok,
        "removed": error,
        "prompt": f"bold {accent}",
        "reasoning": f"italic {dim}",
        "tool": second,
        "status": dim,
        "rule": dim,
        "banner": f"bold {accent}",
    }


# A skin from a file of the user's: every key is checked before anything of it is worn.

Parts = tuple[str, ...]
MOST_FRAMES = 100
WIDEST_FACE, WIDEST_WING, WIDEST_WORD, WIDEST_LINE, WIDEST_KEY = 16, 8, 32, 200, 100
"""Columns."""
WIDEST_SYMBOL = 2
ALIKE = 0.75
"""How like a known name a wrong one must be for a guess."""


class Document(Protocol):
    """A YAML file as data."""

    @property
    def data(self) -> dict[str, Any]: ...

    @property
    def duplicates(self) -> tuple[tuple[Parts, Any], ...]: ...

    def where(self, parts: Parts) -> str: ...


class Wrong(Exception):
    """A value cannot be used; the text says what it must be."""

    def __init__(self, parts: Parts, problem: str) -> None:
        super().__init__(problem)
        self.parts = parts


def skin_of(name: str, document: Document, base: Skin) -> Skin:
    """What the file does not say is as in `base`. Raises `ConfigError` with file and key."""
    try:
        for parts, _ in document.duplicates:
            raise Wrong(parts, "stands there twice")
        return _skin(name, document.data, base)
    except Wrong as wrong:
        key = one_line(".".join(wrong.parts), WIDEST_KEY)
        raise ConfigError(f"{key}: {wrong}", where=document.where(wrong.parts)) from None


def _skin(name: str, data: dict[str, Any], base: Skin) -> Skin:
    given = _values(data, _SKIN, ())
    _text(given.pop("name", name), ("name",))  # that of the file counts
    changed: dict[str, Any] = {"name": name, "description": ""}
    for key, value in given.items():
        before = getattr(base, key)
        if isinstance(before, msgspec.Struct):
            value = msgspec.structs.replace(before, **value)
        elif isinstance(before, dict) and value:  # an empty block leaves all of them out
            value = {**before, **value}
        changed[key] = value
    return msgspec.structs.replace(base, **changed)


Check = Callable[[Any, Parts], Any]


def _values(given: Any, known: Mapping[str, Check], parts: Parts) -> dict[str, Any]:
    """Each value as its check gives it back."""
    return {
        key: known[key](value, (*parts, key))
        for key, value in _block(given, parts).items()
        if _known(key, known, (*parts, key))
    }


def _block(given: Any, parts: Parts) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise Wrong(parts, "must be a block of `key: value` lines")
    for key in given:
        if not isinstance(key, str):
            raise Wrong((*parts, str(key)), "is no name; put it in quotes")
    return given


def _known(key: str, names: Iterable[str], parts: Parts) -> bool:
    every = list(names)
    if key in every:
        return True
    close = difflib.get_close_matches(key, every, 1, ALIKE)
    meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(every)}"
    raise Wrong(parts, f"is not known; {meant}")


def _text(value: Any, parts: Parts, widest: int = WIDEST_LINE) -> str:
    if not isinstance(value, str):
        raise Wrong(parts, "must be text; put it in quotes")
    if safe(value) != value or "\n" in value:
        raise Wrong(parts, "holds control characters")
    if width(value) > widest:
        raise Wrong(parts, f"is {width(value)} columns wide, at most {widest} fit")
    return value


def _symbol(value: Any, parts: Parts) -> str:
    text = _text(value, parts, WIDEST_SYMBOL)
    if not text.strip():
        raise Wrong(parts, "must be one or two columns wide")
    return text


def _look(value: Any, parts: Parts) -> str:
    try:
        codes(_text(value, parts), Depth.TRUE)
    except ValueError as error:
        raise Wrong(parts, str(error)) from None
    return str(value)


def _list(value: Any, parts: Parts, least: int) -> list[Any]:
    if not isinstance(value, list):
        raise Wrong(parts, "must be a list")
    if not least <= len(value) <= MOST_FRAMES:
        raise Wrong(parts, f"must have {least} to {MOST_FRAMES} entries")
    return value


def _texts(widest: int, least: int = 1) -> Check:
    def check(value: Any, parts: Parts) -> tuple[str, ...]:
        entries = enumerate(_list(value, parts, least))
        return tuple(_text(each, (*parts, str(at)), widest) for at, each in entries)

    return check


def _wings(value: Any, parts: Parts) -> tuple[tuple[str, str], ...]:
    pairs = []
    for at, pair in enumerate(_list(value, parts, 0)):
        place = (*parts, str(at))
        if not isinstance(pair, list) or len(pair) != 2:
            raise Wrong(place, 'must be a pair such as ["«", "»"]')
        left, right = (_text(each, place, WIDEST_WING) for each in pair)
        pairs.append((left, right))
    return tuple(pairs)


def _emojis(value: Any, parts: Parts) -> dict[str, str]:
    given = _block(value, parts)
    return {_text(name, parts): _symbol(each, (*parts, name)) for name, each in given.items()}


def _block_of(checks: Mapping[str, Check]) -> Check:
    return lambda value, parts: _values(value, checks, parts)


_SPINNER: Mapping[str, Check] = MappingProxyType(
    {
        "waiting_faces": _texts(WIDEST_FACE),
        "thinking_faces": _texts(WIDEST_FACE, least=0),
        "thinking_verbs": _texts(WIDEST_WORD),
        "wings": _wings,
    }
)
_BRANDING: Mapping[str, Check] = MappingProxyType(
    {**dict.fromkeys(Branding.__struct_fields__, _text), "prompt_symbol": _symbol}
)
_SKIN: Mapping[str, Check] = MappingProxyType(
    {
        "name": _text,
        "description": _text,
        "colors": _block_of(dict.fromkeys(DEFAULT_COLOURS, _look)),
        "spinner": _block_of(_SPINNER),
        "branding": _block_of(_BRANDING),
        "tool_prefix": _symbol,
        "tool_emojis": _emojis,
    }
)


# Finding a skin by its name.

BUILTIN: Mapping[str, str] = MappingProxyType(
    {
        name: f"hermes.tui.skins.builtin.{name.replace('-', '_')}"
        for name in (
            "default", "ares", "mono", "slate", "daylight", "warm-lightmode", "poseidon",
            "sisyphus", "charizard",
        )
    }
)  # fmt: skip
"""Names and the modules that hold them."""
LARGEST = 200_000
"""Bytes of a skin."""

_NAME = re.compile(r"[\w-]{1,64}")


def skin_names(folder: Path) -> list[str]:
    """Those that come with Hermes, then those in `folder`."""
    own = {path.stem for path in folder.glob("*.yaml") if _NAME.fullmatch(path.stem)}
    return [*BUILTIN, *sorted(own - BUILTIN.keys())]


def find_skin(name: str, folder: Path) -> Skin:
    """The skin of that name; one in `folder` counts before one that comes with Hermes. Raises
    `UsageError` when there is none, or when its file is wrong."""
    if _NAME.fullmatch(name) and (own := _read(folder / f"{name}.yaml")) is not None:
        return own
    if name in BUILTIN:
        return _builtin(name)
    raise UsageError(
        f"there is no skin {name!r}", hint=f"skins are {', '.join(skin_names(folder))}"
    )


def skin_or_default(name: str, folder: Path) -> tuple[Skin, str]:
    """The skin, or the default one and a line for the user that says why."""
    try:
        return find_skin(name, folder), ""
    except UsageError as error:
        return _builtin("default"), f"{error} ({error.hint}); the default skin is used"


def _builtin(name: str) -> Skin:
    skin: Skin = import_module(BUILTIN[name]).SKIN
    return skin


def _read(path: Path) -> Skin | None:
    """None when there is no such file."""
    hint = "docs/how-to/make-a-skin.md shows how a skin is written"
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path} is too large for a skin", hint=hint)
        document: Any = import_module("hermes.config.document")  # with YAML, which few skins need
        return skin_of(path.stem, document.read_document(path), _builtin("default"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    except ConfigError as error:
        raise UsageError(f"the skin {path.stem} cannot be worn: {error}", hint=hint) from error
