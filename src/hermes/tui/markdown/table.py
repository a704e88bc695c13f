"""Tables: as wide as they need to be, narrower where they must, records where nothing fits."""

import re
from collections.abc import Sequence

from hermes.tui.cells import width as columns_of
from hermes.tui.markdown.blocks import SHORT, Lead
from hermes.tui.markdown.inline import parse
from hermes.tui.markdown.styled import Run, dress, painted, plain
from hermes.tui.paint import Depth, Paint
from hermes.tui.wrapping import rows

_BAR = re.compile(r"(?<!\\)\|")
_BREAK = re.compile(r" *<br ?/?> *", re.IGNORECASE)
_DELIMITER = re.compile(r"\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$")
_NARROWEST = 8
"""Columns of a cell below which a table is shown as records."""
_BORDERS = {"top": ("┌", "┬", "┐"), "middle": ("├", "┼", "┤"), "bottom": ("└", "┴", "┘")}
_HANGING = "  "

Cell = list[list[Run]]
"""Its lines."""


def delimits(header: str, line: str) -> bool:
    """Whether the line makes a table of the line before it."""
    if len(line) > SHORT or "|" not in line or not _DELIMITER.match(line):
        return False
    both_begin = header.startswith("|") and line.startswith("|")
    return both_begin or len(_split(header)) == len(_split(line))


class Table:
    def __init__(self, paint: Paint, lead: Lead, header: str, delimiter: str) -> None:
        self.lead = lead
        self._paint = paint
        self._bare = paint.depth is Depth.NONE
        self._align = [_alignment(cell) for cell in _split(delimiter)]
        self._header = [self._dressed(cell) for cell in self._cells(header)]
        self._rows: list[list[Cell]] = []
        self._shown: tuple[tuple[int, int, int], list[str]] = ((0, 0, 0), [])

    def add(self, row: str) -> None:
        self._rows.append(self._cells(row))

    def lines(self, width: int, last: int | None = None) -> list[str]:
        """The table, or only the `last` of its rows."""
        lead = self.lead.fitted(width)[0].rest
        room = width - len(plain(lead))
        body = self._rows if last is None else self._rows[len(self._rows) - last :]
        count = max(map(len, [self._header, *body]))
        grid = [row + [[[]]] * (count - len(row)) for row in [self._header, *body]]
        widths = _fitted([_natural(column) for column in zip(*grid, strict=True)], room)
        lines = self._records(grid, room) if widths is None else self._boxed(grid, widths)
        before = "".join([dress(self._paint, *run) for run in lead])
        return [before + line for line in lines]

    def preview(self, width: int, last: int) -> list[str]:
        """What there is of an unfinished table: its last rows."""
        last = min(last, len(self._rows))
        asked = (width, last, len(self._rows))
        if self._shown[0] != asked:
            self._shown = (asked, self.lines(width, last))
        return self._shown[1]

    def _cells(self, row: str) -> list[Cell]:
        return [
            [parse(line, bare=self._bare).runs for line in _BREAK.split(cell)]
            for cell in _split(row)
        ]

    def _dressed(self, cell: Cell) -> Cell:
        return [[(text, ("strong", *roles)) for text, roles in runs] for runs in cell]

    def _boxed(self, grid: list[list[Cell]], widths: list[int]) -> list[str]:
        drawn = [self._row(row, widths) for row in grid]
        between = any(len(lines) > 1 for lines in drawn[1:])
        lines = [self._border("top", widths), *drawn[0], self._border("middle", widths)]
        for at, row in enumerate(drawn[1:]):
            if at and between:
                lines.append(self._border("middle", widths))
            lines += row
        return [*lines, self._border("bottom", widths)]

    def _border(self, place: str, widths: list[int]) -> str:
        left, cross, right = _BORDERS[place]
        return self._paint("rule", left + cross.join("─" * (each + 2) for each in widths) + right)

    def _row(self, row: list[Cell], widths: list[int]) -> list[str]:
        cells = [
            self._cell(cell, columns, self._align[at] if at < len(self._align) else "<")
            for at, (cell, columns) in enumerate(zip(row, widths, strict=True))
        ]
        bar = self._paint("rule", "│")
        height = max(map(len, cells))
        lines = []
        for at in range(height):
            parts = [
                cell[at] if at < len(cell) else " " * columns
                for cell, columns in zip(cells, widths, strict=True)
            ]
            lines.append(f"{bar} {f' {bar} '.join(parts)} {bar}")
        return lines

    def _cell(self, cell: Cell, columns: int, align: str) -> list[str]:
        """The rows of a cell, filled up to its columns."""
        lines = []
        for runs in cell:
            text = plain(runs)
            ranges = rows(text, columns) or [(0, 0)]
            for (start, end), line in zip(ranges, painted(self._paint, runs, ranges), strict=True):
                free = max(0, columns - columns_of(text[start:end]))
                left = {"<": 0, "^": free // 2, ">": free}[align]
                lines.append(" " * left + line + " " * (free - left))
        return lines

    def _records(self, grid: list[list[Cell]], room: int) -> list[str]:
        header, *body = grid
        if not body:
            return [line for cell in header for line in self._record([], cell, room)]
        lines: list[str] = []
        for at, row in enumerate(body):
            if at:
                lines.append(self._paint("rule", "─" * min(room, 2 * _NARROWEST)))
            for name, cell in zip(header, row, strict=True):
                lines += self._record([run for runs in name for run in runs], cell, room)
        return lines

    def _record(self, name: list[Run], cell: Cell, room: int) -> list[str]:
        label: list[Run] = [*name, (": ", ("strong",))] if name else []
        lines: list[str] = []
        for runs in [[*label, *cell[0]], *cell[1:]]:
            at = 0 if lines else room
            text = plain(runs)
            if not lines and (first := rows(text, room)[:1]):
                lines += painted(self._paint, runs, first)
                at = first[0][1]
            rest = [(at + a, at + b) for a, b in rows(text[at:], room - len(_HANGING))]
            lines += [_HANGING + line for line in painted(self._paint, runs, rest)]
        return lines


def _split(row: str) -> list[str]:
    row = row.strip(" ").removeprefix("|")
    cells = _BAR.split(row)
    if len(cells) > 1 and not cells[-1].strip(" "):
        cells.pop()
    return [cell.strip(" ").replace("\\|", "|") for cell in cells]


def _alignment(cell: str) -> str:
    return {(True, True): "^", (False, True): ">"}.get((cell[:1] == ":", cell[-1:] == ":"), "<")


def _natural(column: Sequence[Cell]) -> int:
    return max(1, *(columns_of(plain(runs)) for cell in column for runs in cell))


def _fitted(natural: list[int], room: int) -> list[int] | None:
    """The widths of the columns, the widest ones made narrower; None if that makes no sense."""
    room -= 3 * len(natural) + 1
    if sum(natural) <= room:
        return natural
    level, left = 0, room
    for done, width in enumerate(sorted(natural)):
        level = left // (len(natural) - done)
        if width > level:
            break
        left -= width
    if level < _NARROWEST:
        return None
    widths = [min(width, level) for width in natural]
    for at, width in enumerate(natural):
        if width > level and sum(widths) < room:
            widths[at] += 1
    return widths
