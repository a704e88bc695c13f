"""Renderers: the agent's events as text on a terminal, as an answer in a pipe, as JSON lines."""

from collections.abc import Callable
from typing import Protocol, TextIO

import msgspec

from hermes.cli.style import Style
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    TextFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    to_json,
)
from hermes.core.model import FellBack, ReasoningDelta, Retrying, TextDelta
from hermes.tui.text import problem_lines, progress_lines, trouble_line

ARGUMENT_WIDTH = 60
PREVIEW_WIDTH = 76
CHOICES = "[o]nce, [s]ession, [a]lways, [N]o:"


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
            self._line(f"{style.accent('?')} {style.bold(visible(event.question))}")
            for number, choice in enumerate(event.choices, 1):
                self._line(f"  {number}. {visible(choice)}")
            self._write("  your number or words: " if event.choices else "  your answer: ")
            return
        if event.subject != self._announced:  # the line above does not show all of it
            for line in visible(event.subject).splitlines():
                self._line(f"  {style.bold(line)}")
        self._line(f"  {style.warn('⚠ ' + visible(event.reason))}")
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
                outcome = f"{one_line(visible(readable(event.result)))} ({event.seconds:.1f} s)"
                return [f"  {mark} {style.dim(outcome)}"]
            case Retrying() | FellBack():
                return [style.warn(trouble_line(event))]
            case Notice():
                return [style.warn(visible(event.text))]
            case TurnFinished():
                return [style.bad(line) for line in problem_lines(event)]
            case _:
                return [style.dim(_brief(line)) for line in progress_lines(event)]

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


def _brief(line: str) -> str:
    """Cut to fit, with its indent."""
    indent = line[: len(line) - len(line.lstrip())]
    return indent + one_line(visible(line))


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
