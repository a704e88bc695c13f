"""Skins: colours, symbols and words of the terminal interface; and how it is shown.

The built-in skins are in `skins.json`, those of the user are YAML files in a folder of the home.
Both have the same keys and pass the same checks.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import field

from hermes.config.settings import Details, DisplaySettings, ToolProgress
from hermes.core.errors import ConfigError, UsageError
from hermes.tui.text import (
    DEFAULT_COLOURS,
    Depth,
    Paint,
    Rgb,
    escape_codes,
    is_light,
    one_line,
    safe,
    width,
)

if TYPE_CHECKING:
    from hermes.config.document import YamlDocument

MAX_FILE_BYTES = 200_000
MAX_FRAMES = 100
MAX_FACE, MAX_WING, MAX_VERB, MAX_LINE, MAX_KEY, MAX_SYMBOL = 16, 8, 32, 200, 100, 2  #: In columns.

_NAME = re.compile(r"[\w-]{1,64}")

KeyPath = tuple[str, ...]
Check = Callable[[Any, KeyPath], Any]
"""Returns the value as the skin stores it. Raises `InvalidSkinValue`."""


class Spinner(msgspec.Struct, frozen=True):
    """The animation that is shown while the agent works."""

    waiting_faces: tuple[str, ...] = ("⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏")
    """Frames while the model has not answered yet."""
    thinking_faces: tuple[str, ...] = ()
    """Frames while the model thinks. If empty, `waiting_faces` are used."""
    thinking_verbs: tuple[str, ...] = ("thinking",)  #: Each turn uses one of them.
    wings: tuple[tuple[str, str], ...] = ()
    """Pairs shown alternately to the left and right of the verb."""


class Branding(msgspec.Struct, frozen=True):
    agent_name: str = "Hermes"
    welcome: str = ""  #: Line below the name at the start.
    goodbye: str = ""  #: Line printed at the end.
    response_label: str = ""  #: Line before each answer.
    prompt_symbol: str = "❯"
    help_header: str = ""  #: Title of the list of commands.


class Skin(msgspec.Struct, frozen=True):
    name: str = "default"
    description: str = ""
    colors: dict[str, str] = field(default_factory=dict)  #: By role; see `text.DEFAULT_COLOURS`.
    light_colors: dict[str, str] = field(default_factory=dict)
    """What differs on a light background. Colours that are not here are darkened if necessary."""
    spinner: Spinner = Spinner()
    branding: Branding = Branding()
    tool_prefix: str = "●"  #: Symbol before a tool call.
    tool_emojis: dict[str, str] = field(default_factory=dict)
    """By tool name, instead of the prefix."""


PLAIN_SKIN = Skin()  #: Has no colours. The built-in skins are based on it.
_ALIASES = {"slate": "default"}  #: Earlier names of built-in skins.


def skin_names(folder: Path) -> list[str]:
    """Return the names of the built-in skins, then of those in `folder`."""
    builtin = _builtin_tables()
    own = {path.stem for path in folder.glob("*.yaml") if _NAME.fullmatch(path.stem)}
    return [*builtin, *sorted(own - builtin.keys())]


def find_skin(name: str, folder: Path) -> Skin:
    """Return the skin with this name; one in `folder` takes precedence over a built-in one.

    Raises `UsageError` when there is none or when its file is invalid.
    """
    if _NAME.fullmatch(name) and (own := _read_user_skin(folder / f"{name}.yaml")) is not None:
        return own
    name = _ALIASES.get(name, name)
    if name in _builtin_tables():
        return _builtin_skin(name)
    raise UsageError(
        f"there is no skin {name!r}", hint=f"skins are {', '.join(skin_names(folder))}"
    )


def skin_or_default(name: str, folder: Path) -> tuple[Skin, str]:
    """Return the skin and "", or the default skin and a message that says why."""
    try:
        return find_skin(name, folder), ""
    except UsageError as error:
        return _builtin_skin("default"), f"{error} ({error.hint}); the default skin is used"


@cache
def _builtin_tables() -> dict[str, Any]:
    """Return the built-in skins, in the format of a skin file of the user."""
    data = Path(__file__).with_suffix(".json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, Any])


def _builtin_skin(name: str) -> Skin:
    return _skin_from(name, _builtin_tables()[name], PLAIN_SKIN)


def _read_user_skin(path: Path) -> Skin | None:
    """Return None when there is no such file."""
    hint = "docs/how-to/make-a-skin.md shows how a skin is written"
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{path} is too large for a skin", hint=hint)
        # Loads the YAML parser, which a built-in skin does not need.
        from hermes.config.document import read_document

        return _parse_user_skin(path.stem, read_document(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    except ConfigError as error:
        raise UsageError(f"the skin {path.stem} is invalid: {error}", hint=hint) from error


def _parse_user_skin(name: str, document: "YamlDocument") -> Skin:
    """Keys that the file does not have are taken from the default skin. Raises `ConfigError`."""
    try:
        for keys, _ in document.duplicates:
            raise InvalidSkinValue(keys, "is set twice")
        return _skin_from(name, document.data, _builtin_skin("default"))
    except InvalidSkinValue as error:
        key = one_line(".".join(error.keys), MAX_KEY)
        raise ConfigError(f"{key}: {error}", where=document.where(error.keys)) from None


class InvalidSkinValue(Exception):
    """A value cannot be used; the text says what it must be."""

    def __init__(self, keys: KeyPath, problem: str) -> None:
        super().__init__(problem)
        self.keys = keys


def _skin_from(name: str, data: dict[str, Any], base: Skin) -> Skin:
    """Return `base` with the checked values of `data`. Raises `InvalidSkinValue`."""
    values = _check_block(data, (), _SKIN_CHECKS)
    values.pop("name", None)  # it is checked, but the name of the file counts
    # A colour that the skin sets counts on every background.
    own = values.get("colors", {})
    light = {role: look for role, look in base.light_colors.items() if role not in own}
    base = msgspec.structs.replace(base, light_colors=light)
    changes: dict[str, Any] = {"name": name, "description": ""}
    for key, value in values.items():
        before = getattr(base, key)
        if isinstance(before, msgspec.Struct):
            value = msgspec.structs.replace(before, **value)
        elif isinstance(before, dict) and value:  # an empty block removes all entries of the base
            value = {**before, **value}
        changes[key] = value
    return msgspec.structs.replace(base, **changes)


def _check_block(value: Any, keys: KeyPath, checks: Mapping[str, Check]) -> dict[str, Any]:
    checked = {}
    for key, entry in _block(value, keys).items():
        if key not in checks:
            close = difflib.get_close_matches(key, checks, 1, 0.75)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(checks)}"
            raise InvalidSkinValue((*keys, key), f"is not known; {hint}")
        checked[key] = checks[key](entry, (*keys, key))
    return checked


def _block(value: Any, keys: KeyPath) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidSkinValue(keys, "must be a block of `key: value` lines")
    for key in value:
        if not isinstance(key, str):
            raise InvalidSkinValue((*keys, str(key)), "is not a name; put it in quotes")
    return value


def _text(value: Any, keys: KeyPath, max_columns: int = MAX_LINE) -> str:
    if not isinstance(value, str):
        raise InvalidSkinValue(keys, "must be text; put it in quotes")
    if safe(value) != value or "\n" in value:
        raise InvalidSkinValue(keys, "holds control characters")
    if width(value) > max_columns:
        problem = f"is {width(value)} columns wide, at most {max_columns} fit"
        raise InvalidSkinValue(keys, problem)
    return value


def _symbol(value: Any, keys: KeyPath) -> str:
    text = _text(value, keys, MAX_SYMBOL)
    if not text.strip():
        raise InvalidSkinValue(keys, "must be one or two columns wide")
    return text


def _colour(value: Any, keys: KeyPath) -> str:
    text = _text(value, keys)
    try:
        escape_codes(text, Depth.TRUE)
    except ValueError as error:
        raise InvalidSkinValue(keys, str(error)) from None
    return text


def _list(value: Any, keys: KeyPath, min_length: int) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidSkinValue(keys, "must be a list")
    if not min_length <= len(value) <= MAX_FRAMES:
        raise InvalidSkinValue(keys, f"must have {min_length} to {MAX_FRAMES} entries")
    return value


def _texts(
    value: Any, keys: KeyPath, max_columns: int = MAX_FACE, min_length: int = 1
) -> tuple[str, ...]:
    entries = enumerate(_list(value, keys, min_length))
    return tuple(_text(each, (*keys, str(index)), max_columns) for index, each in entries)


def _wings(value: Any, keys: KeyPath) -> tuple[tuple[str, str], ...]:
    pairs = []
    for index, pair in enumerate(_list(value, keys, 0)):
        pair_keys = (*keys, str(index))
        if not isinstance(pair, list) or len(pair) != 2:
            raise InvalidSkinValue(pair_keys, 'must be a pair such as ["«", "»"]')
        pairs.append((_text(pair[0], pair_keys, MAX_WING), _text(pair[1], pair_keys, MAX_WING)))
    return tuple(pairs)


def _emojis(value: Any, keys: KeyPath) -> dict[str, str]:
    entries = _block(value, keys).items()
    return {_text(name, keys): _symbol(emoji, (*keys, name)) for name, emoji in entries}


_SPINNER_CHECKS: Mapping[str, Check] = {
    "waiting_faces": _texts,
    "thinking_faces": partial(_texts, min_length=0),
    "thinking_verbs": partial(_texts, max_columns=MAX_VERB),
    "wings": _wings,
}
_SKIN_CHECKS: Mapping[str, Check] = {
    "name": _text,
    "description": _text,
    "colors": partial(_check_block, checks=dict.fromkeys(DEFAULT_COLOURS, _colour)),
    "light_colors": partial(_check_block, checks=dict.fromkeys(DEFAULT_COLOURS, _colour)),
    "spinner": partial(_check_block, checks=_SPINNER_CHECKS),
    "branding": partial(
        _check_block,
        checks={**dict.fromkeys(Branding.__struct_fields__, _text), "prompt_symbol": _symbol},
    ),
    "tool_prefix": _symbol,
    "tool_emojis": _emojis,
}


Level = Literal["full", "collapsed", "hidden"]
BusyMode = Literal["interrupt", "queue", "steer"]


BACKGROUNDS: Mapping[str, Rgb] = {"light": (238, 238, 238), "dark": (30, 30, 30)}
"""Backgrounds by the setting. What is readable there is readable on white or black too."""


class DisplayState:
    """How the conversation is shown. Commands change it; views read it at each use."""

    def __init__(self, settings: DisplaySettings, skin: Skin, depth: Depth) -> None:
        self._depth = depth
        self.background = BACKGROUNDS.get(settings.background)
        self.set_skin(skin)
        self.tool_progress: ToolProgress = settings.tool_progress
        self.preview = settings.tool_preview_length
        self.reasoning = settings.show_reasoning
        sections, default = settings.sections, settings.details_mode
        self.thinking = _level(sections.thinking or default)
        self.results = _level(sections.tools or default)
        self.activity = _level(sections.activity or default)
        self.streaming = settings.streaming
        self.cost = settings.show_cost
        self.compact = settings.compact
        self.bell = settings.bell_on_complete
        self.notify = settings.notify
        self.vim = settings.vim_mode
        self.status_bar = True
        self.busy: BusyMode = settings.busy_input_mode or "steer"

    def set_detail(self, level: Level) -> None:
        self.thinking = self.results = self.activity = level

    def set_skin(self, skin: Skin) -> None:
        """Switch to a skin. Raises `ValueError` for an invalid colour."""
        light = skin.light_colors if is_light(self.background) else {}
        self.paint = Paint({**skin.colors, **light}, self._depth, background=self.background)
        self.skin = skin

    def set_background(self, colour: Rgb) -> None:
        """Adapt the colours to the background of the terminal."""
        self.background = colour
        self.set_skin(self.skin)


def _level(details: Details) -> Level:
    return "full" if details == "expanded" else details
