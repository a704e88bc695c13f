"""Colours of a skin, as escape sequences for the terminal at hand."""

from collections.abc import Callable, Mapping
from enum import IntEnum

from hermes.config.environment import no_color, variable


class Depth(IntEnum):
    """How many colours a terminal shows."""

    NONE = 0
    NAMED = 16
    INDEXED = 256
    TRUE = 1 << 24


def terminal_depth() -> Depth:
    """That of the terminal of this process, as far as its variables tell."""
    term = variable("TERM") or ""
    if no_color() or not term:
        return Depth.NONE
    if (variable("COLORTERM") or "").lower() in ("truecolor", "24bit") or "direct" in term:
        return Depth.TRUE
    return Depth.INDEXED if "256" in term else Depth.NAMED


NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
ATTRIBUTES = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7"}
_LEVELS = (0, 95, 135, 175, 215, 255)
"""Of one channel in the 6×6×6 cube of the 256 colours."""

DEFAULT_COLOURS: dict[str, str] = {
    "text": "",
    "dim": "dim",
    "strong": "bold",
    "emphasis": "italic",
    "accent": "cyan",
    "heading": "bold cyan",
    "code": "yellow",
    "link": "underline blue",
    "quote": "dim italic",
    "ok": "green",
    "warn": "yellow",
    "error": "red",
    "added": "green",
    "removed": "red",
    "prompt": "bold cyan",
    "user": "bold",
    "reasoning": "dim italic",
    "tool": "cyan",
    "status": "dim",
    "rule": "dim",
    "banner": "bold cyan",
}
"""Roles and what they look like: attributes and a colour, by name or as `#rrggbb`."""


class Paint:
    """`paint("warn", text)` dresses a text; without colours it is returned as it is."""

    def __init__(self, colours: Mapping[str, str] | None = None, depth: Depth = Depth.NONE) -> None:
        """`colours` replace those of the default roles. Raises `ValueError` for a wrong one."""
        self.depth = depth
        self.colours = {**DEFAULT_COLOURS, **(colours or {})}
        self._codes = {role: codes(look, depth) for role, look in self.colours.items()}

    def __call__(self, role: str, text: str) -> str:
        code = self._codes.get(role, "")
        if not code or not text:
            return text
        return f"\x1b[{code}m{text}\x1b[0m"

    def role(self, role: str) -> Callable[[str], str]:
        return lambda text: self(role, text)


def codes(look: str, depth: Depth) -> str:
    """The parameters of the escape sequence for a look such as `bold #7aa2f7`."""
    if depth is Depth.NONE:
        look = ""
    return ";".join(_code(word, depth) for word in look.split())


def _code(word: str, depth: Depth) -> str:
    word = word.lower()
    if word in ATTRIBUTES:
        return ATTRIBUTES[word]
    if word.startswith("#"):
        return _rgb(word, depth)
    bright = word.startswith("bright_")
    name = word.removeprefix("bright_")
    if name not in NAMES:
        raise ValueError(f"{word!r} is no colour: use #rrggbb or one of {', '.join(NAMES)}")
    return str((90 if bright else 30) + NAMES.index(name))


def _rgb(word: str, depth: Depth) -> str:
    digits = word[1:]
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    try:
        red, green, blue = bytes.fromhex(digits)
    except ValueError:
        raise ValueError(f"{word!r} is no colour: it is written #rrggbb") from None
    if depth is Depth.TRUE:
        return f"38;2;{red};{green};{blue}"
    if depth is Depth.INDEXED:
        r, g, b = (_nearest(channel) for channel in (red, green, blue))
        return f"38;5;{16 + 36 * r + 6 * g + b}"
    half = max(red, green, blue) / 2 or 1
    number = sum(1 << bit for bit, channel in enumerate((red, green, blue)) if channel > half)
    return str((90 if max(red, green, blue) > 191 else 30) + number)


def _nearest(channel: int) -> int:
    return min(range(6), key=lambda level: abs(_LEVELS[level] - channel))
