"""Checkouts that were never used, or are ready."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.launcher.checkout import Checkout, make_checkout, program

FAKE_UV = """#!/bin/sh
echo "$@" >>"$(dirname "$0")/calls"
"""


@pytest.fixture(scope="session")
def first_use(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Checkout, subprocess.CompletedProcess[str]]:
    """A checkout after its first use, and what that use printed."""
    folder = tmp_path_factory.mktemp("launcher")
    make_checkout(folder / "first clone")
    (folder / "home").mkdir()
    checkout = Checkout(folder / "first clone", folder / "home", path=os.environ["PATH"])
    return checkout, checkout.run("one", "two")


@pytest.fixture
def bare(tmp_path: Path, user_home: Path) -> Checkout:
    """A checkout that was never used, in a folder with a space in its name."""
    make_checkout(tmp_path / "my clone")
    return Checkout(tmp_path / "my clone", user_home, path=os.environ["PATH"])


@pytest.fixture
def used(
    tmp_path: Path, user_home: Path, first_use: tuple[Checkout, subprocess.CompletedProcess[str]]
) -> Checkout:
    """A checkout that is set up and ready, of the test's own; its `uv` only writes down calls."""
    shutil.copytree(first_use[0].root, tmp_path / "my clone", symlinks=True)
    program(tmp_path / "bin", "uv", FAKE_UV)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    real = {"HERMES_PYTHON": sys.executable}  # looking for one is tested elsewhere
    checkout = Checkout(tmp_path / "my clone", user_home, path=path, variables=real)
    assert checkout.run().stderr == ""
    return checkout


@pytest.fixture
def uv_calls(tmp_path: Path) -> Path:
    """What the stand-in for uv was asked to do, one line a call."""
    return tmp_path / "bin" / "calls"
