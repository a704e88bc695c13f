"""A real repository with one commit, and what opens worktrees of it."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.ops.worktrees import Worktree, open_worktree

Git = Callable[..., str]


def run_git(*arguments: str, folder: Path) -> str:
    identity = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Kim"), ("EMAIL", "kim@example.com"))
    }
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env={**os.environ, **identity},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.fixture
def repo(workspace: Path) -> Path:
    make_repository(workspace)
    return workspace


def make_repository(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    run_git("init", "--quiet", "--initial-branch=main", folder=folder)
    (folder / "a.txt").write_text("one\n")
    (folder / ".gitignore").write_text(".env\nbuild/\nnode_modules/\n*.secret\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "b.txt").write_text("b\n")
    run_git("add", "-A", folder=folder)
    run_git("commit", "--quiet", "-m", "first", folder=folder)


@pytest.fixture
def git(repo: Path) -> Git:
    def run(*arguments: str, folder: Path = repo) -> str:
        return run_git(*arguments, folder=folder)

    return run


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def opened(repo: Path, told: list[str]):
    async def opened(name: str = "fix the parser", folder: Path = repo) -> Worktree:
        return await open_worktree(folder, name, told.append)

    return opened
