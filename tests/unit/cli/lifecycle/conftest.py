"""One command as a user runs it, in a home of the test's own."""

import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from hermes.cli.commands.update import run_uninstall_for, run_update_for
from hermes.cli.context import Cli
from hermes.cli.main import Parser
from hermes.cli.registry import find
from hermes.config.home import Home, use_home
from hermes.core.errors import HermesError


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Terminal(io.StringIO):
    """`\\x03` in what is typed is Ctrl-C."""

    def isatty(self) -> bool:
        return True

    def readline(self, *args: int) -> str:
        line = super().readline(*args)
        if "\x03" in line:
            raise KeyboardInterrupt
        return line


Run = Callable[..., Outcome]
FOUND = {"update": run_update_for, "uninstall": run_uninstall_for}


@pytest.fixture
def hermes() -> Run:
    """`hermes("backup", "-q")`. With `typed` it is run at a terminal, where that is answered;
    with `found` (`update` and `uninstall`) as
    if the program had been installed so."""

    def run(
        name: str, *words: str, typed: str | None = None, piped: str = "", profile=None, found=None
    ):
        home = Home.resolve(profile)
        stream = io.StringIO if typed is None else Terminal
        cli = Cli(home, stream(typed if typed is not None else piped), stream(), stream())
        entry = find(name)
        assert entry is not None
        command = entry.load()
        parser = Parser(prog=f"hermes {name}")
        command.configure(parser)
        with use_home(home):
            try:
                args = parser.parse_args(words)
                code = FOUND[name](found, args, cli) if found else command.run(args, cli)
            except HermesError as error:
                cli.note(f"hermes: {error}\n  {error.hint}")
                code = error.exit_code
        return Outcome(code, cli.stdout.getvalue(), cli.stderr.getvalue())

    return run
