"""The line that tells how things stand."""

import msgspec

from hermes.tui.cells import cut, width
from hermes.tui.paint import Paint

WIDE, MEDIUM = 76, 52
"""Columns from which more is shown."""
BAR = 8
CONTEXT_ROLES = ((0.95, "error"), (0.80, "warn"), (0.50, "accent"))
"""From which share of the window on the context is shown in which role."""


class Standing(msgspec.Struct, frozen=True):
    model: str
    share: float | None = None
    """How full the context is; None when that is not known."""
    cache: float | None = None
    """Share of the input that the cache had; None before the first call."""
    cost: float | None = None
    """Dollars of this session; None when a price is not known or costs are not wanted."""
    seconds: float = 0.0
    """Since the turn began, or how long the last one took."""
    notes: tuple[str, ...] = ()
    """What else is to be known: queued messages, background tasks, that nobody is asked."""


def status_line(standing: Standing, columns: int, paint: Paint) -> str:
    """At most `columns` wide; what matters least is left out first."""
    model = standing.model.rpartition("/")[2]
    parts = [paint("strong", cut(model, max(10, columns // 3)))]
    if standing.share is not None:
        parts.append(_context(standing.share, columns, paint))
    if columns >= MEDIUM:
        if standing.cache is not None:
            parts.append(f"cache {standing.cache:.0%}")
        if standing.cost is not None:
            parts.append(money(standing.cost))
    if columns >= WIDE and standing.seconds:
        parts.append(duration(standing.seconds))
    parts += [paint("warn", note) for note in standing.notes]
    gap = paint("dim", " │ ")
    while len(parts) > 1 and width(gap.join(parts)) > columns:
        parts.pop()
    return gap.join(parts)


def _context(share: float, columns: int, paint: Paint) -> str:
    role = next((role for least, role in CONTEXT_ROLES if share >= least), "ok")
    if columns < WIDE:
        return paint(role, f"{share:.0%}")
    full = min(BAR, round(share * BAR))
    return paint(role, f"{'█' * full}{'░' * (BAR - full)} {share:.0%}")


def money(dollars: float) -> str:
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}" if dollars else "$0"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"
