"""Runs commands of `hermes` in this process."""

import io
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from hermes.cli.context import Cli, run_command
from hermes.cli.main import Parser, find_entry
from hermes.config.home import Home, use_home
from hermes.core.errors import HermesError


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    def expect(self, code: int = 0, out: str | list[str] = "", err: str | list[str] = "") -> Self:
        """Check the exit code and that the output contains these texts."""
        assert self.code == code, self
        for texts, printed in ((out, self.out), (err, self.err)):
            for text in [texts] if isinstance(texts, str) else texts:
                assert text in printed
        return self


class Terminal(io.StringIO):
    """A terminal. `\\x03` in what is typed is Ctrl-C."""

    def isatty(self) -> bool:
        return True

    def readline(self, *args: int) -> str:
        line = super().readline(*args)
        if "\x03" in line:
            raise KeyboardInterrupt
        return line


class Hermes:
    """Runs `hermes NAME …`. With `typed` it runs at a terminal, where the user types that."""

    def __init__(self, name: str, home: Path) -> None:
        self.name, self.home = name, Home(home)

    def __call__(self, *words: object, typed: str | None = None, stdin: str = "") -> Outcome:
        stream = io.StringIO if typed is None else Terminal
        cli = Cli(self.home, stream(stdin if typed is None else typed), stream(), stream())
        return run(self.name, words, cli)


def run(name: str, words: tuple[object, ...], cli: Cli) -> Outcome:
    """Run a command. An error becomes its message and exit code, as at the command line."""
    try:
        code = _run(name, words, cli)
    except HermesError as error:
        cli.note(f"hermes: {error}\n  {error.hint}")
        code = error.exit_code
    return Outcome(code, cli.stdout.getvalue(), cli.stderr.getvalue())


def call(name: str, home: Home, *words: object) -> Outcome:
    """Run a command. Raises `HermesError`."""
    cli = Cli(home, io.StringIO(), io.StringIO(), io.StringIO())
    return Outcome(_run(name, words, cli), cli.stdout.getvalue(), cli.stderr.getvalue())


def _run(name: str, words: tuple[object, ...], cli: Cli) -> int:
    with use_home(cli.home):
        return run_command(parser(name).parse_args([str(word) for word in words]), cli)


@cache
def parser(name: str) -> Parser:
    """The parser of a command; to make it takes longer than most commands."""
    command = find_entry(name)
    assert command is not None
    return command.parser()
