"""Runs one command of `hermes` in this process, without its place in the list of commands."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hermes.cli.context import Cli, Command
from hermes.cli.main import Parser
from hermes.config.home import Home
from hermes.core.errors import HermesError


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


def runner(name: str, command: Command, home: Path) -> Run:
    def call(*words: str, stdin: str = "") -> Outcome:
        out, err = io.StringIO(), io.StringIO()
        cli = Cli(Home(home), io.StringIO(stdin), out, err)
        try:
            parser = Parser(prog=f"hermes {name}")
            command.configure(parser)
            code = command.run(parser.parse_args(words), cli)
        except HermesError as error:
            code = error.exit_code
            err.write(f"hermes: {error}\n  {error.hint}\n")
        return Outcome(code, out.getvalue(), err.getvalue())

    return call
