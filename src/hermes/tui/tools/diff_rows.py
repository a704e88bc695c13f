"""A diff in colours, with line numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from hermes.tui.cells import cut
from hermes.tui.paint import Paint, codes
from hermes.tui.tools.diffs import Kind, Line
from hermes.tui.tools.lines import INDENT, more
from hermes.tui.tools.words import Range, changed_words
from hermes.tui.wrapping import broken

_SIGNS: Mapping[Kind, str] = MappingProxyType({"added": "+", "removed": "-", "same": " "})
_ROLES: Mapping[Kind, str] = MappingProxyType(
    {"added": "added", "removed": "removed", "same": "dim", "title": "strong", "note": "warn"}
)
LEAST = 10
"""Columns of a text below which it is left out that lines have numbers."""


def diff_rows(
    lines: Sequence[Line], columns: int, paint: Paint, most: int, *, whole: bool
) -> list[str]:
    """At most so many rows, and one that tells how many lines follow. Long lines are cut, or broken
    when they are wanted `whole`."""
    missing = sum(line.number for line in lines if line.kind == "more")
    lines = [line for line in lines if line.kind != "more"]
    shown, words = lines[:most], changed_words(lines[:most])
    gutter = _gutter(shown, columns)
    rows: list[str] = []
    for at, line in enumerate(shown):
        found = list(_rows(line, words.get(at, []), gutter, columns, paint, whole=whole))
        if len(rows) + len(found) > most:
            shown = shown[:at]
            break
        rows += found
    missing += len(lines) - len(shown)
    return [*rows, more(missing, columns, paint)] if missing else rows


def _gutter(lines: Sequence[Line], columns: int) -> int:
    """Columns of the line numbers; 0 when there are none, or no room for them."""
    digits = len(str(max((line.number for line in lines), default=0) or ""))
    return digits if columns - len(INDENT) - digits - 3 >= LEAST else 0


def _rows(
    line: Line, words: Sequence[Range], digits: int, columns: int, paint: Paint, *, whole: bool
) -> Iterator[str]:
    sign = _SIGNS.get(line.kind)
    room = columns - len(INDENT)
    if sign is None:
        text = "⋮" if line.kind == "gap" else line.text
        yield INDENT + paint(_ROLES.get(line.kind, "dim"), cut(text, room))
        return
    number = f"{line.number or '':>{digits}} " if digits else ""
    role, room = _ROLES[line.kind], room - len(number) - 2
    text = line.text if whole else cut(line.text, room)
    strong = emphasised(paint, role)
    for start, end in broken(text, room, room):
        dressed = "".join(
            (strong if changed else paint.role(role))(text[a:b])
            for a, b, changed in _pieces(start, end, words)
        )
        yield INDENT + paint("dim", number) + paint(role, f"{sign} ") + dressed
        number, sign = " " * len(number), " "


def _pieces(start: int, end: int, words: Sequence[Range]) -> Iterator[tuple[int, int, bool]]:
    """The part of a text from `start` to `end`, cut at the ends of changed words."""
    at = start
    for first, last in words:
        first, last = max(first, at), min(last, end)
        if first < last:
            yield at, first, False
            yield first, last, True
            at = last
    yield at, end, False


def emphasised(paint: Paint, role: str) -> Callable[[str], str]:
    """The colour of a role, turned round: changed words in a changed line."""
    code = codes(f"{paint.colours.get(role, '')} reverse", paint.depth)
    return lambda text: f"\x1b[{code}m{text}\x1b[0m" if code and text else text
