"""The layer contract really refuses imports that point up or sideways, and unlisted folders."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parents[3]
COMMAND = "from importlinter.cli import lint_imports_command as main; main()"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package and of its contract."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPO / "src" / "hermes", tmp_path / "src" / "hermes", ignore=ignored)
    shutil.copy(REPO / "pyproject.toml", tmp_path)
    return tmp_path


def lint(checkout: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, "--no-cache"],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_package_keeps_the_contract(checkout: Path) -> None:
    result = lint(checkout)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(("importer", "imported"), [("core", "cli"), ("security", "store")])
def test_import_that_points_up_or_sideways_is_refused(checkout, importer, imported) -> None:
    planted = checkout / "src" / "hermes" / importer / "planted.py"
    planted.write_text(f"import hermes.{imported}\n")
    result = lint(checkout)
    assert result.returncode == 1
    assert f"hermes.{importer}.planted -> hermes.{imported}" in result.stdout


def test_unlisted_top_level_folder_is_refused(checkout: Path) -> None:
    folder = checkout / "src" / "hermes" / "helpers"
    folder.mkdir()
    (folder / "__init__.py").touch()
    result = lint(checkout)
    assert result.returncode == 1
    assert "helpers" in result.stdout
