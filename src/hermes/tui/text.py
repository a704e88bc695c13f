"""Text on a terminal: columns, wrapping, colours, and events in words."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import lru_cache

from wcwidth import iter_graphemes, wcswidth

from hermes.config.environment import no_color, variable
from hermes.core.events import (
    Compacted,
    CompactionStarted,
    Event,
    SubagentFinished,
    SubagentProgress,
    SubagentStarted,
    TurnFinished,
)
from hermes.core.model import FellBack, Retrying
from hermes.util.text import many, plain

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
TAB = 4


def safe(text: str) -> str:
    """Return `text` without control characters, which a model, tool or file may contain.

    Line ends become `\\n`, tabs become spaces.
    """
    if text.isascii() and text.isprintable():
        return text
    return plain(text).expandtabs(TAB)


def width(text: str) -> int:
    """Return the columns of a line without control characters; colours take none."""
    if text.isascii() and "\x1b" not in text:
        return len(text)
    columns = wcswidth(COLOUR.sub("", text))
    return columns if columns >= 0 else len(text)


def cut(text: str, columns: int) -> str:
    """Cut a plain line to `columns`, with an ellipsis at the end."""
    if width(text) <= columns:
        return text
    taken = end = 0
    for cluster in iter_graphemes(text):
        taken += max(0, wcswidth(cluster))
        if taken > columns - 1:
            break
        end += len(cluster)
    return text[:end] + "…" if columns > 0 else ""


def one_line(text: str, columns: int) -> str:
    return cut(" ".join(safe(text[: 8 * columns + 200]).split()), columns)


# Wrapping never breaks inside a grapheme. Rows are ranges `(start, end)` of the text, so that the
# caller can paint them. The text has no control characters and escape sequences.

Range = tuple[int, int]

_IDEOGRAPHIC = ("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "YI ", "FULLWIDTH", "IDEOGRAPHIC")
_NOT_FIRST = frozenset("、。，．：；？！）」』】〉》〕〗〙’”…ー々っゃゅょッャュョ,.;:!?)]}%")
"""Characters that must not begin a row next to an ideograph."""
_NOT_LAST = frozenset("（「『【〈《〔〖〘‘“([{")


def wrap_ranges(text: str, columns: int) -> list[Range]:
    """Return the rows of a paragraph, broken between words, without spaces at their ends.

    A row depends only on where it begins, so all rows but the last two stay what they are when
    more text follows.
    """
    found, at = [], 0
    while (row := _next_row(text, at, columns)) is not None:
        found.append(row)
        at = row[1]
    return found


def wrap(text: str, columns: int) -> list[str]:
    return [text[start:end] for start, end in wrap_ranges(text, columns)] or [""]


def break_ranges(text: str, first: int, rest: int) -> list[Range]:
    """Return the rows of a line of code: `first` columns in the first row, `rest` in others."""
    found = []
    at, columns = 0, first
    while at < len(text):
        end = _fitting_end(text, at, len(text), columns)
        found.append((at, end))
        at, columns = end, rest
    return found or [(0, 0)]


def is_ideographic(character: str) -> bool:
    """Return whether the script of the character has no spaces between words."""
    return character >= "\u2e80" and _is_ideographic(character)


@lru_cache(4096)
def _is_ideographic(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_IDEOGRAPHIC)


@lru_cache(4096)
def _columns(cluster: str) -> int:
    return max(0, wcswidth(cluster))


def _next_row(text: str, at: int, columns: int) -> Range | None:
    """Return the row that begins at `at` or after the spaces there."""
    start = end = -1
    used = 0
    for begin, stop, wide in _words(text, at, columns):
        if start < 0:
            start, end, used = begin, stop, wide
            if wide > columns:
                return start, _fitting_end(text, begin, stop, columns)
        elif used + begin - end + wide <= columns:
            used += begin - end + wide
            end = stop
        else:
            break
    if start < 0:
        return None
    if not text.isascii() and width(text[start:end]) > columns:
        # Stray combining marks take columns that depend on the character before them.
        end = _fitting_end(text, start, end, columns)
    return start, end


def _words(text: str, at: int, columns: int) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and columns of each unbreakable unit.

    A word that is wider than a row is only yielded up to that point.
    """
    if not text.isascii():
        yield from _mixed_words(text, at, columns)
        return
    size = len(text)
    while at < size:
        if text[at] == " ":
            at += 1
            continue
        end = text.find(" ", at, at + columns + 1)
        if end < 0:
            end = min(size, at + columns + 1)
        yield at, end, end - at
        at = end


