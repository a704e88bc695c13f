"""What a script hears of its agent while it works."""

import asyncio
import sys
from collections.abc import Callable, Sequence

import msgspec

from hermes.core.events import (
    Event,
    Notice,
    QuestionAsked,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from hermes.core.model import ReasoningDelta, TextDelta
from hermes.core.ports import Clarifier

LONGEST = 100
"""Characters of a call's arguments in a line about it."""


class Callbacks(msgspec.Struct, frozen=True):
    """Each is called in the agent's thread and must be quick; `on_question` may take its time."""

    on_event: Callable[[Event], None] | None = None
    """Every event; see `hermes.core.events`."""
    on_text: Callable[[str], None] | None = None
    """The answer, piece by piece."""
    on_reasoning: Callable[[str], None] | None = None
    on_tool: Callable[[str, str], None] | None = None
    """The name and the arguments (JSON) of each tool that starts."""
    on_question: Callable[[str, Sequence[str]], str] | None = None
    """Answers what the agent asks, given the choices it offers."""
    quiet: bool = True
    """False: standard error tells what the agent does."""

    @property
    def clarifier(self) -> Clarifier | None:
        return None if self.on_question is None else _Asking(self.on_question)

    def see(self, event: Event) -> None:
        if self.on_event is not None:
            self.on_event(event)
        match event:
            case TextDelta() if self.on_text is not None:
                self.on_text(event.text)
            case ReasoningDelta() if self.on_reasoning is not None:
                self.on_reasoning(event.text)
            case ToolStarted() if self.on_tool is not None:
                self.on_tool(event.call.name, event.call.arguments)
            case _:
                pass
        if not self.quiet and (line := _line(event)):
            self.tell(line)

    def tell(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")

    @property
    def progress(self) -> "_Progress":
        return _Progress(str if self.quiet else self.tell)


class _Progress:
    """What is told of a model that has to be fetched first."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell

    def report(self, label: str, done: int, total: int) -> None:
        """Too often for lines of text."""

    def say(self, text: str) -> None:
        self._tell(text)


class _Asking:
    def __init__(self, answer: Callable[[str, Sequence[str]], str]) -> None:
        self._answer = answer

    async def clarify(self, question: QuestionAsked) -> str:
        return await asyncio.to_thread(self._answer, question.question, question.choices)


def _line(event: Event) -> str:
    match event:
        case ToolStarted():
            return f"· {event.call.name} {event.call.arguments[:LONGEST]}"
        case ToolFinished() if event.failed:
            return f"  {event.name} failed: {event.result[:LONGEST]}"
        case Notice():
            return event.text
        case TurnFinished() if event.error:
            return f"{event.exit_reason}: {event.error}"
        case _:
            return ""
