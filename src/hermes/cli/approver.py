"""Asking the person at the terminal."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TextIO

from hermes.core.events import ApprovalAsked, QuestionAsked
from hermes.core.ports import Consent

ANSWERS = {
    "y": Consent.ONCE,
    "yes": Consent.ONCE,
    "o": Consent.ONCE,
    "once": Consent.ONCE,
    "s": Consent.SESSION,
    "session": Consent.SESSION,
    "a": Consent.ALWAYS,
    "always": Consent.ALWAYS,
}


class TerminalApprover:
    """Reads the answer to a question; where consent is asked, anything but a clear yes is a no.

    The question is an event among others, so the renderer shows it in its turn and then calls
    `shown`; only then is the answer read.
    """

    def __init__(self, stdin: TextIO, stdout: TextIO) -> None:
        self._stdin, self._stdout = stdin, stdout
        self._on_screen = asyncio.Event()

    def shown(self) -> None:
        self._on_screen.set()

    async def ask(self, question: ApprovalAsked) -> Consent:  # noqa: ARG002 - it is on the screen
        answer = await self._answer()
        return ANSWERS.get(answer.strip().lower(), Consent.DENY)

    async def clarify(self, question: QuestionAsked) -> str:
        """The answer; a number stands for a choice."""
        answer = (await self._answer()).strip()
        choices = dict(enumerate(question.choices, 1))
        return choices.get(int(answer), answer) if answer.isdecimal() else answer

    async def secret(self, name: str, prompt: str, how: str) -> str:
        """A value that is not shown while it is typed; "" when the user skips it."""
        lines = [f"  🔑 {prompt} ({name})", *([f"     {how}"] if how else [])]
        self._stdout.write("\n".join(lines) + "\n     not shown; Enter skips it: ")
        self._stdout.flush()
        with unseen(self._stdin):
            try:
                return (await read_line(self._stdin)).strip()
            finally:
                self._stdout.write("\n")

    async def _answer(self) -> str:
        self._on_screen.clear()
        await self._on_screen.wait()
        try:
            return await read_line(self._stdin)
        except asyncio.CancelledError:
            self._stdout.write("\n")  # as the Enter of an answer would have done
            raise


@contextmanager
def unseen(stream: TextIO) -> Iterator[None]:
    """Within it the terminal does not show what is typed."""
    termios = import_module("termios")  # not on every system
    before = termios.tcgetattr(stream)
    hidden = termios.tcgetattr(stream)
    hidden[3] &= ~termios.ECHO
    termios.tcsetattr(stream, termios.TCSAFLUSH, hidden)
    try:
        yield
    finally:
        termios.tcsetattr(stream, termios.TCSAFLUSH, before)


async def read_line(stream: TextIO) -> str:
    """A line from a terminal, without a thread that a timeout or Ctrl-C would leave behind."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(stream.fileno(), wake)
    try:
        await ready
    finally:
        loop.remove_reader(stream.fileno())
    # A terminal hands over whole lines, so this does not block.
    return stream.readline()
