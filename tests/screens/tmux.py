"""A program in a real terminal multiplexer, which breaks lines anew when it is resized."""

import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pyte

from tests.screens.emulated import FAINT, Unseen

PATIENCE = 100.0


class Tmux:
    """One window of a tmux server of its own."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        columns: int = 80,
        rows: int = 24,
        socket: Path | None = None,
        **variables: str,
    ) -> None:
        self._socket = socket or folder / "tmux.socket"
        self._written = self._socket.with_suffix(".raw")
        self._written.touch()
        more = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
        size = ["-x", str(columns), "-y", str(rows)]
        kept = f"{shlex.join(command)}; echo ended with $?; sleep 600"
        self("-f", "/dev/null", "new-session", "-d", "-s", "it", *size, *more, "-c", folder, kept)
        self("set-option", "-g", "history-limit", "20000")
        self("pipe-pane", "-t", "it", f"cat >> {shlex.quote(str(self._written))}")

    def __call__(self, *arguments: object) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *map(str, arguments)],
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return done.stdout

    def type(self, text: str) -> Self:
        return self.press("-l", "--", text)

    def press(self, *keys: str) -> Self:
        """Keys as tmux calls them: Enter, C-c, M-Enter, Up …"""
        self("send-keys", "-t", "it", *keys)
        return self

    def say(self, text: str) -> Self:
        return self.type(text).press("Enter")

    def resize(self, columns: int, rows: int) -> Self:
        self("resize-window", "-t", "it", "-x", columns, "-y", rows)
        return self

    @property
    def text(self) -> str:
        """The screen."""
        return self("capture-pane", "-p", "-t", "it").rstrip()

    @property
    def everything(self) -> list[str]:
        """What scrolled out and the screen, with broken lines joined."""
        return self("capture-pane", "-p", "-J", "-S", "-", "-t", "it").rstrip().splitlines()

    @property
    def raw(self) -> bytes:
        """Everything the program wrote."""
        return self._written.read_bytes()

    @property
    def screen(self) -> pyte.Screen:
        """The screen with its colours."""
        columns, rows = map(
            int, self("display", "-p", "-t", "it", "#{pane_width} #{pane_height}").split()
        )
        screen = pyte.Screen(columns, rows)
        shown = self("capture-pane", "-e", "-N", "-p", "-t", "it").rstrip("\n").encode()
        # pyte ignores faint text, so it becomes struck-out text, as in an emulated terminal.
        pyte.ByteStream(screen).feed(FAINT.sub(b"\x1b[9", shown.replace(b"\n", b"\r\n")))
        return screen

    def wait(self, until: Callable[[Any], bool], what: str) -> Self:
        """Until it is to be seen. The limit is generous: it only ends a test that has failed."""
        end = time.monotonic() + PATIENCE
        while not until(self):
            if time.monotonic() > end:
                raise Unseen(f"it never came to {what}:\n{self.text}")
            time.sleep(0.05)
        return self

    def sees(self, text: str) -> Self:
        return self.wait(lambda it: any(text in line for line in it.everything), repr(text))

    def sees_last(self, text: str) -> Self:
        """Wait for a text on the screen itself."""
        return self.wait(lambda it: text in it.text, repr(text))

    def gone(self, text: str) -> Self:
        return self.wait(lambda it: text not in it.text, f"the end of {text!r}")

    def settled(self, seconds: float = 0.4) -> Self:
        """Until the screen has stayed the same for a while."""
        before, since = self.text, time.monotonic()
        while time.monotonic() - since < seconds:
            time.sleep(0.05)
            if (now := self.text) != before:
                before, since = now, time.monotonic()
        return self

    def close(self) -> None:
        subprocess.run(
            ["tmux", "-S", str(self._socket), "kill-server"], check=False, capture_output=True
        )
