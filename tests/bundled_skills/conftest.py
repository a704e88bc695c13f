"""Fixtures for the skills that come with Hermes."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bundled_skills.forking import Forking
from tests.bundled_skills.pages import pages, script

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def forking() -> Iterator[Forking]:
    made = Forking([path for page in pages() for path in page.scripts])
    yield made
    made.close()


@pytest.fixture
def run(tmp_path: Path, forking: Forking) -> Run:
    """`run("log-analysis/log_summary.py", "app.log")` runs a script of a skill in `tmp_path`."""

    def run(path: str, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return forking.run(script(path), *map(str, arguments), cwd=tmp_path, stdin=stdin)

    return run
