"""The tool calls of a turn: running, finished and stopped."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hermes.core.events import (
    SubagentFinished,
    SubagentProgress,
    SubagentStarted,
    ToolFinished,
    ToolOutput,
    ToolStarted,
)
from hermes.core.messages import ToolCall
from hermes.tui.diffs import DiffLine, diff_rows, file_changes
from hermes.tui.display import DisplayState, Level
from hermes.tui.text import cut, format_duration, one_line, safe
from hermes.tui.tool_results import (
    INDENT,
    CallInfo,
    Mark,
    ToolOutcome,
    as_text,
    cut_rows,
    headline,
    parse_call,
    parse_outcome,
    parse_tasks,
    todo_rows,
    wrap_rows,
)
from hermes.util.text import many

MAX_ROWS = 8  #: Rows of all running calls together.
MAX_OUTPUT_CHARS = 4_000  #: Characters of output that are kept in memory.


class RunningCall:
    """A running call. Its time starts when it is first painted."""

    def __init__(self, call: ToolCall) -> None:
        self.call = parse_call(call)
        self._began: float | None = None
        self._output = ""
        self._children: dict[int, str] = {}

    def add_output(self, text: str) -> None:
        self._output = (self._output + text[-MAX_OUTPUT_CHARS:])[-MAX_OUTPUT_CHARS:]

    def subagent(self, event: SubagentStarted | SubagentProgress | SubagentFinished) -> None:
        self._children[event.child] = _subagent_text(event)[:MAX_OUTPUT_CHARS]

    def head(self, display: DisplayState, columns: int, now: float) -> str:
        began = self._began = now if self._began is None else self._began
        return headline(self.call, display, columns, [f"{max(0, int(now - began))} s"])

    def below(self, display: DisplayState, columns: int, most: int) -> list[str]:
        """Return the rows of its subagents, or its last lines of output."""
        room = columns - len(INDENT)
        if self._children:
            children = sorted(self._children.items())[:most]
            few = [one_line(f"[{child + 1}] {text}", room) for child, text in children]
        else:
            few = [cut(line, room) for line in self._last_lines(min(most, 3))]
        return [INDENT + display.paint("dim", line) for line in few]

    def _last_lines(self, most: int) -> list[str]:
        """Text before a carriage return is dropped, as on a screen."""
        lines = (line.rstrip("\r").rpartition("\r")[2] for line in self._output.split("\n"))
        shown = [safe(line).replace("\n", " ").rstrip() for line in lines if line.strip()]
        return shown[-most:] if most > 0 else []


def _subagent_text(event: SubagentStarted | SubagentProgress | SubagentFinished) -> str:
    match event:
        case SubagentStarted():
            return event.goal
        case SubagentProgress():
            return event.text
        case SubagentFinished():
            return f"{event.status}, {format_duration(event.seconds)}"


def running_lines(
    calls: Iterable[RunningCall], display: DisplayState, columns: int, now: float
) -> list[str]:
    """Return a row for each call, and output below it as far as rows are left."""
    every = list(calls)
    few = every if len(every) <= MAX_ROWS else every[: MAX_ROWS - 1]
    room = MAX_ROWS - len(few) if display.activity != "hidden" else 0
    lines: list[str] = []
    for call in few:
        below = call.below(display, columns, room if len(few) == len(every) else 0)
        lines += [call.head(display, columns, now), *below]
        room -= len(below)
    if len(few) < len(every):
        more = cut(f"… +{len(every) - len(few)} more", columns - len(INDENT))
        lines.append(INDENT + display.paint("dim", more))
    return lines


class RowLimits(msgspec.Struct, frozen=True):
    lines: int
    diff: int
    todos: int


LIMITS: Mapping[Level, RowLimits] = {
    "collapsed": RowLimits(4, 16, 16),
    "full": RowLimits(40, 60, 40),
}
"""Maximum rows of each kind. Collapsed results show a text only for errors."""


def result_rows(
    call: CallInfo,
    outcome: ToolOutcome,
    diff: Sequence[DiffLine],
    display: DisplayState,
    columns: int,
    level: Level,
) -> list[str]:
    limits, paint = LIMITS.get(level), display.paint
    if limits is None:
        return []
    if diff:
        return diff_rows(diff, columns, paint, limits.diff, whole=level == "full")
    if call.name == "todo" and parse_tasks(outcome.text):
        rows = todo_rows(outcome.text, columns - len(INDENT), paint, limits.todos)
        return [INDENT + row for row in rows]
    if outcome.error:
        return wrap_rows(outcome.text, columns, paint, "error", limits.lines)
    if level == "collapsed":
        return cut_rows(outcome.brief, columns, paint, "dim")
    return wrap_rows(outcome.text, columns, paint, "dim", limits.lines) if outcome.text else []


def argument_rows(call: CallInfo, display: DisplayState, columns: int, *, diff: bool) -> list[str]:
    """Return the arguments as rows, without those that the diff shows."""
    left_out = ("old_string", "new_string", "content", "patch") if diff else ()
    given: Mapping[str, Any] = {"": call.unread} if call.unread else call.arguments
    text = "\n".join(
        _format_argument(name, value) for name, value in given.items() if name not in left_out
    )
    return wrap_rows(text, columns, display.paint, "text", LIMITS["full"].lines) if text else []


def _format_argument(name: str, value: Any) -> str:
    text = as_text(value)
    label = one_line(name, 40)
    if "\n" not in text.strip("\n"):
        return f"{label}: {text}" if label else text
    return "\n".join([f"{label}:", *(f"  {line}" for line in text.strip("\n").split("\n"))])


MARKS: Mapping[Mark, tuple[str, str]] = {
    "ok": ("ok", "✓"),
    "failed": ("error", "✗"),
    "stopped": ("warn", "■"),
}
"""Role and symbol."""


class ToolView:
    """Shows the tool calls of a turn: running ones in the area, finished ones as lines.

    `DisplayState` is read at each call, because commands may change it.
    """

    def __init__(self, display: DisplayState) -> None:
        self._display = display
        self._running: dict[str, RunningCall] = {}
        self._columns = 80
        self._last = ""
        self._repeats = 0

    def started(self, event: ToolStarted) -> None:
        self._running[event.call.id] = RunningCall(event.call)

    def output(self, event: ToolOutput) -> None:
        if (running := self._running.get(event.call_id)) is not None:
            running.add_output(event.text)

    def subagent(self, event: SubagentStarted | SubagentProgress | SubagentFinished) -> None:
        if (running := self._running.get(event.call_id)) is not None:
            running.subagent(event)

    def running(self, columns: int, now: float) -> list[str]:
        """Return the rows of the running calls. `now` is in seconds of any clock."""
        self._columns = columns
        if self._display.tool_progress == "off":
            return []
        return running_lines(self._running.values(), self._display, columns, now)

    def finished(self, event: ToolFinished, columns: int) -> list[str]:
        self._columns = columns
        running = self._running.pop(event.call_id, None)
        if self._display.tool_progress == "off":
            return []
        call = running.call if running is not None else CallInfo(event.name)
        outcome = parse_outcome(call, event)
        is_repeated = outcome.mark == "ok" and call.name == self._last
        if self._display.tool_progress == "new" and is_repeated:
            self._repeats += 1
            return []
        lines = [*self.flush_repeats(), *self._finished_lines(call, outcome, event)]
        self._last = call.name
        return lines

    def flush_repeats(self) -> list[str]:
        """Return the number of repeated calls of the last tool, with `tool_progress: new`.

        Called before other output and at the end of a turn.
        """
        repeats, self._repeats = self._repeats, 0
        if not repeats:
            return []
        text = f"and {many(repeats, 'more call')} of {self._last}"
        return [INDENT + self._display.paint("dim", one_line(text, self._columns - len(INDENT)))]

    def stop_all(self) -> list[str]:
        """Return lines for the calls that did not finish, and forget them."""
        calls = [running.call for running in self._running.values()]
        self._running.clear()
        if self._display.tool_progress == "off":
            return []
        stopped = [
            headline(call, self._display, self._columns, ["stopped"], MARKS["stopped"])
            for call in calls
        ]
        return [*self.flush_repeats(), *stopped]

    def _finished_lines(
        self, call: CallInfo, outcome: ToolOutcome, event: ToolFinished
    ) -> list[str]:
        display, columns = self._display, self._columns
        diff = file_changes(call, event.result) if outcome.mark == "ok" else []
        took = format_duration(event.seconds) if event.seconds >= 0.1 else ""
        notes = [_change_counts(diff) or outcome.note, took]
        lines = [headline(call, display, columns, notes, MARKS[outcome.mark])]
        if display.tool_progress == "verbose":
            lines += argument_rows(call, display, columns, diff=bool(diff))
            return [*lines, *result_rows(call, outcome, diff, display, columns, "full")]
        return [*lines, *result_rows(call, outcome, diff, display, columns, display.results)]


def _change_counts(diff: list[DiffLine]) -> str:
    """Return `+3 -1`, or "" for an incomplete diff."""
    kinds = [line.kind for line in diff]
    added, removed = kinds.count("added"), kinds.count("removed")
    counts = f"{f'+{added} ' if added else ''}{f'-{removed}' if removed else ''}".rstrip()
    return "" if "more" in kinds else counts
