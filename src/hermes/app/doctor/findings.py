"""What a check found."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    from hermes.app.doctor.scene import Scene

Level = Literal["ok", "warning", "problem"]
LEVELS: tuple[Level, ...] = ("ok", "warning", "problem")

Mend = Callable[[], str]
"""Mends it without losing anything, and says what it did."""


class Finding(msgspec.Struct, frozen=True):
    level: Level
    text: str
    """What is so, in one line."""
    advice: str = ""
    """What to do about it, in one line."""
    mend: Mend | None = None
    """What `--fix` does."""


def fine(text: str) -> Finding:
    return Finding("ok", text)


def warning(text: str, advice: str, mend: Mend | None = None) -> Finding:
    return Finding("warning", text, advice, mend)


def problem(text: str, advice: str, mend: Mend | None = None) -> Finding:
    return Finding("problem", text, advice, mend)


Found = list[Finding]


class Check(NamedTuple):
    """One row of the table of checks."""

    group: str
    name: str
    look: "Callable[[Scene], Found] | Callable[[Scene], Awaitable[Found]]"
    """A plain function runs in a thread of its own."""
    online: bool = False
    """It asks other machines: left out with `--offline`."""
    needs_settings: bool = True
    """It cannot be made where no settings could be read at all."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of one check."""

    group: str
    name: str
    found: tuple[Finding, ...]
    mended: tuple[str, ...] = ()
    """What was done about it; `found` is how it is afterwards."""
    seconds: float = 0.0

    @property
    def level(self) -> Level:
        ranks = [LEVELS.index(each.level) for each in self.found]
        return LEVELS[max(ranks, default=0)]
