"""Inputs of a prompt, a project on disk, and a tree that counts how often it is asked."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from hermes.prompt.assembly import PromptInputs
from hermes.prompt.context_files import LocalFileTree

Make = Callable[..., PromptInputs]
Write = Callable[[str, str], Path]

CET = timezone(timedelta(hours=1), "CET")


class CountingFileTree(LocalFileTree):
    """Files of this machine, and a list of what was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def read(self, path: str) -> str | None:
        self.asked.append(path)
        return super().read(path)

    def names(self, folder: str) -> list[str]:
        self.asked.append(folder)
        return super().names(folder)

    def exists(self, path: str) -> bool:
        self.asked.append(path)
        return super().exists(path)

    def is_folder(self, path: str) -> bool:
        self.asked.append(path)
        return super().is_folder(path)


@pytest.fixture
def tree() -> CountingFileTree:
    return CountingFileTree()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def write(project: Path) -> Write:
    """Write a file of the project, with its folders."""

    def make(name: str, text: str) -> Path:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return make


@pytest.fixture
def inputs(home: Path, project: Path) -> Make:
    def make(**changed: object) -> PromptInputs:
        usual: dict[str, object] = {
            "home": home,
            "model": "kimi-k2",
            "provider": "openrouter",
            "session_id": "20260302_091500_abcdef",
            "now": datetime(2026, 3, 2, 9, 15, tzinfo=CET),
            "working_folder": str(project),
        }
        return PromptInputs(**{**usual, **changed})  # type: ignore[arg-type]

    return make
