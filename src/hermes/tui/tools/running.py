"""Tool calls that run, for the area that is painted again and again."""

from collections.abc import Iterable

from hermes.core.events import SubagentFinished, SubagentProgress, SubagentStarted
from hermes.core.messages import ToolCall
from hermes.tui.cells import cut, one_line, safe
from hermes.tui.looks import Looks
from hermes.tui.status_bar import duration
from hermes.tui.tools.calls import call_of
from hermes.tui.tools.lines import INDENT, headline

MOST_LINES = 8
"""Lines of all running calls together."""
MOST_OUTPUT = 3
"""Lines of the output of one of them."""
KEPT = 4_000
"""Characters of output that are kept."""


class Running:
    """One call. Its time begins when it is first painted."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call_of(call)
        self._began: float | None = None
        self._output = ""
        self._children: dict[int, str] = {}

    def add_output(self, text: str) -> None:
        self._output = (self._output + text[-KEPT:])[-KEPT:]

    def subagent(self, event: SubagentStarted | SubagentProgress | SubagentFinished) -> None:
        self._children[event.child] = _doing(event)[:KEPT]

    def head(self, looks: Looks, columns: int, now: float) -> str:
        began = self._began = now if self._began is None else self._began
        return headline(self.call, looks, columns, [f"{max(0, int(now - began))} s"])

    def below(self, looks: Looks, columns: int, most: int) -> list[str]:
        """What its subagents do, or its last lines of output."""
        room = columns - len(INDENT)
        if self._children:
            lines = [
                one_line(f"[{child + 1}] {text}", room)
                for child, text in sorted(self._children.items())
            ]
            few = lines[:most]
        else:
            few = [cut(line, room) for line in self._last_lines(min(most, MOST_OUTPUT))]
        return [INDENT + looks.paint("dim", line) for line in few]

    def _last_lines(self, most: int) -> list[str]:
        """What a program wrote over with a carriage return is gone, as it would be on a screen."""
        lines = (line.rstrip("\r").rpartition("\r")[2] for line in self._output.split("\n"))
        shown = [safe(line).replace("\n", " ").rstrip() for line in lines if line.strip()]
        return shown[-most:] if most > 0 else []


def _doing(event: SubagentStarted | SubagentProgress | SubagentFinished) -> str:
    match event:
        case SubagentStarted():
            return event.goal
        case SubagentProgress():
            return event.text
        case SubagentFinished():
            return f"{event.status}, {duration(event.seconds)}"


def running_lines(calls: Iterable[Running], looks: Looks, columns: int, now: float) -> list[str]:
    """A line for each call, and output below it as far as there is room."""
    every = list(calls)
    few = every if len(every) <= MOST_LINES else every[: MOST_LINES - 1]
    room = MOST_LINES - len(few) if looks.activity != "hidden" else 0
    lines: list[str] = []
    for call in few:
        below = call.below(looks, columns, room if len(few) == len(every) else 0)
        lines += [call.head(looks, columns, now), *below]
        room -= len(below)
    if len(few) < len(every):
        lines.append(
            INDENT
            + looks.paint("dim", cut(f"… +{len(every) - len(few)} more", columns - len(INDENT)))
        )
    return lines
