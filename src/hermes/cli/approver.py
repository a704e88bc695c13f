"""Asking the person at the terminal."""

import asyncio
from typing import TextIO

from hermes.cli.style import Style
from hermes.core.events import ApprovalAsked
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
    """Shows what would be done and why it is dangerous; anything but a clear yes is a no."""

    def __init__(self, stdin: TextIO, stdout: TextIO, style: Style) -> None:
        self._stdin, self._stdout, self._style = stdin, stdout, style

    async def ask(self, question: ApprovalAsked) -> Consent:
        self._stdout.write(
            f"{self._style.warn('⚠ ' + question.reason)}\n"
            f"  {question.subject}\n"
            f"  {self._style.bold('allow?')} [o]nce, [s]ession, [a]lways, [N]o: "
        )
        self._stdout.flush()
        answer = await read_line(self._stdin)
        return ANSWERS.get(answer.strip().lower(), Consent.DENY)


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
