"""A desk over a folder of its own, and real git repositories."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from hermes.app.reference_expansion import expand_references
from hermes.app.references import ExpandedMessage, ReferenceContext
from hermes.security import PathGuard, Redactor

Git = Callable[..., str]


@pytest.fixture
def desk(workspace: Path, guard: PathGuard) -> ReferenceContext:
    return ReferenceContext(guard, workspace, context_length=30_000, redact=Redactor().redact)


@pytest.fixture
def attach(desk: ReferenceContext):
    """Expands a text; `changes` are other fields of the desk."""

    async def attach(text: str, **changes: object) -> ExpandedMessage:
        return await expand_references(text, msgspec.structs.replace(desk, **changes))

    return attach


@pytest.fixture
def git(workspace: Path) -> Git:
    """git in the workspace, which is a repository."""

    def run(*arguments: str, folder: Path = workspace) -> str:
        identity = {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "Kim"), ("EMAIL", "kim@example.com"))
        }
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env={**os.environ, **identity},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    run("init", "--quiet", "--initial-branch=main")
    return run
