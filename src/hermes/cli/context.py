"""What a subcommand works with: the home in force, its settings and the terminal."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import msgspec

from hermes.config.home import Home, use_home
from hermes.config.loader import Loaded, load
from hermes.core.errors import UsageError


class Cli:
    """One invocation of the command line."""

    def __init__(self, home: Home, stdin: TextIO, stdout: TextIO, stderr: TextIO) -> None:
        self.home = home
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._loaded: Loaded | None = None
        self.above: Callable[[str], bool] | None = None
        """Prints a line above what the user is typing; False when nobody is."""

    @classmethod
    def open(cls, profile: str | None) -> "Cli":
        home = Home.resolve(profile)
        use_home(home)
        return cls(home, sys.stdin, sys.stdout, sys.stderr)

    def load(self, overrides: Mapping[str, Any] | None = None) -> Loaded:
        """The settings, read once; `overrides` are what the command line said."""
        if self._loaded is None or overrides:
            self._loaded = load(self.home, overrides or {})
        return self._loaded

    @property
    def interactive(self) -> bool:
        return self.stdin.isatty() and self.stdout.isatty()

    def say(self, text: str) -> None:
        self.stdout.write(f"{text}\n")
        self.stdout.flush()

    def note(self, text: str) -> None:
        if self.above is not None and self.above(text):
            return
        self.stderr.write(f"{text}\n")
        self.stderr.flush()

    def json(self, value: Any) -> None:
        encoded = msgspec.json.format(msgspec.json.encode(value), indent=2)
        self.say(encoded.decode())

    def ask(self, prompt: str) -> str:
        if not self.interactive:
            raise UsageError(
                f"cannot ask {prompt.strip()!r}: this is not a terminal",
                hint="say it on the command line; --help shows how",
            )
        self.stdout.write(prompt)
        self.stdout.flush()
        return self.stdin.readline().rstrip("\n")
