"""A program in a pseudo-terminal whose screen is emulated (pyte), with its scrollback."""

import os
import re
import select
import signal
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Self

import ptyprocess
import pyte

PATIENCE = 100.0
HISTORY = 20_000
KEYS = {
    "enter": "\r", "alt-enter": "\x1b\r", "escape": "\x1b", "tab": "\t", "up": "\x1b[A",
    "down": "\x1b[B", "left": "\x1b[D", "right": "\x1b[C", "backspace": "\x7f", "ctrl-a": "\x01",
    "ctrl-b": "\x02", "ctrl-c": "\x03", "ctrl-d": "\x04", "ctrl-e": "\x05", "ctrl-j": "\x0a",
    "ctrl-l": "\x0c", "ctrl-o": "\x0f", "ctrl-r": "\x12", "ctrl-u": "\x15", "ctrl-w": "\x17",
    "ctrl-z": "\x1a", "page-up": "\x1b[5~", "alt-v": "\x1bv", "shift-tab": "\x1b[Z",
    "shift-enter": "\x1b[13;2u",
}  # fmt: skip
PASTE_BEGIN, PASTE_END = "\x1b[200~", "\x1b[201~"
FAINT = re.compile(rb"\x1b\[2(?=[;m])")
PASTE_MODE = 2004 << 5
"""Pastes come between `PASTE_BEGIN` and `PASTE_END`, as pyte remembers it."""


class Unseen(AssertionError):
    """What was waited for did not come."""


class Emulated:
    """What is typed goes in, what is seen comes out as text."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        columns: int = 80,
        rows: int = 24,
        **variables: str,
    ) -> None:
        environment = {**os.environ, "TERM": "xterm-256color", **variables}
        for name in ("TMUX", "NO_COLOR", "COLORTERM"):
            environment.pop(name, None) if name not in variables else None
        self.screen = pyte.HistoryScreen(columns, rows, history=HISTORY, ratio=0.5)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = bytearray()
        """Everything the program wrote."""
        self._above: list[str] = []
        self._process = ptyprocess.PtyProcess.spawn(
            list(command), cwd=str(folder), env=environment, dimensions=(rows, columns)
        )

    @property
    def pid(self) -> int:
        pid: int = self._process.pid
        return pid

    @property
    def runs(self) -> bool:
        alive: bool = self._process.isalive()
        return alive

    # What is done and what is waited for can be chained: `it.type("x").press("enter").sees("y")`.

    def press(self, *keys: str) -> Self:
        """Keys by name."""
        for key in keys:
            self.type(KEYS[key])
        return self

    def say(self, text: str) -> Self:
        return self.type(text).press("enter")

    def paste(self, text: str) -> Self:
        return self.type(PASTE_BEGIN + text.replace("\n", "\r") + PASTE_END)

    def type(self, text: str) -> Self:
        data = text.encode()
        while data:  # a terminal takes only so much at a time
            self.look()
            done = os.write(self._process.fd, data[:512])
            data = data[done:]
        return self

    def resize(self, columns: int, rows: int) -> Self:
        self.look()
        self.screen.resize(rows, columns)
        self._process.setwinsize(rows, columns)
        return self

    def look(self, seconds: float = 0.0) -> bool:
        """Take in what was written, waiting for something to come; False when nothing came."""
        came = False
        while select.select([self._process.fd], [], [], 0.0 if came else seconds)[0]:
            try:
                data = os.read(self._process.fd, 65536)
            except OSError:  # Linux tells the end of a pseudo-terminal by an error
                break
            if not data:
                break
            self.raw += data
            # pyte prints the end of sequences of the kitty keyboard protocol, and ignores faint
            # text: that becomes struck-out text, which the program never writes.
            data = data.replace(b"\x1b[<u", b"").replace(b"\x1b[>1u", b"")
            self._stream.feed(FAINT.sub(b"\x1b[9", data))
            came = True
        return came

    @property
    def lines(self) -> list[str]:
        """The rows of the screen, without blanks at their ends."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()

    @property
    def everything(self) -> list[str]:
        """What scrolled out, and the screen."""
        top = self.screen.history.top
        if len(top) < len(self._above):  # it was cleared
            self._above.clear()
        for row in islice(top, len(self._above), None):
            cells = "".join(row[x].data for x in range(max(row, default=-1) + 1))
            self._above.append(cells.rstrip())
        return self._above + self.lines

    def wait(self, until: Callable[[Any], bool], what: str) -> Self:
        """Until it is to be seen. The limit is generous: it only ends a test that has failed."""
        end = time.monotonic() + PATIENCE
        while not until(self):
            alive = self.runs
            if not self.look(0.1) and not alive and not until(self):
                raise Unseen(f"it ended without {what}:\n{self.text}")
            if time.monotonic() > end:
                raise Unseen(f"it never came to {what}:\n{self.text}")
        return self

    def sees(self, text: str) -> Self:
        """Wait for a text on the screen or above it."""
        return self.wait(lambda it: any(text in line for line in it.everything), repr(text))

    def sees_last(self, text: str) -> Self:
        """Wait for a text on the screen itself."""
        return self.wait(lambda it: text in it.text, repr(text))

    def gone(self, text: str) -> Self:
        return self.wait(lambda it: text not in it.text, f"the end of {text!r}")

    def settled(self, seconds: float = 0.3) -> Self:
        """Until nothing has been written for a while."""
        while self.look(seconds):
            pass
        return self

    def ended(self) -> int:
        """Wait for the program's end; its exit code, negative for a signal."""
        end = time.monotonic() + PATIENCE
        while self.runs:
            self.look(0.02)
            if time.monotonic() > end:
                raise Unseen(f"it did not end:\n{self.text}")
        self.look()
        return self._code

    def hung_up(self) -> int:
        """Close the window and wait for the program's end; its exit code as above."""
        self._process.fileobj.close()
        end = time.monotonic() + PATIENCE
        while self.runs:
            time.sleep(0.02)
            if time.monotonic() > end:
                raise Unseen("it did not end")
        return self._code

    @property
    def _code(self) -> int:
        number = self._process.signalstatus
        code: int = -number if number else self._process.exitstatus
        return code

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    @property
    def modes(self) -> list[object]:
        """How the terminal handles what is typed and written, as `termios` tells it."""
        return termios.tcgetattr(self._process.fd)

    @property
    def is_restored(self) -> bool:
        """Whether the cursor is shown and pastes come as they are."""
        return not self.screen.cursor.hidden and PASTE_MODE not in self.screen.mode

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        if self.runs:
            self._process.wait()
        self._process.fileobj.close()
