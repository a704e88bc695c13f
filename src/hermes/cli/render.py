"""Renderers: the agent's events as text on a terminal, as an answer in a pipe, as JSON lines."""

from collections.abc import Callable
from typing import Protocol, TextIO

import msgspec

from hermes.cli.style import Style
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Compacted,
    CompactionStarted,
    Event,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    SubagentFinished,
    SubagentProgress,
    SubagentStarted,
    TextFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    to_json,
)
from hermes.core.model import FellBack, ReasoningDelta, Retrying, TextDelta
from hermes.util.text import many

ARGUMENT_WIDTH = 60
PREVIEW_WIDTH = 76
CHOICES = "[o]nce, [s]ession, [a]lways, [N]o:"


EARLY_ENDS = {
    "max_iterations": "stopped: the step limit of this turn was reached; --max-turns raises it",
    "iteration_budget": "stopped: the turn and its subagents used up their steps; --max-turns "
    "raises them",
    "repeating": "stopped: calls failed again and again",
    "truncated": "the reply was cut at the model's output limit",
    "empty": "the model gave no answer; ask again, or choose another model",
}
"""What a turn that ended without an error, but early, is called."""


class ErrorResult(msgspec.Struct):
    error: str


class Renderer(Protocol):
    def show(self, event: Event) -> None: ...


class JsonLines:
    """Every event, a JSON object a line."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout

    def show(self, event: Event) -> None:
        self._stdout.write(to_json(event).decode() + "\n")
        self._stdout.flush()


class AnswerOnly:
    """The final answer on stdout and nothing else; problems on stderr."""

    def __init__(self, stdout: TextIO, stderr: TextIO) -> None:
        self._stdout, self._stderr = stdout, stderr

    def show(self, event: Event) -> None:
        if not isinstance(event, TurnFinished):
            return
        if event.text:
            self._stdout.write(event.text + "\n")
            self._stdout.flush()
        for line in problem_lines(event):
            self._stderr.write(line + "\n")


class Terminal:
    """Text as it comes, a line for each tool call, and how it went."""

    def __init__(
        self,
        stdout: TextIO,
        style: Style,
        *,
        reasoning: bool = False,
        question_shown: Callable[[], None] = lambda: None,
    ) -> None:
        self._stdout, self._style, self._reasoning = stdout, style, reasoning
        self._question_shown = question_shown
        self._at_line_start = True
        self._announced = ""

    def show(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._write(event.text)
            case ReasoningDelta() if self._reasoning:
                self._write(self._style.dim(event.text))
            case TextFinished():
                self._end_line()
            case ApprovalAsked() | QuestionAsked():
                self._ask(event)
                self._question_shown()
            case ApprovalAnswered() | QuestionAnswered():
                self._at_line_start = True
            case _:
                for line in self._lines(event):
                    self._line(line)

    def _ask(self, event: ApprovalAsked | QuestionAsked) -> None:
        style = self._style
        if isinstance(event, QuestionAsked):
            self._line(f"{style.accent('?')} {style.bold(event.question)}")
            for number, choice in enumerate(event.choices, 1):
                self._line(f"  {number}. {choice}")
            self._write("  your number or words: " if event.choices else "  your answer: ")
            return
        if event.subject != self._announced:  # the line above does not show all of it
            for line in visible(event.subject).splitlines():
                self._line(f"  {style.bold(line)}")
        self._line(f"  {style.warn('⚠ ' + event.reason)}")
        self._write(f"  {style.bold('allow?')} {CHOICES} ")

    def _lines(self, event: Event) -> list[str]:
        """What an event that is not text adds to the screen; most add nothing."""
        style = self._style
        match event:
            case ToolStarted(call=call):
                self._announced = brief_arguments(call.arguments)
                return [f"{style.accent('●')} {call.name} {self._announced}"]
            case ToolFinished():
                mark = style.bad("✗") if event.failed else style.dim("↳")
                outcome = f"{one_line(readable(event.result))} ({event.seconds:.1f} s)"
                return [f"  {mark} {style.dim(outcome)}"]
            case Retrying():
                return [style.warn(f"{event.error}; trying again in {event.seconds:.0f} s")]
            case FellBack():
                return [style.warn(f"{event.error}; {event.model} on {event.provider} takes over")]
            case Notice():
                return [style.warn(event.text)]
            case TurnFinished():
                return [style.bad(line) for line in problem_lines(event)]
            case _:
                return [style.dim(line) for line in progress_lines(event)]

    def _write(self, text: str) -> None:
        self._stdout.write(text)
        self._stdout.flush()
        self._at_line_start = text.endswith("\n")

    def _line(self, text: str) -> None:
        self._end_line()
        self._write(text + "\n")

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")


def progress_lines(event: Event) -> list[str]:
    """What happens beside text and tools; nothing of most events."""
    match event:
        case CompactionStarted():
            return [f"compacting the conversation ({event.tokens:,} tokens) …"]
        case Compacted():
            before, after = f"{event.tokens_before:,}", f"{event.tokens_after:,}"
            return [f"compacted: {before} to {after} tokens, now session {event.session_id}"]
        case SubagentStarted():
            return [f"  [{event.child + 1}] {one_line(event.goal)}"]
        case SubagentProgress():
            return [f"  [{event.child + 1}] {one_line(event.text)}"]
        case SubagentFinished():
            calls = f"{many(event.api_calls, 'model call')}, {event.seconds:.1f} s"
            return [f"  [{event.child + 1}] {event.status} ({calls})"]
        case _:
            return []


def problem_lines(end: TurnFinished) -> list[str]:
    """What went wrong in a turn, if anything, and what to do about it."""
    if end.exit_reason in EARLY_ENDS:
        return [f"({EARLY_ENDS[end.exit_reason]})"]
    if not end.error:
        return []
    return [f"hermes: {end.error}"] + ([f"  {end.hint}"] if end.hint else [])


def brief_arguments(arguments: str) -> str:
    """The arguments of a call in a few words: values alone, the long ones cut."""
    try:
        values = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return one_line(arguments, ARGUMENT_WIDTH)
    if not isinstance(values, dict):
        return one_line(arguments, ARGUMENT_WIDTH)
    shown = [value if isinstance(value, str) else str(value) for value in values.values()]
    return one_line("  ".join(shown), ARGUMENT_WIDTH)


def readable(result: str) -> str:
    """A tool's result for people: of an error object, the error."""
    if not result.startswith('{"error"'):
        return result
    try:
        return msgspec.json.decode(result, type=ErrorResult).error
    except msgspec.DecodeError:
        return result


def visible(text: str) -> str:
    """The text with every character that would hide or change something shown as `\\xNN`."""
    return "".join(
        each if each == "\n" or each.isprintable() else each.encode("unicode_escape").decode()
        for each in text
    )


def one_line(text: str, width: int = PREVIEW_WIDTH) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
