"""Installs the examples as their READMEs say, and runs them through the real command."""

import ast
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.chat.conftest import UNTITLED, hermes, screen, terminal, untitled, work

__all__ = ["hermes", "screen", "terminal", "untitled", "work"]

EXAMPLES = Path(__file__).parents[2] / "examples"
Configure = Callable[..., None]


@pytest.fixture
def install(hermes_home: Path) -> Callable[[str, str], None]:
    """Copies a folder of the examples to a place below the home's plugins."""

    def copy(example: str, place: str) -> None:
        shutil.copytree(EXAMPLES / example, hermes_home / "plugins" / place)

    return copy


@pytest.fixture
def configure(hermes_home: Path) -> Configure:
    """Writes config.yaml."""

    def write(text: str = "") -> None:
        hermes_home.mkdir(exist_ok=True)
        (hermes_home / "config.yaml").write_text(text + UNTITLED)

    return write


def imported(file: Path) -> set[str]:
    """The top-level names a Python file imports absolutely."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names
