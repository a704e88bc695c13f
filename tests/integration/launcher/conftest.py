"""Checkouts that were never used, or are ready."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.launcher.checkout import Checkout, make_checkout, program
from tests.made_once import copy_checkout, made_once

FAKE_UV = """#!/bin/sh
echo "$@" >>"$(dirname "$0")/calls"
"""


@pytest.fixture(scope="session")
def first_use(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Checkout, subprocess.CompletedProcess[str]]:
    """A checkout after its first use, and what that use printed."""
    folder = made_once(tmp_path_factory, "launcher", use_for_the_first_time)
    result = subprocess.CompletedProcess(**json.loads((folder / "result").read_text()))
    return clone_in(folder), result


def clone_in(folder: Path) -> Checkout:
    return Checkout(folder / "first clone", folder / "home", path=os.environ["PATH"])


def use_for_the_first_time(folder: Path) -> None:
    make_checkout(folder / "first clone")
    (folder / "home").mkdir()
    result = clone_in(folder).run("one", "two")
    (folder / "result").write_text(json.dumps(vars(result)))


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
    copy_checkout(first_use[0].root, tmp_path / "my clone")
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
