"""What a subcommand works with: home, settings, terminal, its arguments and its output."""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar, cast

import msgspec

from hermes.config.environment import no_color, term_is_dumb
from hermes.config.home import Home, use_home
from hermes.config.loader import Loaded, load
from hermes.core.errors import Interrupted, KeyNotBound, UsageError
from hermes.util.lazy import late_pattern
from hermes.util.text import escape_controls, escaped_json, terminal_text, wrap_lines

if TYPE_CHECKING:
    from hermes.cli.main import Parser
    from hermes.tui import Paint, PickerItem

T = TypeVar("T")
MIN_COLUMNS = 20  #: Narrower terminals get no narrower lines.
_CONTROL_KEYS = late_pattern(
    r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)?|[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]"
)
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


class TerminalStream:
    """A stream to a terminal, which all output of commands passes.

    Colours that carry `mark` go through. Everything else that would drive the terminal is shown as
    an escape: sequences in answers of a model, in names of tools, sessions and files, in logs.
    """

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal  #: The stream itself, for sequences of Hermes other than colours.
        self.mark = _colour_mark()

    def write(self, text: str) -> int:
        self.terminal.write(terminal_text(text, self.mark))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


@cache
def _colour_mark() -> str:
    """Return a number that text from elsewhere cannot know; the same for all streams."""
    return f"{int.from_bytes(os.urandom(4))};"


def _guard_terminal(stream: TextIO) -> TextIO:
    """Return the stream; if it is a terminal, as a `TerminalStream`."""
    if isinstance(stream, TerminalStream) or not stream.isatty():
        return stream
    return cast("TextIO", TerminalStream(stream))


def fit_terminal(text: str, stream: TextIO) -> str:
    """Return `text` with long lines broken between words, if the stream is a terminal."""
    if len(text) < MIN_COLUMNS or not stream.isatty():
        return text
    try:
        return wrap_lines(text, max(MIN_COLUMNS, os.get_terminal_size(stream.fileno()).columns))
    except (OSError, ValueError):  # it has no size
        return text


def _drain(stream: TextIO) -> str:
    """Return what the terminal holds, also an unfinished line."""
    import select
    import termios  # does not exist on every system

    fd = stream.fileno()
    before, raw = termios.tcgetattr(fd), termios.tcgetattr(fd)
    raw[3] &= ~termios.ICANON
    raw[6][termios.VMIN], raw[6][termios.VTIME] = 0, 0
    termios.tcsetattr(fd, termios.TCSANOW, raw)
    try:
        data = b""
        while select.select([fd], [], [], 0)[0] and (more := os.read(fd, 4096)):
            data += more
        return data.decode("utf-8", "replace")
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)


def _read_line(stdin: TextIO, stdout: TextIO, prompt: str, begun: str) -> str:
    """Read the answer to a question that stands on the screen; `begun` is its beginning."""
    if begun:
        try:
            import readline  # not everywhere; only for a line that was begun before the question
        except ImportError:
            stdout.write(begun)
            stdout.flush()
            return begun + stdin.readline().rstrip("\n")
        stdout.write("\r")
        stdout.flush()
        readline.set_startup_hook(lambda: readline.insert_text(begun))
        try:
            return input(prompt)
        except EOFError:
            return ""
        finally:
            readline.set_startup_hook()
    return stdin.readline().rstrip("\n")


