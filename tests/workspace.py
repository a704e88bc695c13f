"""Fixtures for tests that work on files and processes of a folder of their own."""

import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from hermes.core.tool import Tool
from hermes.security import PathGuard
from hermes.terminal import LocalFiles

IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Kim"), ("EMAIL", "kim@example.com"))
}


def run_git(*arguments: str, folder: Path) -> str:
    """Run git in `folder` and return its output."""
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env={**os.environ, **IDENTITY},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def make_tool(name: str, **parts: Any) -> Tool:
    """Return the built-in tool `name` over `parts` (see `tool_deps`)."""
    # Only the tests of tools pay for these imports.
    from hermes.sdk.testing.plugin import tool_deps
    from hermes.tools import ToolRegistry, discover_builtin

    registry = ToolRegistry()
    discover_builtin(registry)
    entry = registry.get(name)
    assert entry is not None
    return entry.make(tool_deps(**parts))


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
