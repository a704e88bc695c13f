"""`hermes memory …` as a user runs it, in a home of its own."""

import io
import json
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hermes.app.log_files import stop_logging
from hermes.cli.commands import memory
from hermes.cli.context import Cli
from hermes.cli.main import Parser
from hermes.config.home import Home
from hermes.core.errors import HermesError
from hermes.memory import BuiltinMemory, MemoryOptions, MemoryScope, open_memory
from hermes.memory.holographic.provider import HolographicProvider
from hermes.security.injection import scan


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Hermes:
    """Runs the command."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def __call__(self, *words: str, typed: str | None = None) -> Outcome:
        """With `typed` it is run at a terminal, where that is what the user answers."""
        stream = io.StringIO if typed is None else Terminal
        cli = Cli(self.home, stream(typed or ""), stream(), stream())
        parser = Parser(prog="hermes memory")
        memory.COMMAND.configure(parser)
        try:
            code = memory.COMMAND.run(parser.parse_args(words), cli)
        except HermesError as error:
            cli.note(f"hermes: {error}\n  {error.hint}")
            code = error.exit_code
        return Outcome(code, cli.stdout.getvalue(), cli.stderr.getvalue())

    def notes(self, **scope: str) -> BuiltinMemory:
        return open_memory(self.home.memories, MemoryScope(**scope), MemoryOptions(), scan)

    def says(self, text: str, user: str = "") -> None:
        """To an agent that has the local provider."""
        provider = HolographicProvider()
        provider.initialize("s", hermes_home=str(self.home.root), user_id=user)
        provider.sync_turn(text, "")
        provider.shutdown()

    def plugin(self, name: str, code: str) -> None:
        folder = self.home.plugins / "memory" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(code)
        (folder / "plugin.yaml").write_text(f"name: {name}\ndescription: Mine.\nversion: 1\n")


@pytest.fixture
def hermes(hermes_home: Path) -> Iterator[Hermes]:
    yield Hermes(Home(hermes_home))
    stop_logging()


@pytest.fixture
def local(hermes: Hermes) -> Hermes:
    """With the local provider in use."""
    assert hermes("setup", "holographic").code == 0
    return hermes


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a shell script the user's editor; $1 is the file."""

    def use(script: str) -> None:
        path = tmp_path / "editor"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("EDITOR", str(path))

    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return use
