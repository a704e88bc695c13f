"""What a subcommand works with: the home in force, its settings and the terminal."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TextIO

import msgspec

from hermes.config.home import Home, use_home
from hermes.config.loader import Loaded, load
from hermes.core.errors import Interrupted, UsageError

UNASKED = "say it on the command line; --help shows how"
"""What to do where nobody can be asked."""


@contextmanager
def _ctrl_c_at_once() -> Iterator[None]:
    """An event loop would hear of Ctrl-C only after the answer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
        for root in {home.root, home.default_root}:
            if (root / ".import").exists():  # an import was cut short
                import_module("hermes.ops.restore").finish(Home(root))
        return cls(home, sys.stdin, sys.stdout, sys.stderr)

    def load(
        self, overrides: Mapping[str, Any] | None = None, *, user_config: bool = True
    ) -> Loaded:
        """The settings, read once; `overrides` are what the command line said."""
        if self._loaded is None or overrides or not user_config:
            self._loaded = load(self.home, overrides or {}, user_config=user_config)
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

    def ask(self, prompt: str, *, hint: str = UNASKED) -> str:
        if not self.interactive:
            raise _cannot_ask(prompt, hint)
        with _ctrl_c_at_once():
            self.stdout.write(prompt)
            self.stdout.flush()
            return self.stdin.readline().rstrip("\n")

    def ask_secret(self, prompt: str, *, hint: str = UNASKED) -> str:
        """A line that is not shown while it is typed. The question goes to the terminal itself,
        wherever the output goes."""
        if not self.stdin.isatty():
            raise _cannot_ask(prompt, hint)
        try:
            with _ctrl_c_at_once():
                return str(import_module("getpass").getpass(prompt))
        except EOFError:
            self.stdout.write("\n")
            raise Interrupted from None


def _cannot_ask(prompt: str, hint: str) -> UsageError:
    return UsageError(f"cannot ask {prompt.strip()!r}: this is not a terminal", hint=hint)