def _mixed_words(text: str, at: int, columns: int) -> Iterator[tuple[int, int, int]]:
    begin, wide, last = at, 0, ""
    for cluster in iter_graphemes(text, at):
        before, after = last[:1], cluster[0]
        is_break = before and (is_ideographic(before) or is_ideographic(after))
        is_break = is_break and after not in _NOT_FIRST and before not in _NOT_LAST
        if last and (cluster == " " or wide > columns or is_break):
            yield begin, at, wide
            last = ""
        if cluster != " ":
            if not last:
                begin, wide = at, 0
            wide += _columns(cluster)
            last = cluster
        at += len(cluster)
    if last:
        yield begin, at, wide


def _fitting_end(text: str, start: int, end: int, columns: int) -> int:
    """Return where a row from `start` must end: at least one character later."""
    if text.isascii():
        return min(end, start + columns)
    at, used = start, 0
    for cluster in iter_graphemes(text, start, end):
        used += _columns(cluster)
        if used > columns or (used == columns and width(text[start : at + len(cluster)]) > columns):
            break
        at += len(cluster)
    while at > start and width(text[start:at]) > columns:
        at -= 1
    if at == start:  # the first cluster is wider than a row
        at += 1
        while at < end and width(text[start : at + 1]) <= columns:
            at += 1
    return at


class Depth(IntEnum):
    NONE = 0
    NAMED = 16
    INDEXED = 256
    TRUE = 1 << 24


def terminal_depth() -> Depth:
    """Return the depth of the terminal, as its environment variables say."""
    term = variable("TERM") or ""
    if no_color() or not term:
        return Depth.NONE
    if (variable("COLORTERM") or "").lower() in ("truecolor", "24bit") or "direct" in term:
        return Depth.TRUE
    return Depth.INDEXED if "256" in term else Depth.NAMED


COLOUR_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
ATTRIBUTES = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7"}
_LEVELS = (0, 95, 135, 175, 215, 255)  #: Levels of a channel in the 6×6×6 cube of the 256 colours.

DEFAULT_COLOURS: dict[str, str] = {
    "text": "", "dim": "dim", "strong": "bold", "emphasis": "italic", "accent": "cyan",
    "heading": "bold cyan", "code": "yellow", "link": "underline blue", "quote": "dim italic",
    "ok": "green", "warn": "yellow", "error": "red", "added": "green", "removed": "red",
    "prompt": "bold cyan", "user": "bold", "reasoning": "dim italic", "tool": "cyan",
    "status": "dim", "rule": "dim", "banner": "bold cyan",
}  # fmt: skip
"""Styles by role: attributes and a colour, by name or as `#rrggbb`."""

MIN_CONTRAST = 4.5  #: Contrast of text with a known background, as WCAG defines it.

Rgb = tuple[int, int, int]


class Paint:
    """`paint("warn", text)` colours a text; without colours the text is returned unchanged."""

    def __init__(
        self,
        colours: Mapping[str, str] | None = None,
        depth: Depth = Depth.NONE,
        mark: str = "",
        background: Rgb | None = None,
    ) -> None:
        """`colours` override the default roles; `mark` begins each sequence, see
        `terminal_text`. Text gets enough contrast with the `background` of the terminal, if it is
        known; rules are fainter. Raises `ValueError` for an invalid colour."""
        self.depth, self._mark, self.background = depth, mark, background
        self.colours = {**DEFAULT_COLOURS, **(colours or {})}
        self._codes = {
            role: escape_codes(look, depth, background if role != "rule" else None)
            for role, look in self.colours.items()
        }
        self._band = ""

    def __call__(self, role: str, text: str) -> str:
        code = self._codes.get(role, self._band)
        mark = self._mark
        return f"\x1b[{mark}{code}m{text}\x1b[{mark}0m" if code and text else text

    def on(self, band: Rgb, colours: Mapping[str, str]) -> "Paint":
        """Return a painter that also paints the background; `colours` as in the constructor."""
        painter = Paint({**self.colours, **colours}, self.depth, self._mark, band)
        code = painter._band = _colour_code(band, self.depth, 48)
        painter._codes = {
            role: f"{each};{code}".strip(";") for role, each in painter._codes.items()
        }
        return painter


def hanging_rows(paint: Paint, role: str, first: str, text: str, columns: int) -> list[str]:
    """Wrap a text after `first`; the following rows are indented by its width."""
    indent = width(first)
    rows = wrap(text, max(10, columns - indent))
    return [paint(role, (" " * indent if at else first) + row) for at, row in enumerate(rows)]


def escape_codes(look: str, depth: Depth, background: Rgb | None = None) -> str:
    """Return the parameters of the escape sequence for a style such as `bold #7aa2f7`."""
    if depth is Depth.NONE:
        look = ""
    return ";".join(_code(word, depth, background) for word in look.split())


