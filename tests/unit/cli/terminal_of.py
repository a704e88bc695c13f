"""Runs one command of `hermes` in this process, without its place in the list of commands."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hermes.cli.context import Cli
from hermes.cli.main import Parser
from hermes.cli.registry import CommandModule
from hermes.config.home import Home
from hermes.core.errors import HermesError


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


def runner(name: str, module: CommandModule, home: Path) -> Run:
    def call(*words: str, stdin: str = "") -> Outcome:
        out, err = io.StringIO(), io.StringIO()
        cli = Cli(Home(home), io.StringIO(stdin), out, err)
        try:
            parser = Parser(prog=f"hermes {name}")
            module.configure(parser)
            code = module.run(parser.parse_args(words), cli)
        except HermesError as error:
            code = error.exit_code
            err.write(f"hermes: {error}\n  {error.hint}\n")
        return Outcome(code, out.getvalue(), err.getvalue())

    return call
