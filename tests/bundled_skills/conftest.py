"""Fixtures for the skills that come with Hermes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bundled_skills.pages import script

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`run("log-analysis/log_summary.py", "app.log")` runs a script of a skill in `tmp_path`."""

    def run(path: str, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(script(path)), *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )

    return run