class CommandEnded(Exception):
    """Ends a command early, with an exit code and without a message."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.code = code


class Cli:
    """One invocation of the command line."""

    def __init__(self, home: Home, stdin: TextIO, stdout: TextIO, stderr: TextIO) -> None:
        self.home = home
        self.stdin = stdin
        self.stdout, self.stderr = _guard_terminal(stdout), _guard_terminal(stderr)
        self._loaded: Loaded | None = None
        self.args = argparse.Namespace()  #: The arguments of the command that runs.
        self._typed: str | None = None
        """What was typed after the user chose from a list; None after the next question."""
        self.above: Callable[[str], bool] | None = None
        """Prints a line above the input field; returns False while none is shown."""

    @classmethod
    def open(cls, profile: str | None) -> "Cli":
        home = Home.resolve(profile)
        use_home(home)
        cli = cls(home, sys.stdin, sys.stdout, sys.stderr)
        for root in {home.root, home.default_root}:
            if (root / ".import").exists():  # an import was interrupted
                from hermes.ops import finish_restore  # loads the backup code

                finish_restore(Home(root), cli.note)
        return cli

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

    @cached_property
    def paint(self) -> "Paint":
        """Colours texts for standard output; returns them unchanged where it shows no colours."""
        from hermes.tui import Depth, Paint  # only for commands that use colours

        plain = not self.stdout.isatty() or no_color() or term_is_dumb()
        depth = Depth.NONE if plain else Depth.NAMED
        return Paint(depth=depth, mark=getattr(self.stdout, "mark", ""))

    @property
    def as_json(self) -> bool:
        return getattr(self.args, "json", False)

    def say(self, text: str) -> None:
        """Print a message. A terminal gets its long lines broken between words."""
        self.show(fit_terminal(text, self.stdout))

    def show(self, text: str) -> None:
        """Print a text whose lines stay as they are: a file, a diff, JSON."""
        self.stdout.write(f"{text}\n")
        self.stdout.flush()

    def note(self, text: str) -> None:
        if self.above is not None and self.above(text):
            return
        self.stderr.write(f"{fit_terminal(text, self.stderr)}\n")
        self.stderr.flush()

    def json(self, value: Any) -> None:
        """Print `value` as JSON, with every character escaped that could drive a terminal."""
        encoded = msgspec.json.format(msgspec.json.encode(value), indent=2)
        self.show(escaped_json(encoded.decode()))

    def emit(
        self,
        value: Any,
        text: str | Iterable[str] = "",
        *,
        line: "Callable[[Any], str] | None" = None,
        empty: str = "",
    ) -> None:
        """Print `value` as JSON with `--json`; else `text`, or its items by `line`.

        `text` is a string or lines. `empty` is printed instead of an empty list.
        """
        if self.as_json:
            self.json(value)
        elif empty and not value:
            self.say(empty)
        elif line is not None:
            for each in value:
                self.say(line(each))
        else:
            for each in [text] if isinstance(text, str) else text:
                self.say(each)

    async def pick(
        self, title: str, items: "Sequence[PickerItem[T]]", **options: Any
    ) -> "T | None":
        """Let the user choose with the arrow keys; the options are those of `tui.pick`.

        What the user types after the choice is for the next question.
        """
        from hermes.tui import pick, take_typed_ahead  # loads the terminal interface

        try:
            return await pick(title, items, stdout=self.stdout, **options)
        finally:
            self._typed = (self._typed or "") + take_typed_ahead()

    def confirm(self, question: str) -> bool:
        """Return whether the user says yes; the default is no. `--yes` answers the question."""
        yes: bool | None = getattr(self.args, "yes", None)  # None: the command has no such option
        if yes:
            return True
        if yes is not None and not self.interactive:
            raise UsageError(
                "this needs --yes without a terminal", hint=f"the question is: {question}"
            )
        return self.ask(f"{question} [y/N] ").strip().lower() in ("y", "yes")

    def require(self, question: str, otherwise: str = "nothing was changed") -> None:
        """Ask; if the user says no, say `otherwise` and end the command with exit code 1."""
        if not self.confirm(question):
            if otherwise:
                self.say(otherwise)
            raise CommandEnded(1)

    def ask(self, prompt: str, *, hint: str = NOT_A_TERMINAL_HINT) -> str:
        if not self.interactive:
            raise _not_a_terminal_error(prompt, hint)
        line, begun = self._take_typed()
        with _immediate_ctrl_c():
            self.stdout.write(prompt)
            self.stdout.flush()
            if line is not None:
                self.show(line)
                return line
            return _read_line(self.stdin, self.stdout, prompt, begun)

    def _take_typed(self) -> tuple[str | None, str]:
        """Return the line that was typed since a list was shown, or None, and one just begun."""
        if self._typed is None:
            return None, ""
        # The terminal may hold more: a line without its end, or one that was typed in raw mode.
        typed = _CONTROL_KEYS.sub("", self._typed + _drain(self.stdin)).replace("\r", "\n")
        line, ended, rest = typed.partition("\n")
        self._typed = rest if ended and rest else None
        return (line, "") if ended else (None, line)

    def ask_secret(self, prompt: str, *, hint: str = NOT_A_TERMINAL_HINT) -> str:
        """Read a line without echo. The question goes to the terminal itself."""
        if not self.stdin.isatty():
            raise _not_a_terminal_error(prompt, hint)
        from getpass import getpass  # only where a secret is read

        line, begun = self._take_typed()
        if line is not None:
            self.show(prompt)
            return line
        try:
            with _immediate_ctrl_c():
                return begun + getpass(escape_controls(prompt))
        except EOFError:
            self.stdout.write("\n")
            raise Interrupted from None


def _not_a_terminal_error(prompt: str, hint: str) -> UsageError:
    return UsageError(f"cannot ask {prompt.strip()!r}: this is not a terminal", hint=hint)


# Tables.


def table(rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> list[str]:
    """Return lines with aligned columns; those in `numbers` are right-aligned."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


# Commands and their actions as data.

Run = Callable[..., Any]
"""`run(args, cli)`, or `run(args, cli, context)` with `needs`; may be async. Returns the exit code;
None means 0."""
Needs = Callable[[Cli], AbstractAsyncContextManager[Any]]
F = TypeVar("F", bound=Run)


