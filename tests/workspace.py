"""Fixtures for tests that work on files and processes of a folder of their own."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import psutil
import pytest

from hermes.security import PathGuard
from hermes.terminal import LocalFiles


@pytest.fixture
def workspace(user_home: Path) -> Path:
    folder = user_home / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def guard(user_home: Path, hermes_home: Path, workspace: Path) -> PathGuard:
    return PathGuard(user_home, (workspace,), (hermes_home,))


@pytest.fixture
def files(user_home: Path, workspace: Path) -> LocalFiles:
    return LocalFiles(lambda: str(workspace), user_home, ripgrep="")


@pytest.fixture
def gone() -> Callable[..., Awaitable[None]]:
    """Waits until processes have ended; the test's own time limit is the only clock."""

    async def gone(*pids: int) -> None:
        while any(_lives(pid) for pid in pids):
            await anyio.sleep(0.02)

    return gone


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
