"""Numbers as text, and charts as SVG, for the pages of `hermes.batch.report`.

Colours are classes of `report.css`, so that the charts follow the light or dark mode of the reader.
"""

import html
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from hermes.batch.results import Rate
from hermes.util.text import human_duration

MAX_BINS = 12

# Numbers


def percent(value: float) -> str:
    return f"{value:.0%}" if value in (0.0, 1.0) or value >= 0.1 else f"{value:.1%}"


def points(value: float) -> str:
    """Return a difference of rates in percentage points."""
    sign = "+" if value > 0 else "−"
    return f"{sign}{abs(value) * 100:.0f}" if abs(value) >= 0.005 else "0"


def money(value: float | None) -> str:
    if value is None:
        return "–"
    return "$0" if value == 0 else f"${value:.2g}" if value < 0.01 else f"${value:,.2f}"


def seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f} s" if value < 60 else human_duration(value)


def decimal(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def short_count(value: int) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / (1e3 if unit == 'k' else limit):.3g}{unit}"
    return f"{value:,}"


# Charts


def rate_strip(rate: Rate | None) -> str:
    """Return a rate as a dot with its interval as a band, on an axis from 0 to 100 %."""
    if rate is None:
        return ""
    label = f"{percent(rate.value)}, interval {percent(rate.low)} to {percent(rate.high)}"
    return (
        f'<svg role="img" aria-label="{label}" preserveAspectRatio="none">{_grid(22)}'
        f'<rect class="band" x="{_x(rate.low)}" y="8" rx="3" height="6"'
        f' width="{(rate.high - rate.low) * 96:.2f}%"/>'
        f'<circle class="dot" cx="{_x(rate.value)}" cy="11" r="6"/></svg>'
    )


def change_strip(before: Rate | None, after: Rate | None) -> str:
    """Return two rates as an empty and a filled dot."""
    if before is None or after is None:
        return rate_strip(after or before)
    way = "up" if after.value > before.value else "down" if after.value < before.value else ""
    label = f"from {percent(before.value)} to {percent(after.value)}"
    return (
        f'<svg role="img" aria-label="{label}">{_grid(22)}'
        f'<line class="move {way}" x1="{_x(before.value)}" x2="{_x(after.value)}" y1="11" y2="11"/>'
        f'<circle class="dot old" cx="{_x(before.value)}" cy="11" r="5"/>'
        f'<circle class="dot {way}" cx="{_x(after.value)}" cy="11" r="6"/></svg>'
    )


def _x(share: float) -> str:
    return f"{2 + share * 96:.2f}%"  # room for half a dot on each side


def _grid(height: int) -> str:
    lines = (_x(share) for share in (0, 0.25, 0.5, 0.75, 1))
    return "".join(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="{height}"/>' for x in lines)


def headline_strip(rate: Rate, before: Rate | None = None) -> str:
    """Return a large strip with labels; `before` is shown as an empty dot."""
    old = f'<circle class="dot old" cx="{_x(before.value)}" cy="12" r="7"/>' if before else ""
    labels = "".join(
        f'<text x="{_x(share)}" y="38" text-anchor="{anchor}">{share:.0%}</text>'
        for share, anchor in ((0, "start"), (0.5, "middle"), (1, "end"))
    )
    return (
        f'<svg aria-hidden="true">{_grid(24)}<rect class="band" x="{_x(rate.low)}" y="8" rx="4"'
        f' height="8" width="{(rate.high - rate.low) * 96:.2f}%"/>'
        f'{old}<circle class="dot" cx="{_x(rate.value)}" cy="12" r="8"/>{labels}</svg>'
    )


def nice_step(span: float, bins: int) -> float:
    """Return 1, 2 or 5 times a power of ten, so that `span` needs at most `bins` steps."""
    if span <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / bins))
    return next(power * f for f in (1, 2, 5, 10) if power * f * bins >= span * (1 - 1e-9))


def histogram(values: Sequence[tuple[float, str]], unit: str, *, whole: bool = False) -> str:
    """Return a histogram from 0. Each value has the class of its part of the bar."""
    largest = max((value for value, _ in values), default=0.0)
    step = nice_step(largest, MAX_BINS)
    if whole:
        step = max(1.0, step)
    count = max(1, math.floor(largest / step) + 1)
    bins: list[Counter[str]] = [Counter() for _ in range(count)]
    for value, kind in values:
        bins[min(count - 1, math.floor(value / step + 1e-9))][kind] += 1
    left, right, top, base = 30.0, 304.0, 8.0, 124.0
    most = max(part.total() for part in bins)
    tick = max(1.0, nice_step(most, 4))
    ceiling = math.ceil(most / tick) * tick
    width = (right - left) / count
    parts = []
    for number in range(round(ceiling / tick) + 1):
        y = base - (base - top) * number * tick / ceiling
        name = "base" if number == 0 else "grid"
        parts.append(f'<line class="{name}" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        label = f"{number * tick:g}"
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for place, found in enumerate(bins):
        y = base
        for kind in ("pass", "fail", "none"):
            height = (base - top) * found[kind] / ceiling
            y -= height
            if height:
                parts.append(
                    f'<rect class="bar {kind}" x="{left + place * width + 1:.1f}" y="{y:.1f}"'
                    f' width="{max(1.0, width - 2):.1f}" height="{height:.1f}"/>'
                )
    parts += _x_labels(count, step, left, width, base, whole=whole)
    middle = (left + right) / 2
    parts.append(f'<text x="{middle}" y="158" text-anchor="middle">{html.escape(unit)}</text>')
    return f'<svg viewBox="0 0 320 164" role="img">{"".join(parts)}</svg>'


def _x_labels(
    count: int, step: float, left: float, width: float, base: float, *, whole: bool
) -> Iterator[str]:
    """Yield the labels of the axis: below the bars for whole numbers, else at their edges."""
    centred = whole and step == 1
    last = count if centred else count + 1
    every = math.ceil(last / 6)
    for place in range(0, last, every):
        x = left + (place + (0.5 if centred else 0)) * width
        yield f'<text x="{x:.1f}" y="{base + 16}" text-anchor="middle">{place * step:g}</text>'


def chart(
    name: str,
    values: Sequence[tuple[float, str]],
    unit: str,
    show: Callable[[float | None], str],
    *,
    whole: bool = False,
) -> str:
    """Return a histogram with its title, or nothing without values."""
    if not values:
        return ""
    numbers = sorted(value for value, _ in values)
    facts = f"median {show(median(numbers))}, largest {show(numbers[-1])}"
    return (
        f'<figure class="card"><figcaption>{name}<small>{facts}</small></figcaption>'
        f"{histogram(values, unit, whole=whole)}</figure>"
    )
