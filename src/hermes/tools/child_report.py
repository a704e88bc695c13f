"""What a subagent did, as seen in its events: a line for each step, and a result at the end."""

from collections import deque
from typing import Literal

import msgspec

from hermes.core.events import (
    Event,
    ModelCalled,
    SubagentProgress,
    TextFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from hermes.core.messages import ToolCall
from hermes.core.model import FellBack, Retrying, TextDelta
from hermes.core.ports import ChildResult

LINE_WIDTH = 100
MOST_CALLS = 40
"""Finished calls told about a subagent that did not come to its end."""

Stopped = Literal["interrupted", "timeout"]
Status = Literal["completed", "failed", "interrupted", "timeout"]


class ChildReport:
    """Takes note of one turn of a subagent."""

    def __init__(self) -> None:
        self.error = ""
        """What went wrong outside of the turn: it could not start, or broke off."""
        self._end: TurnFinished | None = None
        self._api_calls = self._done = 0
        self._text = ""
        self._unfinished: list[str] = []
        self._running: dict[str, str] = {}
        self._calls: deque[str] = deque(maxlen=MOST_CALLS)

    def see(self, event: Event) -> str:
        """One line about a step worth showing, else ""."""
        match event:
            case ModelCalled() | Retrying() | FellBack():
                self._api_calls += isinstance(event, ModelCalled)
                self._unfinished.clear()
            case TextDelta():
                self._unfinished.append(event.text)
            case TextFinished():
                self._text = event.text
                self._unfinished.clear()
                return _short(event.text)
            case ToolStarted(call=call):
                self._running[call.id] = line = _line(call)
                return line
            case ToolFinished():
                self._done += 1
                line = self._running.pop(event.call_id, event.name)
                self._calls.append(f"{line} (failed)" if event.failed else line)
            case SubagentProgress():
                return event.text
            case TurnFinished():
                self._end = event
        return ""

    def result(self, session_id: str, seconds: float, stopped: Stopped | None) -> ChildResult:
        """`stopped` says why the subagent was told to stop, if it was; it may have ended before."""
        status, end = self._status(stopped), self._end
        if end is None:
            return ChildResult(
                status, self._so_far(), session_id, self._api_calls, seconds, self.error
            )
        early = f"it ended early: {end.exit_reason}"
        error = self.error or _with_hint(end.error, end.hint) or early
        return ChildResult(
            status,
            self._so_far() if end.error or end.exit_reason == "empty" else end.text,
            session_id,
            end.api_calls,
            seconds,
            "" if status == "completed" else error,
        )

    def _status(self, stopped: Stopped | None) -> Status:
        if self._end is not None and self._end.completed:
            return "completed"
        if stopped is None and self._end is not None and self._end.interrupted:
            return "interrupted"
        return stopped or "failed"

    def _so_far(self) -> str:
        """The last words and the finished calls of a subagent that did not sum up."""
        texts = (self._text.strip(), "".join(self._unfinished).strip())
        said = [text for text in texts if text]
        if self._calls:
            last = f", the last {len(self._calls)}" if self._done > len(self._calls) else ""
            said.append("\n- ".join([f"Finished calls ({self._done}{last}):", *self._calls]))
        return "\n\n".join(said)


def _line(call: ToolCall) -> str:
    """The tool and the first text among its arguments: a path, a command, a question."""
    try:
        given = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        given = None
    values = given.values() if isinstance(given, dict) else ()
    return _short(f"{call.name} {next((each for each in values if isinstance(each, str)), '')}")


def _short(text: str) -> str:
    line = " ".join(text[: 10 * LINE_WIDTH].split())
    return line if len(line) <= LINE_WIDTH else line[: LINE_WIDTH - 1] + "…"


def _with_hint(error: str, hint: str) -> str:
    return f"{error} ({hint})" if error and hint else error
