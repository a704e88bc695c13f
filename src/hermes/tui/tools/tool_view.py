"""The tool calls of a turn on their way to the terminal."""

from collections.abc import Mapping
from types import MappingProxyType

from hermes.core.events import (
    SubagentFinished,
    SubagentProgress,
    SubagentStarted,
    ToolFinished,
    ToolOutput,
    ToolStarted,
)
from hermes.tui.cells import one_line
from hermes.tui.looks import Looks
from hermes.tui.status_bar import duration
from hermes.tui.tools.bodies import argument_rows, body
from hermes.tui.tools.calls import Call
from hermes.tui.tools.diffs import Line, changes
from hermes.tui.tools.lines import INDENT, headline
from hermes.tui.tools.outcomes import Mark, Outcome, outcome_of
from hermes.tui.tools.running import Running, running_lines
from hermes.util.text import many

MARKS: Mapping[Mark, tuple[str, str]] = MappingProxyType(
    {"ok": ("ok", "✓"), "failed": ("error", "✗"), "stopped": ("warn", "■")}
)
"""Role and sign."""
LEAST_SECONDS = 0.1
"""Shorter times are not told."""
USUAL_COLUMNS = 80


class ToolView:
    """Tool calls of a turn: those that run, for the area that is repainted, and finished ones as
    lines. How they look is read from `looks` at each call, as it may change."""

    def __init__(self, looks: Looks) -> None:
        self._looks = looks
        self._running: dict[str, Running] = {}
        self._columns = USUAL_COLUMNS
        self._last = ""
        self._repeats = 0

    def started(self, event: ToolStarted) -> None:
        self._running[event.call.id] = Running(event.call)

    def output(self, event: ToolOutput) -> None:
        if (running := self._running.get(event.call_id)) is not None:
            running.add_output(event.text)

    def subagent(self, event: SubagentStarted | SubagentProgress | SubagentFinished) -> None:
        if (running := self._running.get(event.call_id)) is not None:
            running.subagent(event)

    def running(self, columns: int, now: float) -> list[str]:
        """The calls that run; `now` may be of any clock that counts seconds."""
        self._columns = columns
        if self._looks.tool_progress == "off":
            return []
        return running_lines(self._running.values(), self._looks, columns, now)

    def finished(self, event: ToolFinished, columns: int) -> list[str]:
        self._columns = columns
        running = self._running.pop(event.call_id, None)
        if self._looks.tool_progress == "off":
            return []
        call = running.call if running is not None else Call(event.name)
        outcome = outcome_of(call, event)
        if self._looks.tool_progress == "new" and outcome.mark == "ok" and call.name == self._last:
            self._repeats += 1
            return []
        lines = [*self.settled(), *self._shown(call, outcome, event)]
        self._last = call.name
        return lines

    def settled(self) -> list[str]:
        """With `tool_progress: new`, how often the last tool was used again since its line. For
        when something else is going to be printed, and for the end of a turn."""
        repeats, self._repeats = self._repeats, 0
        if not repeats:
            return []
        text = f"and {many(repeats, 'more call')} of {self._last}"
        return [INDENT + self._looks.paint("dim", one_line(text, self._columns - len(INDENT)))]

    def interrupted(self) -> list[str]:
        """Calls that never finished, as wide as the last lines were."""
        calls = [running.call for running in self._running.values()]
        self._running.clear()
        if self._looks.tool_progress == "off":
            return []
        stopped = [
            headline(call, self._looks, self._columns, ["stopped"], MARKS["stopped"])
            for call in calls
        ]
        return [*self.settled(), *stopped]

    def _shown(self, call: Call, outcome: Outcome, event: ToolFinished) -> list[str]:
        looks, columns = self._looks, self._columns
        diff = changes(call, event.result) if outcome.mark == "ok" else []
        took = duration(event.seconds) if event.seconds >= LEAST_SECONDS else ""
        notes = [_counts(diff) or outcome.note, took]
        lines = [headline(call, looks, columns, notes, MARKS[outcome.mark])]
        if looks.tool_progress == "verbose":
            lines += argument_rows(call, looks, columns, diff=bool(diff))
            return [*lines, *body(call, outcome, diff, looks, columns, "full")]
        return [*lines, *body(call, outcome, diff, looks, columns, looks.results)]


def _counts(diff: list[Line]) -> str:
    """`+3 -1`, when that is all of it."""
    kinds = [line.kind for line in diff]
    added, removed = kinds.count("added"), kinds.count("removed")
    told = f"{f'+{added} ' if added else ''}{f'-{removed}' if removed else ''}".rstrip()
    return "" if "more" in kinds else told
