"""Bars, sparklines and heat rows out of block characters; plain text, fit to a width."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hermes.tui.text import one_line, width

MOST_LABEL = 26


class Signs(NamedTuple):
    bar: str
    """The parts of a full cell, from the smallest to the whole."""
    spark: str
    """From nothing to the most."""
    heat: str


BLOCKS = Signs("▏▎▍▌▋▊▉█", " ▁▂▃▄▅▆▇█", " ░▒▓█")
ASCII = Signs("#", " .:-=+*#", " .+#")


class Bar(NamedTuple):
    label: str
    amount: float
    text: str
    """The amount in words, behind the bar."""


class Charts(msgspec.Struct, frozen=True):
    columns: int
    signs: Signs = BLOCKS

    def bars(self, rows: Sequence[Bar]) -> list[str]:
        """A line each, as long as their amounts are to the largest of them."""
        if not rows:
            return []
        room = min(MOST_LABEL, self.columns // 3)
        labels = [one_line(row.label, room) for row in rows]
        wide, tail = max(map(width, labels)), max(len(row.text) for row in rows)
        cells = max(1, self.columns - 2 - wide - 1 - tail - 1)
        most = max(row.amount for row in rows)
        return [
            f"  {label}{' ' * (wide - width(label))} "
            f"{self._bar(row.amount / most if most else 0, cells)} {row.text:>{tail}}"
            for label, row in zip(labels, rows, strict=True)
        ]

    def _bar(self, share: float, cells: int) -> str:
        parts = len(self.signs.bar)
        filled = max(round(share * cells * parts), 1 if share > 0 else 0)
        whole, rest = divmod(filled, parts)
        bar = self.signs.bar[-1] * whole + (self.signs.bar[rest - 1] if rest else "")
        return f"{bar:<{cells}}"

    def spark(self, amounts: Sequence[float]) -> str:
        """One character for each amount, or for a few that follow each other when there are more
        than fit."""
        cells = max(1, self.columns - 2)
        size = -(-len(amounts) // cells)
        sums = [sum(amounts[at : at + size]) for at in range(0, len(amounts), size)]
        return self._row(sums, max(sums, default=0), self.signs.spark)

    def heat(self, amounts: Sequence[float], most: float) -> str:
        return self._row(amounts, most, self.signs.heat)

    def _row(self, amounts: Sequence[float], most: float, signs: str) -> str:
        """What is more than nothing shows as something."""
        top = len(signs) - 1
        return "".join(
            signs[max(1, round(amount / most * top))] if amount and most else signs[0]
            for amount in amounts
        )
