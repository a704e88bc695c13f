"""Which Python is taken, and what is said when there is none."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.launcher.checkout import Checkout, program

OLD = "#!/bin/sh\n[ \"$1\" = -V ] && echo 'Python 3.9.2' && exit 0\nexit 1\n"
BROKEN_SHIM = "#!/bin/sh\necho 'pyenv: python3.14: command not found' >&2\nexit 127\n"


@pytest.fixture
def poor(bare: Checkout, tmp_path: Path) -> Checkout:
    """A bare checkout on a machine with the standard tools and no Python at all."""
    folder = tmp_path / "poor"
    folder.mkdir()
    for tool in ("sh", "cmp", "dirname", "readlink"):
        (folder / tool).symlink_to(shutil.which(tool) or tool)
    return replace(bare, path=str(folder))


def one_line(text: str) -> str:
    assert text.count("\n") == 1, text
    assert text.startswith("hermes: ")
    return text


def test_no_python_says_what_to_install(poor: Checkout) -> None:
    result = poor.run("--version")
    assert result.returncode == 1
    assert "Python 3.11 or newer is needed (no Python found)" in one_line(result.stderr)
    assert "apt install python3 python3-venv" in result.stderr


def test_old_python_is_named(poor: Checkout) -> None:
    program(Path(poor.path), "python3", OLD)
    result = poor.run("--version")
    assert result.returncode == 1
    assert "is needed (python3 is Python 3.9.2)" in one_line(result.stderr)
    assert not (poor.root / ".venv").exists()


def test_broken_shim_and_old_python_are_passed_over(poor: Checkout) -> None:
    """The first one that works is taken; here it is the last candidate."""
    folder = Path(poor.path)
    program(folder, "python3.14", BROKEN_SHIM)
    program(folder, "python3", OLD)
    program(folder, "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    result = poor.run("--version")
    assert (result.returncode, result.stdout.count("--version")) == (0, 1), result.stderr


def test_named_python_that_is_too_old_is_refused(poor: Checkout) -> None:
    old = program(Path(poor.path) / "old", "python", OLD)
    poor.variables["HERMES_PYTHON"] = str(old)
    result = poor.run("--version")
    assert result.returncode == 1
    assert f"HERMES_PYTHON is '{old}', which is not a Python 3.11" in one_line(result.stderr)
