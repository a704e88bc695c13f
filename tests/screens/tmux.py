"""A program in a real terminal multiplexer, which breaks lines anew when it is resized."""

import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

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
        **variables: str,
    ) -> None:
        self._socket = folder / "tmux.socket"
        more = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
        size = ["-x", str(columns), "-y", str(rows)]
        kept = f"{shlex.join(command)}; echo ended with $?; sleep 600"
        self("-f", "/dev/null", "new-session", "-d", "-s", "it", *size, *more, "-c", folder, kept)
        self("set-option", "-g", "history-limit", "20000")

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

    def sees(self, text: str) -> Self:
        end = time.monotonic() + PATIENCE
        while not any(text in line for line in self.everything):
            if time.monotonic() > end:
                raise AssertionError(f"{text!r} never came:\n{self.text}")
            time.sleep(0.05)
        return self

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
