"""What is shown below the line of a finished call."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from hermes.tui.cells import one_line
from hermes.tui.looks import Level, Looks
from hermes.tui.tools.calls import Call, as_text
from hermes.tui.tools.diff_rows import diff_rows
from hermes.tui.tools.diffs import Line
from hermes.tui.tools.lines import INDENT, one_row_each, rows_of
from hermes.tui.tools.outcomes import Outcome
from hermes.tui.tools.todos import tasks, todo_rows


class Limits(msgspec.Struct, frozen=True):
    lines: int
    diff: int
    todos: int


LIMITS: Mapping[Level, Limits] = MappingProxyType(
    {"collapsed": Limits(4, 16, 16), "full": Limits(40, 60, 40)}
)
"""Rows at most, of each kind; of a text where there is little room, only as an error."""
_SHOWN_AS_DIFF = ("old_string", "new_string", "content", "patch")


def body(
    call: Call, outcome: Outcome, diff: Sequence[Line], looks: Looks, columns: int, level: Level
) -> list[str]:
    limits, paint = LIMITS.get(level), looks.paint
    if limits is None:
        return []
    if diff:
        return diff_rows(diff, columns, paint, limits.diff, whole=level == "full")
    if call.name == "todo" and tasks(outcome.text):
        rows = todo_rows(outcome.text, columns - len(INDENT), paint, limits.todos)
        return [INDENT + row for row in rows]
    if outcome.error:
        return rows_of(outcome.text, columns, paint, "error", limits.lines)
    if level == "collapsed":
        return one_row_each(outcome.brief, columns, paint, "dim")
    return rows_of(outcome.text, columns, paint, "dim", limits.lines) if outcome.text else []


def argument_rows(call: Call, looks: Looks, columns: int, *, diff: bool) -> list[str]:
    """Every argument by its name; without those that a diff shows."""
    left_out = _SHOWN_AS_DIFF if diff else ()
    given: Mapping[str, Any] = {"": call.unread} if call.unread else call.arguments
    text = "\n".join(
        _argument(name, value) for name, value in given.items() if name not in left_out
    )
    return rows_of(text, columns, looks.paint, "text", LIMITS["full"].lines) if text else []


def _argument(name: str, value: Any) -> str:
    text = as_text(value)
    label = one_line(name, 40)
    if "\n" not in text.strip("\n"):
        return f"{label}: {text}" if label else text
    return "\n".join([f"{label}:", *(f"  {line}" for line in text.strip("\n").split("\n"))])
