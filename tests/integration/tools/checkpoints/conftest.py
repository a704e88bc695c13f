"""A workspace with a store of its own, and turns of an agent in it."""

from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.events import Notice
from hermes.core.tool import ToolContext
from hermes.tools.checkpoints import Checkpoints, TurnCheckpoints


class Work:
    """The files of the workspace by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, content: str | bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()

    @property
    def names(self) -> list[str]:
        files = (path for path in self.folder.rglob("*") if path.is_file() or path.is_symlink())
        return sorted(str(path.relative_to(self.folder)) for path in files)


@pytest.fixture
def work(user_home):
    folder = user_home / "work"
    folder.mkdir()
    return Work(folder)


@pytest.fixture
def store(hermes_home):
    return hermes_home / "checkpoints"


@pytest.fixture
def checkpoints(store, work, user_home):
    return Checkpoints(store, work.folder, user_home)


@pytest.fixture
def told():
    """Notices the user saw."""
    return []


@pytest.fixture
def call(told):
    def announce(event):
        assert isinstance(event, Notice)
        told.append(event.text)

    return ToolContext("session", "call", CancelToken(), print, announce)


@pytest.fixture
def turn(checkpoints, call):
    """`async with turn("request"):` is one turn of the agent."""
    turns = TurnCheckpoints(lambda: checkpoints)

    @asynccontextmanager
    async def turn(request):
        turns.turn_started("session", request)
        await turns.before_change(call)
        yield
        await turns.turn_ended()

    return turn
