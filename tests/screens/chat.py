"""A conversation with the agent on an emulated screen."""

import re
import sys
from collections.abc import Sequence
from difflib import ndiff
from pathlib import Path
from typing import Self

from tests.screens.emulated import Emulated, Unseen

HERMES = [sys.executable, "-I", "-m", "hermes"]
PROMPT = "❯"
STARTING, WORKING = "starting …", "ctrl-c stops"
GREETING = "Alt-Enter begins a new line"


class Chat(Emulated):
    """`hermes` in a terminal."""

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        *,
        columns: int = 80,
        rows: int = 24,
        program: Sequence[str] = HERMES,
        **variables: str,
    ) -> None:
        command = [*program, *arguments]
        super().__init__(command, folder, columns=columns, rows=rows, **variables)

    def ready(self) -> Self:
        """Until nothing runs and something can be typed."""
        busy = (STARTING, WORKING)
        return self.wait(
            lambda it: it.input == [PROMPT] and not any(word in it.text for word in busy),
            "the prompt",
        )

    def ask(self, question: str, answer: str) -> Self:
        """Say something, and wait for the end of the answer."""
        return self.say(question).sees(answer).ready()

    def leave(self) -> int:
        """By Ctrl-D; the exit code."""
        self.press("ctrl-d")
        return self.ended()

    @property
    def shown(self) -> list[str]:
        """The rows of the screen that hold something, and what is between them."""
        return self.text.split("\n")

    @property
    def input(self) -> list[str]:
        """The rows from the prompt on."""
        lines = self.shown
        starts = [at for at, line in enumerate(lines) if line.startswith(PROMPT)]
        return lines[starts[-1] :] if starts else []

    @property
    def talk(self) -> list[str]:
        """What was said so far: from the first question to the area. What differs from run to run
        is made the same."""
        lines = _without_blanks(self.everything)
        if self.runs:
            lines = _without_blanks(lines[: -len(self.input) - 2])  # with the status bar and rule
        start = next((at for at, line in enumerate(lines) if line.startswith(PROMPT)), len(lines))
        return steady(lines[start:])

    def reads(self, text: str) -> Self:
        """Wait until this is the talk, from where its first line was last said."""
        wanted = text.strip("\n").split("\n")

        def part() -> list[str]:
            talk = self.talk
            return talk[max((at for at, line in enumerate(talk) if line == wanted[0]), default=0) :]

        try:
            return self.wait(lambda _it: part() == wanted, "this talk")
        except Unseen:
            raise Unseen("\n".join(ndiff(wanted, part()))) from None


def _without_blanks(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


def steady(lines: list[str]) -> list[str]:
    """Replace shares and times, which vary, and drop short times."""
    lines = [re.sub(r" · \d+(\.\d+)? s( [✓✗■])", r"\2", line) for line in lines]
    return [re.sub(r"\d+(\.\d+)?( s|%)", r"N\2", line) for line in lines]
