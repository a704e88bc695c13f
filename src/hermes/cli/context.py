"""What a subcommand works with: home, settings, terminal, its arguments and its output style."""

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

import msgspec

from hermes.config.environment import no_color, term_is_dumb
from hermes.config.home import Home, use_home
from hermes.config.loader import Loaded, load
from hermes.core.errors import Interrupted, UsageError
from hermes.util.text import escaped_json

NOT_A_TERMINAL_HINT = "say it on the command line; --help shows how"
"""Hint for a question that is asked without a terminal."""


@contextmanager
def _immediate_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C interrupt a blocking read; an event loop would notice it only afterwards."""
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
        """Prints a line above the input field; returns False while none is shown."""

    @classmethod
    def open(cls, profile: str | None) -> "Cli":
        home = Home.resolve(profile)
        use_home(home)
        for root in {home.root, home.default_root}:
            if (root / ".import").exists():  # an import was interrupted
                from hermes.ops.restore import finish_restore  # loads the backup code

                finish_restore(Home(root))
        return cls(home, sys.stdin, sys.stdout, sys.stderr)

    def load(
        self, overrides: Mapping[str, Any] | None = None, *, user_config: bool = True
    ) -> Loaded:
        """Return the settings, which are read once. `overrides` come from the command line."""
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
        """Print `value` as JSON, with every character escaped that could drive a terminal."""
        encoded = msgspec.json.format(msgspec.json.encode(value), indent=2)
        self.say(escaped_json(encoded.decode()))

    def ask(self, prompt: str, *, hint: str = NOT_A_TERMINAL_HINT) -> str:
        if not self.interactive:
            raise _not_a_terminal_error(prompt, hint)
        with _immediate_ctrl_c():
            self.stdout.write(prompt)
            self.stdout.flush()
            return self.stdin.readline().rstrip("\n")

    def ask_secret(self, prompt: str, *, hint: str = NOT_A_TERMINAL_HINT) -> str:
        """Read a line without echo. The question goes to the terminal itself."""
        if not self.stdin.isatty():
            raise _not_a_terminal_error(prompt, hint)
        from getpass import getpass  # only where a secret is read

        try:
            with _immediate_ctrl_c():
                return getpass(prompt)
        except EOFError:
            self.stdout.write("\n")
            raise Interrupted from None


def _not_a_terminal_error(prompt: str, hint: str) -> UsageError:
    return UsageError(f"cannot ask {prompt.strip()!r}: this is not a terminal", hint=hint)


# Actions of a subcommand, such as `set` in `hermes config set`.

Act = Callable[[argparse.Namespace, Cli], int]


class Actions:
    """Adds actions to a subcommand's parser. Called without one, the subcommand shows its help."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        parser.set_defaults(act=_help, help_text=parser.format_help)
        self._parsers = parser.add_subparsers(title="actions", metavar="ACTION")

    def add(
        self, name: str, act: Act, summary: str, *, json: bool = False, **options: Any
    ) -> argparse.ArgumentParser:
        """Add an action and return its parser; `json` adds the flag `--json`."""
        parser = self._parsers.add_parser(
            name,
            help=summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **{"description": summary, **options},
        )
        parser.set_defaults(act=act)
        if json:
            parser.add_argument("--json", action="store_true", help="as JSON")
        return parser


def run_action(args: argparse.Namespace, cli: Cli) -> int:
    """Run the action that was parsed: the `run` of a subcommand with actions."""
    act: Act = args.act
    return act(args, cli)


class Command(NamedTuple):
    """A subcommand: what a module of `hermes.cli.commands` offers to the registry."""

    configure: Callable[[argparse.ArgumentParser], None]
    """Describes the command and adds its arguments."""
    run: Callable[[argparse.Namespace, Cli], int] = run_action
    """Does the work and returns the exit code."""


def _help(args: argparse.Namespace, cli: Cli) -> int:
    cli.say(args.help_text().rstrip())
    return 0


# Colours on a terminal, plain text elsewhere.


class Style(msgspec.Struct, frozen=True):
    """Terminal colours. Without colour every method returns its text unchanged."""

    colour: bool = False

    @classmethod
    def of(cls, stream: TextIO) -> "Style":
        return cls(colour=stream.isatty() and not no_color() and not term_is_dumb())

    def plain(self, text: str) -> str:
        return text

    def dim(self, text: str) -> str:
        return self._wrap("2", text)

    def bold(self, text: str) -> str:
        return self._wrap("1", text)

    def accent(self, text: str) -> str:
        return self._wrap("36", text)

    def bad(self, text: str) -> str:
        return self._wrap("31", text)

    def warn(self, text: str) -> str:
        return self._wrap("33", text)

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text


# Progress of a download or another long operation, on one line.

BAR = 24


class ProgressLine:
    """Shows a bar on a terminal and, elsewhere, a line at the start and at each quarter."""

    def __init__(self, stream: TextIO, *, in_bytes: bool = True) -> None:
        self._stream = stream
        self._in_bytes = in_bytes
        self._label = ""
        self._quarter = self._permille = -1
        self._open = False

    def report(self, label: str, done: int, total: int) -> None:
        """Show that `done` of `total` (bytes by default) of the operation `label` is finished."""
        share = min(done / total, 1.0) if total else 0.0
        if label == self._label and int(share * 1000) == self._permille:
            return
        self._permille = int(share * 1000)
        amount = f" of {total / 1e6:,.0f} MB" if self._in_bytes else ""
        if self._stream.isatty():
            full = round(share * BAR)
            bar = "█" * full + "░" * (BAR - full)
            text = f"{label} {bar} {share:4.0%}{amount}"
            self._stream.write(f"\r\x1b[K{text}")
            self._open = True
        elif label != self._label or int(share * 4) != self._quarter:
            self._stream.write(f"{label}: {share:.0%}{amount}\n")
        self._label, self._quarter = label, int(share * 4)
        if share >= 1.0:
            self.end()
        self._stream.flush()

    def say(self, text: str) -> None:
        self.end()
        self._stream.write(text + "\n")
        self._stream.flush()

    def end(self) -> None:
        if self._open:
            self._stream.write("\n")
            self._open = False
