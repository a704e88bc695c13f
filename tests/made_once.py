"""Folders that take long to make: made once for all test processes, and copied cheaply."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.util.files import file_lock


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that `make` fills; the processes of one run share it."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, made = root / name, root / f"{name}.made"
    with file_lock(root / f"{name}.lock", 600):
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            made.touch()
    return folder


def copy_checkout(source: Path, target: Path) -> None:
    """Copy a checkout. Files of its environment are links; a change there writes a new file."""

    def copy(file: str, to: str) -> None:
        if ".venv" in Path(file).relative_to(source).parts:
            os.link(file, to)
        else:
            shutil.copy2(file, to)

    shutil.copytree(source, target, symlinks=True, copy_function=copy)
