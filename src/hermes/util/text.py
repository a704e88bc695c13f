"""Small, pure operations on text for people and for files."""

import os
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from hermes.util.lazy import late_pattern

if TYPE_CHECKING:
    import re

_UNSTORABLE = late_pattern("[\x00\ud800-\udfff]")
_DURATION = late_pattern(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def clean(text: str) -> str:
    """Remove NUL and lone surrogates, which files, databases and endpoints refuse."""
    if text.isascii():
        return text.replace("\x00", "")
    return _UNSTORABLE.sub("", text)


def cut_middle(text: str, limit: int) -> str:
    """Return the head and the tail of `text`, at most `limit` characters, and between them a line
    that says how much is missing."""
    missing = len(text) - limit
    if missing <= 0:
        return text
    head = limit - limit // 2
    return f"{text[:head]}\n[... {missing:,} characters left out ...]\n{text[head + missing :]}"


def many(number: int, thing: str) -> str:
    """Return `1 session`, `2 sessions`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def human_size(count: int) -> str:
    """Return `512 B`, `1.5 kB` or `491.0 MB`, in powers of 1000."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def human_duration(seconds: float) -> str:
    """Return the largest unit that fits and the next one: `42s`, `5m 3s`, `2h 10m`, `3d 4h`."""
    rest = max(0, int(seconds))
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        amount, rest = divmod(rest, _SECONDS[unit])
        if amount:
            parts.append(f"{amount}{unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0s"


def parse_duration(text: str) -> int | None:
    """Return the seconds of `30s`, `5m`, `2h` or `1d`; None for any other text."""
    match = _DURATION.fullmatch(text.strip().lower())
    return int(match[1]) * _SECONDS[match[2]] if match else None


# Conversations hold the output of tools and text of strangers: escape sequences that move the
# cursor or set the clipboard, controls that change the direction of text.

_SEQUENCE = late_pattern(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours, cursor
    r"|(?:\x1b[\]P^_X]|[\x9d\x90\x9e\x9f\x98])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"  # everything else that starts with escape
)
_LINE_END = late_pattern("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL = late_pattern("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_JSON = late_pattern("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_DRIVES_TERMINAL = late_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BLANK_SIGNS = late_pattern(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
"""Printable characters, as Unicode has it, that show nothing."""


def plain(text: str) -> str:
    """Remove escape sequences, control characters and changes of direction; every kind of line end
    becomes a newline."""
    return _CONTROL.sub("", _LINE_END.sub("\n", _SEQUENCE.sub("", text)))


def plain_line(text: str) -> str:
    """Like `plain`, on one line with single spaces."""
    return " ".join(plain(text).split())


def escape_controls(text: str) -> str:
    """Escape control characters and changes of direction, as `\\x1b` and `\\u202e`. Newlines and
    tabs stay, and the rest of the text does not change."""
    if text.isprintable():
        return text
    return _DRIVES_TERMINAL.sub(_escape, text.replace("\r\n", "\n"))


def terminal_text(text: str, mark: str = "") -> str:
    """Return `text` for a terminal: with colours, and all else that drives a terminal escaped.

    Only colours whose parameters begin with `mark` count, and it is taken out of them. A caller
    that puts a random number there lets its own colours through and no others.
    """
    if text.isprintable():
        return text
    pieces = text.split(f"\x1b[{mark}")
    shown = [escape_controls(pieces[0])]
    for piece in pieces[1:]:
        rest = piece.lstrip("0123456789;")
        colour = piece[: len(piece) - len(rest)]
        if rest.startswith("m"):
            shown.append(f"\x1b[{colour}m{escape_controls(rest[1:])}")
        else:
            shown.append(escape_controls(f"\x1b[{piece}"))
    return "".join(shown)


_COLOUR = late_pattern(r"\x1b\[[0-9;]*m")
_WORDS = late_pattern(r"\s*\S+")
_COLUMN = late_pattern(r"^\s*(?:[-•*] +|\d+[.)] +)?|(?<=\S)\s{2,}(?=\S)")


def wrap_lines(text: str, columns: int) -> str:
    """Break lines that have more than `columns` between words; longer words stay whole.

    The rows of a line begin below its text or, of a line of a table, below the last column in its
    left half. Colours take no place.
    """

    def wrap_line(line: str) -> Iterator[str]:
        if display_columns(line) <= columns:
            yield line
            return
        starts = [found.end() for found in _COLUMN.finditer(_COLOUR.sub("", line))]
        indent = " " * max(start for start in starts if start <= columns // 2 or start == starts[0])
        row = ""
        for word in _WORDS.findall(line):
            if row and display_columns(row + word) > columns:
                yield row
                row = indent + word.lstrip()
            else:
                row += word
        yield row

    return "\n".join(row for line in text.split("\n") for row in wrap_line(line))


def display_columns(line: str) -> int:
    """Return about how many columns a line takes."""
    shown = _COLOUR.sub("", line)
    if shown.isascii():
        return len(shown)
    import unicodedata  # most text is ASCII

    return sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in shown)


def visible(text: str) -> str:
    """Escape every character that a reader cannot see, or that moves others: controls, zero-width
    characters, changes of direction, blanks other than the space. Newlines stay."""
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(each if each == "\n" or each.isprintable() else _escape(each) for each in text)
    return _BLANK_SIGNS.sub(_escape, shown)


def _escape(found: "str | re.Match[str]") -> str:
    character = found if isinstance(found, str) else found[0]
    return character.encode("unicode_escape").decode()


def escaped_json(document: str) -> str:
    """Return equal JSON text with `\\u…` for characters that JSON allows and that break terminals
    or programs that split lines."""
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


LONGEST_HELD = 8_192
"""Characters of an unfinished line that are held back; a longer one is handed on in parts."""
KEPT_BACK = 1_024
"""Characters of such a line that stay, so that the cut falls between two words if it can."""


class LineBuffer:
    """Passes on complete lines, so that a redactor never sees half a word. Text between the
    `BEGIN` and `END` marks of a key stays together."""

    def __init__(self, give: Callable[[str], None]) -> None:
        self._give = give
        self._held = ""

    def add(self, text: str) -> None:
        self._held += text
        end = max(self._held.rfind("\n"), self._held.rfind("\r")) + 1
        inside_key = self._held.rfind("-----BEGIN", 0, end) > self._held.rfind("-----END", 0, end)
        if end and not inside_key:
            self._pass_on(end)
        elif len(self._held) > LONGEST_HELD:
            most = LONGEST_HELD - KEPT_BACK
            self._pass_on(self._held.rfind(" ", 0, most) + 1 or most)

    def _pass_on(self, end: int) -> None:
        whole, self._held = self._held[:end], self._held[end:]
        self._give(whole)

    def flush(self) -> None:
        if self._held:
            held, self._held = self._held, ""
            self._give(held)


def new_session_id(now: datetime) -> str:
    """Return `YYYYMMDD_HHMMSS_<8 hex>` for the time `now`, in its time zone."""
    return f"{now:%Y%m%d_%H%M%S}_{os.urandom(4).hex()}"
