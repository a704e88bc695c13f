"""Draw a line, bar, scatter or histogram chart from a CSV file as SVG, without any library.

The first row of the file holds the names. Dates in ISO form on the x axis of a line or scatter
chart are placed by time. A bar chart takes its labels from x and keeps the order of the file.
Exit code: 0 the chart was written, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import csv
import math
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Iterator, NamedTuple  # noqa: UP035 - runs on older Pythons too
from xml.sax.saxutils import escape

COLOURS = ["#4269d0", "#e8833a", "#3ca951", "#ff5c5c", "#9c6bd6", "#97704f", "#6b7280", "#15aabf"]
LEFT, RIGHT, TOP, BOTTOM = 78, 42, 46, 66
MOST_LABELS = 24
DAY = 86400.0
EPOCH_DAY = 719163
"""The ordinal of 1970-01-01."""


class Problem(Exception):
    """Something the user has to correct."""


class Series(NamedTuple):
    name: str
    points: list[tuple[float, float]]


class Axis(NamedTuple):
    low: float
    high: float
    ticks: list[tuple[float, str]]

    def part(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)


class Data(NamedTuple):
    series: list[Series]
    labels: list[str]
    """Names of the bars; empty for numbers and dates."""
    dates: bool
    skipped: int


def number(text: str) -> float | None:
    try:
        value = float(text.strip().replace(",", ".") if text.count(",") == 1 else text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def moment(text: str) -> float | None:
    if "-" not in text[1:]:  # a plain number is no date
        return None
    try:
        when = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    epoch = datetime(1970, 1, 1, tzinfo=when.tzinfo)
    return (when - epoch).total_seconds()


def read(path: Path, delimiter: str) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=delimiter))
    if not rows:
        raise Problem(f"{path} has no rows below its first line")
    return rows


def column(rows: list[dict[str, str]], name: str) -> list[str]:
    if name not in rows[0]:
        known = ", ".join(str(key) for key in rows[0])
        raise Problem(f"there is no column {name!r}; there are: {known}")
    return [row[name] or "" for row in rows]


def collect(rows: list[dict[str, str]], options: argparse.Namespace) -> Data:
    if options.kind == "hist":
        return histogram(rows, options)
    texts = column(rows, options.x) if options.x else [str(i) for i in range(1, len(rows) + 1)]
    labels: list[str] = []
    dates = False
    if options.kind == "bar":
        places: list[float | None] = [float(i) for i in range(len(rows))]
        labels = texts
    else:
        dates = all(moment(text) is not None for text in texts)
        places = [moment(text) if dates else number(text) for text in texts]
    skipped = 0
    series = []
    for name in options.y:
        points = []
        for place, text in zip(places, column(rows, name)):  # noqa: B905 - same length
            value = number(text)
            if place is None or value is None:
                skipped += 1
            else:
                points.append((place, value))
        if not points:
            raise Problem(f"no numbers to draw in {name!r} over {options.x or 'the row number'!r}")
        series.append(Series(name, sorted(points) if options.kind == "line" else points))
    return Data(series, labels, dates, skipped)


def histogram(rows: list[dict[str, str]], options: argparse.Namespace) -> Data:
    found = [number(text) for text in column(rows, options.y[0])]
    values = [value for value in found if value is not None]
    if not values:
        raise Problem(f"no numbers in {options.y[0]!r}")
    low, high = min(values), max(values)
    count = options.bins or max(1, min(50, math.ceil(math.sqrt(len(values)))))
    width = (high - low) / count or 1.0
    counts = [0] * count
    for value in values:
        counts[min(count - 1, int((value - low) / width))] += 1
    labels = [f"{low + i * width:.4g}" for i in range(count)]
    points = [(float(i), float(n)) for i, n in enumerate(counts)]
    return Data([Series(options.y[0], points)], labels, False, len(found) - len(values))


def step_for(span: float, wanted: int) -> float:
    """A round distance (1, 2 or 5 times a power of ten) for about `wanted` ticks."""
    raw = span / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if raw <= factor * power * 1.000001)


def numeric_axis(values: list[float], zero: bool, wanted: int = 6) -> Axis:
    low, high = min(values), max(values)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        low, high = low - 1, high + 1
    step = step_for(high - low, wanted)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, -math.floor(math.log10(step)))
    ticks = [(i * step, tick(i * step, digits)) for i in range(first, last + 1)]
    return Axis(first * step, last * step, ticks)


def tick(value: float, digits: int) -> str:
    return f"{value:.3g}" if abs(value) >= 1e9 or digits > 6 else f"{value:,.{digits}f}"


def date_axis(values: list[float]) -> Axis:
    """Ticks on whole days, or on whole hours and minutes for a short time."""
    low, high = min(values), max(values)
    if low == high:
        low, high = low - DAY, high + DAY
    unit = next(unit for unit in (DAY, 3600.0, 60.0, 1.0) if high - low >= 2 * unit or unit == 1.0)
    step = unit * max(1, math.ceil((high - low) / unit / 7))
    first = math.ceil(low / unit) * unit
    count = int((high - first) // step) + 1
    ticks = [first + i * step for i in range(count)]
    return Axis(low, high, [(value, shown(value, unit)) for value in ticks])


def shown(value: float, unit: float) -> str:
    day = datetime.fromordinal(EPOCH_DAY + int(value // DAY))
    if unit == DAY:
        return day.strftime("%Y-%m-%d")
    seconds = int(value % DAY)
    clock = f"{seconds // 3600:02}:{seconds % 3600 // 60:02}"
    return f"{clock}:{seconds % 60:02}" if unit == 1.0 else f"{day:%m-%d} {clock}"


class Chart:
    """Places values on the canvas and writes the elements."""

    def __init__(self, data: Data, options: argparse.Namespace) -> None:
        self.data, self.options = data, options
        self.width, self.height = options.width, options.height
        xs = [x for series in data.series for x, _ in series.points]
        ys = [y for series in data.series for _, y in series.points]
        bars = options.kind in ("bar", "hist")
        if bars:
            self.x = Axis(-0.5, len(data.labels) - 0.5, [])
        else:
            self.x = date_axis(xs) if data.dates else numeric_axis(xs, zero=False, wanted=8)
        self.y = numeric_axis(ys, zero=bars or options.zero)

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = LEFT + self.x.part(x) * (self.width - LEFT - RIGHT)
        return across, self.height - BOTTOM - self.y.part(y) * (self.height - TOP - BOTTOM)

    def elements(self) -> Iterator[str]:
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" font-family="sans-serif" font-size="12">'
        )
        yield f'<rect width="{self.width}" height="{self.height}" fill="white"/>'
        yield text(self.width / 2, 24, self.options.title, "middle", 'font-size="16"')
        yield from self.grid()
        draw = {"line": self.line, "scatter": self.dots}.get(self.options.kind, self.bars)
        for number_, series in enumerate(self.data.series):
            yield from draw(number_, series)
        yield from self.names()
        yield "</svg>"

    def grid(self) -> Iterator[str]:
        bottom, right = self.height - BOTTOM, self.width - RIGHT
        for value, label in self.y.ticks:
            _, y = self.at(self.x.low, value)
            yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#e5e7eb"/>'
            yield text(LEFT - 6, y + 4, label, "end")
        for value, label in self.x.ticks:
            x, _ = self.at(value, self.y.low)
            ends = f'x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 5}"'
            yield f'<line {ends} stroke="#374151"/>'
            yield text(x, bottom + 20, label, "middle")
        every = max(1, math.ceil(len(self.data.labels) / MOST_LABELS))
        slanted = sum(map(len, self.data.labels[::every])) * 7 > right - LEFT
        for i, label in enumerate(self.data.labels):
            if i % every == 0:
                x, y = self.at(i, self.y.low)[0], bottom + 18
                turn = f'transform="rotate(-35 {x:.1f} {y:.1f})"' if slanted else ""
                yield text(x, y, label[:24], "end" if slanted else "middle", turn)
        yield f'<line x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}" stroke="#374151"/>'

    def line(self, index: int, series: Series) -> Iterator[str]:
        places = " ".join("{:.1f},{:.1f}".format(*self.at(x, y)) for x, y in series.points)
        yield f'<polyline points="{places}" fill="none" stroke="{colour(index)}" stroke-width="2"/>'
        if len(series.points) <= 40:
            yield from self.dots(index, series)

    def dots(self, index: int, series: Series) -> Iterator[str]:
        for x, y in series.points:
            across, down = self.at(x, y)
            yield f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3" fill="{colour(index)}"/>'

    def bars(self, index: int, series: Series) -> Iterator[str]:
        slot = (self.width - LEFT - RIGHT) / len(self.data.labels)
        gap = 0.02 if self.options.kind == "hist" else 0.2
        width = slot * (1 - gap) / len(self.data.series)
        for x, y in series.points:
            middle, top = self.at(x, y)
            _, base = self.at(x, 0)
            left = middle - slot * (1 - gap) / 2 + index * width
            yield (
                f'<rect x="{left:.1f}" y="{min(top, base):.1f}" width="{width:.1f}" '
                f'height="{abs(base - top):.1f}" fill="{colour(index)}"/>'
            )

    def names(self) -> Iterator[str]:
        middle = (TOP + self.height - BOTTOM) / 2
        turned = f'transform="rotate(-90 18 {middle:.1f})"'
        single = self.options.y[0] if len(self.options.y) == 1 else ""
        if self.options.kind == "hist":
            across, up = self.options.y[0], "count"
        else:
            across, up = self.options.x or "", single
        centre = (LEFT + self.width - RIGHT) / 2
        yield text(18, middle, self.options.ylabel or up, "middle", turned)
        yield text(centre, self.height - 8, self.options.xlabel or across, "middle")
        if len(self.data.series) > 1:
            x = float(LEFT)
            for index, series in enumerate(self.data.series):
                yield f'<rect x="{x:.1f}" y="32" width="10" height="10" fill="{colour(index)}"/>'
                yield text(x + 14, 41, series.name, "start")
                x += 30 + 7 * len(series.name)


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def text(x: float, y: float, value: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(value)}</text>'


def positive(written: str) -> int:
    found = int(written)
    if found < 1:
        raise ValueError(written)
    return found


def size(written: str) -> int:
    found = int(written)
    if not 200 <= found <= 10_000:
        raise argparse.ArgumentTypeError("a size lies between 200 and 10000")
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the CSV file")
    parser.add_argument("--kind", choices=["line", "bar", "scatter", "hist"], default="line")
    parser.add_argument("--x", help="column of the x axis (default: the row number)")
    parser.add_argument(
        "--y", action="append", required=True, help="column to draw; may be repeated"
    )
    parser.add_argument("--out", type=Path, default=Path("chart.svg"), help="file to write")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    parser.add_argument("--title", default="")
    parser.add_argument("--xlabel", default="")
    parser.add_argument("--ylabel", default="")
    parser.add_argument("--bins", type=positive, default=0, help="bars of a histogram")
    parser.add_argument("--zero", action="store_true", help="the y axis starts at zero")
    parser.add_argument("--delimiter", default=",")
    parser.add_argument("--width", type=size, default=800)
    parser.add_argument("--height", type=size, default=450)
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        data = collect(read(options.file, options.delimiter), options)
        elements = "\n".join(Chart(data, options).elements())
        if options.out.exists() and not options.force:
            raise Problem(f"{options.out} is already there; use --force to replace it")
        options.out.write_text(elements + "\n", encoding="utf-8")
    except UnicodeError:
        print(f"error: {options.file} is no UTF-8 text", file=sys.stderr)
        return 2
    except (ArithmeticError, ValueError):
        print("error: the numbers or dates are too large to be drawn", file=sys.stderr)
        return 2
    except (Problem, OSError, csv.Error, TypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    drawn = sum(len(series.points) for series in data.series)
    note = f", {data.skipped} values without a number left out" if data.skipped else ""
    print(f"{options.out}: {drawn} points{note}")
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