class Arg(NamedTuple):
    """An argument of a command, made by `arg()` or `flag()`."""

    flags: tuple[str, ...]
    options: dict[str, Any]


def arg(*flags: str, **options: Any) -> Arg:
    """Return an argument; the parameters are those of `ArgumentParser.add_argument`."""
    return Arg(flags, options)


def flag(*flags: str, help: str, **options: Any) -> Arg:  # noqa: A002 - the name argparse uses
    """Return an option that takes no value."""
    return Arg(flags, {"action": "store_true", "help": help, **options})


def repeated(*flags: str, **options: Any) -> Arg:
    """Return an option that may be given several times; its value is a list."""
    return Arg(flags, {"action": "append", "default": [], **options})


class OneOf:
    """Arguments of which at most one may be given."""

    def __init__(self, *args: Arg) -> None:
        self.args = args


YES = flag("-y", "--yes", help="do not ask")


class Command:
    """A command, such as `config`, or one of its actions, such as `set` in `config set`.

    `json` adds `--json`. `needs` is opened before `run`, which gets its result, and closed
    afterwards; actions inherit it. `default` names the action that runs if none is named; without
    it the help text is shown. `setup` adds arguments that are not data, such as those of plugins.
    The description and the examples are in `help.toml`; `epilog` follows them.
    """

    def __init__(
        self,
        name: str,
        run: Run | None = None,
        help: str = "",  # noqa: A002 - the name argparse uses
        *args: Arg | OneOf,
        json: bool = False,
        needs: Needs | None = None,
        aliases: tuple[str, ...] = (),
        path: str = "",
        epilog: str = "",
        default: str = "",
        setup: Callable[[argparse.ArgumentParser], None] | None = None,
    ) -> None:
        self.name, self.run, self.help, self.aliases = name, run, help, aliases
        self.needs, self.default = needs, default
        self.actions: list[Command] = []
        self._args = (*([flag("--json", help="as JSON")] if json else []), *args)
        self._path, self._epilog, self._setup = path or name, epilog, setup

    def action(self, name: str, help: str, *args: Arg | OneOf, **options: Any) -> Callable[[F], F]:  # noqa: A002 - as above
        """Return a decorator that makes a function the `run` of a new action."""

        def add(run: F) -> F:
            options.setdefault("needs", self.needs)
            path = f"{self._path} {name}"
            self.actions.append(Command(name, run, help, *args, path=path, **options))
            return run

        return add

    def configure(self, parser: "Parser") -> None:
        """Describe the command to its parser and add its arguments and actions."""
        parser.description = self.help or parser.description
        parser.epilog, parser.path = self._epilog, self._path
        parser.set_defaults(selected_command=self)
        self.add_arguments(parser)
        if not self.actions:
            return
        parsers = parser.add_subparsers(title="actions", metavar="ACTION")
        for action in self.actions:
            child = parsers.add_parser(action.name, help=action.help, aliases=action.aliases)
            action.configure(child)
            if action.name == self.default:
                parser.set_defaults(**vars(child.parse_args([])))

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        for each in self._args:
            if isinstance(each, Arg):
                parser.add_argument(*each.flags, **each.options)
                continue
            group = parser.add_mutually_exclusive_group()
            for one in each.args:
                group.add_argument(*one.flags, **one.options)
        if self._setup:
            self._setup(parser)


def run_command(args: argparse.Namespace, cli: Cli) -> int:
    """Run the command or action that was parsed; return the exit code."""
    command: Command = args.selected_command
    cli.args = args
    if command.run is None:
        cli.say(args.selected_parser.format_help().rstrip())
        return 0

    async def run_with_context() -> Any:
        assert command.run and command.needs
        async with command.needs(cli) as context:
            return await command.run(args, cli, context)

    try:
        result = run_with_context() if command.needs else command.run(args, cli)
        if isinstance(result, Coroutine):
            import asyncio  # only for the commands that need it

            result = asyncio.run(result)
    except CommandEnded as ended:
        return ended.code
    except KeyNotBound as error:
        if not cli.interactive:
            raise
        question = f"Send the key in {error.variable} to {error.base_url}? It is asked once. [y/N] "
        if cli.ask(question).strip().lower() not in ("y", "yes"):
            raise
        from hermes.ops import CredentialService  # only for this question
        from hermes.util.concurrency import SystemClock

        auth = CredentialService(cli.home, cli.load(), SystemClock())
        auth.bind(error.variable, error.base_url)
        return run_command(args, cli)
    return int(result or 0)


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
            terminal = getattr(self._stream, "terminal", self._stream)
            terminal.write(f"\r\x1b[K{escape_controls(text)}")
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
