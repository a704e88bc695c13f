"""Lock files that are out of step with pyproject.toml are found without the network."""

from pathlib import Path

import pytest

from scripts import locks

PROJECT = """
[project]
dependencies = ["Foo.Bar>=1; sys_platform != 'win32'"]
[project.optional-dependencies]
web = ["foo-bar"]
server = []
email = []
metrics = []
local = ["runtime>=2"]
telegram = ["chatter"]
discord = []
slack = []
matrix = []
[dependency-groups]
dev = ["checker"]
"""
PIN = "{} \\\n    --hash=sha256:00\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    pins = ["foo-bar==1.2", "runtime==2.0", "chatter==4", "checker==3"]
    for count, name in enumerate(("", "-local", "-platforms", "-dev"), 1):
        lock = tmp_path / f"requirements{name}.lock"
        lock.write_text("".join(PIN.format(pin) for pin in pins[:count]))
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def test_locks_in_step_are_accepted(root: Path) -> None:
    assert list(locks.findings(root)) == []


def test_dependency_without_a_pin_is_named(root: Path) -> None:
    edit(root / "pyproject.toml", '["checker"]', '["checker", "typist>=1"]')
    assert list(locks.findings(root)) == [
        "requirements-dev.lock: no pin for 'typist>=1'; run `make lock`"
    ]


def test_wider_lock_with_another_version_is_named(root: Path) -> None:
    edit(root / "requirements-dev.lock", "foo-bar==1.2", "foo-bar==1.3")
    assert list(locks.findings(root)) == [
        "requirements-dev.lock: foo-bar differs from the narrower lock; run `make lock`"
    ]


def test_pin_without_a_hash_is_named(root: Path) -> None:
    edit(root / "requirements-dev.lock", PIN.format("checker==3"), "checker==3\n")
    assert list(locks.findings(root)) == [
        "requirements-dev.lock: no hash for checker==3; run `make lock`"
    ]
