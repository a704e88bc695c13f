"""`hermes memory …` as a user runs it, in a home of its own."""

import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes.app.log_files import stop_logging
from hermes.memory import BuiltinMemory, MemoryOptions, MemoryScope, open_memory
from hermes.security.injection import scan
from hermes_plugins.memory.holographic import HolographicProvider
from tests.unit.cli.terminal import Hermes


class MemoryCommand(Hermes):
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
def hermes(hermes_home: Path) -> Iterator[MemoryCommand]:
    yield MemoryCommand("memory", hermes_home)
    stop_logging()


@pytest.fixture
def local(hermes: MemoryCommand) -> MemoryCommand:
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