def _code(word: str, depth: Depth, background: Rgb | None) -> str:
    word = word.lower()
    if word in ATTRIBUTES:
        return ATTRIBUTES[word]
    if word.startswith("#"):
        colour = _parse_rgb(word)
        if background is not None:
            colour = _readable_colour(colour, background, depth)
        return _colour_code(colour, depth)
    name = word.removeprefix("bright_")
    if name not in COLOUR_NAMES:
        raise ValueError(
            f"{word!r} is not a colour: use #rrggbb or one of {', '.join(COLOUR_NAMES)}"
        )
    return str((30 if name == word else 90) + COLOUR_NAMES.index(name))


def _parse_rgb(word: str) -> Rgb:
    digits = word[1:]
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    try:
        red, green, blue = bytes.fromhex(digits)
    except ValueError:
        raise ValueError(f"{word!r} is not a colour: write it as #rrggbb") from None
    return red, green, blue


def _colour_code(colour: Rgb, depth: Depth, kind: int = 38) -> str:
    """Return the parameters for a text colour, or with `kind` 48 for a background."""
    if depth is Depth.TRUE:
        return f"{kind};2;{colour[0]};{colour[1]};{colour[2]}"
    if depth is Depth.INDEXED:
        red, green, blue = map(_nearest_level, colour)
        return f"{kind};5;{16 + 36 * red + 6 * green + blue}"
    half = max(colour) / 2 or 1
    number = sum(1 << bit for bit, channel in enumerate(colour) if channel > half)
    return str((90 if max(colour) > 191 else 30) + number)


def luminance(colour: Rgb) -> float:
    """Return the relative luminance, from 0 to 1, as WCAG 2 defines it."""
    parts = (channel / 255 for channel in colour)
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def is_light(background: Rgb | None) -> bool:
    """Return whether black text is easier to read on it than white text."""
    return background is not None and luminance(background) > 0.18


def contrast(one: Rgb, other: Rgb) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _readable_colour(colour: Rgb, background: Rgb, depth: Depth) -> Rgb:
    """Return the colour, moved towards black or white until it has enough contrast as shown."""
    end = 0 if is_light(background) else 255
    moved = colour
    for step in range(21):
        moved = tuple(round(each + (end - each) * step / 20) for each in colour)  # type: ignore[assignment]  # three
        shown: Rgb = moved
        if depth is Depth.INDEXED:
            shown = tuple(_LEVELS[_nearest_level(each)] for each in moved)  # type: ignore[assignment]  # three
        if contrast(shown, background) >= MIN_CONTRAST:
            break
    return moved


def _nearest_level(channel: int) -> int:
    return min(range(6), key=lambda level: abs(_LEVELS[level] - channel))


EXIT_REASONS = {
    "max_iterations": "stopped: the step limit of this turn was reached; --max-turns raises it",
    "iteration_budget": "stopped: the turn and its subagents used up their steps; --max-turns "
    "raises them",
    "repeating": "stopped: calls failed again and again",
    "truncated": "the reply was cut at the model's output limit",
    "empty": "the model gave no answer; ask again, or choose another model",
}
"""Messages for turns that ended early without an error."""

APPROVAL_TEXTS: dict[str, str] = {
    "once": "allowed once",
    "session": "allowed in this session",
    "always": "always allowed",
    "deny": "not allowed",
}


def progress_lines(event: Event) -> list[str]:
    """Return lines for compactions and subagents; nothing for other events."""
    match event:
        case CompactionStarted():
            return [f"compacting the conversation ({event.tokens:,} tokens) …"]
        case Compacted():
            change = f"{event.tokens_before:,} to {event.tokens_after:,} tokens"
            if event.messages_before == event.messages_after:
                return [f"shortened tool results: {change}"]
            return [f"compacted: {change}, now session {event.session_id}"]
        case SubagentStarted():
            return [f"  [{event.child + 1}] {event.goal}"]
        case SubagentProgress():
            return [f"  [{event.child + 1}] {event.text}"]
        case SubagentFinished():
            calls = f"{many(event.api_calls, 'model call')}, {event.seconds:.1f} s"
            return [f"  [{event.child + 1}] {event.status} ({calls})"]
        case _:
            return []


def trouble_line(event: Retrying | FellBack, shown: str = "") -> str:
    """Return a line that says why a model call failed and what happens next.

    An error that is `shown` already is not repeated.
    """
    if isinstance(event, Retrying):
        error = "" if event.error == shown else f"{event.error}; "
        return f"{error}trying again in {event.seconds:.0f} s"
    return f"{event.error}; {event.model} on {event.provider} takes over"


def problem_lines(end: TurnFinished, shown: str = "") -> list[str]:
    """Return the problem of a turn and its hint, if there is one. An error that is `shown` already
    is not repeated."""
    if end.exit_reason in EXIT_REASONS:
        return [f"({EXIT_REASONS[end.exit_reason]})"]
    if not end.error:
        return []
    problem = "no more attempts" if end.error == shown else end.error
    return [f"hermes: {problem}"] + ([f"  {end.hint}"] if end.hint else [])


def format_duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"
