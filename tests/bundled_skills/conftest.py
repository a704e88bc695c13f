"""Fixtures for the skills that come with Hermes."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bundled_skills.forking import Forking
from tests.bundled_skills.pages import pages, script

Run = Callable[..., subprocess.CompletedProcess[str]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Raise the time limit of the tests that may install packages first."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.name.startswith("test_the_steps_work"):
            item.add_marker(pytest.mark.timeout(600))


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
