"""Rows of a terminal that tell of tool calls."""

from collections.abc import Iterable, Sequence

from hermes.tui.cells import cut, one_line, safe, width
from hermes.tui.looks import Looks
from hermes.tui.paint import Paint
from hermes.tui.tools.calls import Call
from hermes.tui.tools.wording import about
from hermes.tui.wrapping import wrapped

INDENT = "   "
"""Before everything that stands below the line of a call."""
LEAST = 8
"""Columns that are worth giving to what a call is about."""
NOTE = 40
"""Columns of a note."""
LONGEST = 4_000
"""Characters that are looked at of one line of a result."""


def headline(
    call: Call,
    looks: Looks,
    columns: int,
    notes: Sequence[str] = (),
    mark: tuple[str, str] = ("", ""),
) -> str:
    """Symbol, tool, what it is about, notes, and a mark given as role and text. Notes are left out
    where there is no room."""
    paint = looks.paint
    symbol = _symbol(call.name, looks)
    end = f" {mark[1]}" if mark[1] else ""
    room = columns - width(symbol) - 1 - width(end)
    name = one_line(call.name, min(room, max(LEAST, columns // 2))) or "?"
    words = one_line(about(call), min(looks.preview or columns, columns))
    room -= width(name)
    told = _fitting([note for note in notes if note], room - min(LEAST, width(words) + 1))
    words = cut(words, room - sum(3 + width(note) for note in told) - 1)
    line = f"{paint('tool', symbol)} {paint('tool', name)}"
    line += f" {words}" if words else ""
    line += "".join(paint("dim", f" · {note}") for note in told)
    return line + (f" {paint(*mark)}" if end else "")


def _fitting(notes: Sequence[str], room: int) -> Sequence[str]:
    """All of the notes, else the first, else the last, else none."""
    notes = [one_line(note, NOTE) for note in notes]
    choices = (notes, notes[:1], notes[-1:])
    fitting = (each for each in choices if sum(3 + width(note) for note in each) <= room)
    return next(fitting, ())


def _symbol(name: str, looks: Looks) -> str:
    """As wide for all tools of a skin, so that their names stand below each other."""
    emojis = looks.skin.tool_emojis
    symbol = emojis.get(name, looks.skin.tool_prefix)
    return symbol + " " * (max(map(width, emojis.values())) - width(symbol)) if emojis else symbol


def one_row_each(lines: Iterable[str], columns: int, paint: Paint, role: str) -> list[str]:
    room = columns - len(INDENT)
    shown = (cut(_safe_line(line), room) for line in lines)
    return [INDENT + paint(role, line) for line in shown]


def rows_of(text: str, columns: int, paint: Paint, role: str, most: int) -> list[str]:
    """A text broken to fit, at most so many rows and one that tells how many lines follow."""
    room = columns - len(INDENT)
    lines = text.strip("\n").split("\n")
    rows: list[str] = []
    for at, line in enumerate(lines):
        broken = _wrapped(_safe_line(line), room)
        if len(rows) + len(broken) > most:
            rows += broken[: most - len(rows)]
            return [
                *(INDENT + paint(role, row) for row in rows),
                more(len(lines) - at, columns, paint),
            ]
        rows += broken
    return [INDENT + paint(role, row) for row in rows]


def _wrapped(line: str, room: int) -> list[str]:
    """With the indentation of the line kept before each of its rows, as far as it leaves room."""
    body = line.lstrip(" ")
    margin = " " * min(len(line) - len(body), room // 2)
    return [margin + row for row in wrapped(body, room - len(margin))]


def more(count: int, columns: int, paint: Paint) -> str:
    return INDENT + paint("dim", cut(f"… {count:,} more lines", columns - len(INDENT)))


def _safe_line(line: str) -> str:
    return safe(line[:LONGEST].rstrip("\r")).replace("\n", " ").rstrip()
