"""Changes of own files: those of Hermes stay, others are undone. Attacks are in tests/redteam."""

import os
import time
from pathlib import Path

import pytest

from hermes.config.own_files import (
    KEY,
    MOST_REJECTED,
    REJECTED,
    OwnFiles,
    record_change,
    sign,
    verify,
    write_own,
)


@pytest.fixture
def root(hermes_home: Path) -> Path:
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text("a: 1\n")
    return hermes_home


@pytest.fixture
def guard(root: Path) -> OwnFiles:
    guard = OwnFiles(root)
    guard.begin_call()
    return guard


def test_a_change_of_hermes_stays_also_for_other_processes(root: Path, guard: OwnFiles):
    other = OwnFiles(root)
    other.begin_call()
    for number in range(3):
        write_own(root, root / "config.yaml", f"a: {number}\n".encode())
    assert guard.check() == other.check() == []
    record_change(root, root / "config.yaml", None)
    (root / "config.yaml").unlink()
    assert guard.check() == other.check() == []
    assert not (root / "config.yaml").exists()


def test_an_announced_change_that_has_not_happened_yet_is_no_difference(root, guard):
    write_own(root, root / "config.yaml", b"b: 1\n")
    record_change(root, root / "config.yaml", b"c: 1\n")
    assert guard.check() == []
    assert (root / "config.yaml").read_text() == "b: 1\n"


def test_an_earlier_version_of_hermes_own_is_foreign_too(root: Path, guard: OwnFiles):
    write_own(root, root / "config.yaml", b"weak\n")
    guard.check()
    write_own(root, root / "config.yaml", b"strict\n")
    guard.check()
    (root / "config.yaml").write_bytes(b"weak\n")
    assert len(guard.check()) == 1
    assert (root / "config.yaml").read_bytes() == b"strict\n"


def test_two_processes_undo_the_same_change_once(root: Path, guard: OwnFiles):
    other = OwnFiles(root)
    other.begin_call()
    (root / "config.yaml").write_text("evil\n")
    assert len(guard.check()) == 1
    assert other.check() == []
    assert (root / "config.yaml").read_text() == "a: 1\n"


def test_a_file_may_be_touched_and_closed_for_others(root: Path, guard: OwnFiles):
    os.utime(root / "config.yaml")
    (root / "config.yaml").chmod(0o600)
    assert guard.check() == []
    assert not (root / REJECTED).exists()


def test_a_linked_file_stays_linked(root: Path, tmp_path: Path):
    target = tmp_path / "dotfiles.yaml"
    (root / "config.yaml").rename(target)
    (root / "config.yaml").symlink_to(target)
    guard = OwnFiles(root)
    guard.begin_call()
    write_own(root, root / "config.yaml", b"a: 2\n")
    assert guard.check() == []
    target.write_text("evil\n")
    assert len(guard.check()) == 1
    assert (root / "config.yaml").is_symlink()
    assert target.read_text() == "a: 2\n"
    (root / "config.yaml").unlink()
    (root / "config.yaml").write_text("evil\n")
    assert len(guard.check()) == 1
    assert (root / "config.yaml").readlink() == target


def test_old_rejected_versions_are_deleted(root: Path, guard: OwnFiles):
    for number in range(MOST_REJECTED + 5):
        (root / "BOOT.md").write_text(str(number))
        assert guard.check()
    assert len(list((root / REJECTED).iterdir())) == MOST_REJECTED


def test_a_link_in_the_place_of_rejected_is_not_followed(root, guard, tmp_path):
    (root / REJECTED).symlink_to(tmp_path)
    (root / "config.yaml").write_text("evil\n")
    assert guard.check()
    assert (
        list(tmp_path.glob("**/config.yaml")) == list((root / REJECTED).glob("*/config.yaml"))[1:]
    )


def test_files_that_come_and_go_are_left_alone(root: Path, guard: OwnFiles):
    cache = root / "hooks" / "mine" / "__pycache__"
    (root / "pairing").mkdir()
    (root / "pairing" / ".lock").touch()
    (root / "pairing" / ".x.json.abc.tmp").touch()
    cache.mkdir(parents=True)
    (cache / "handler.pyc").touch()
    assert guard.check() == []


def test_only_what_the_home_signed_is_verified(root: Path, tmp_path: Path):
    signed = sign(root, b"data")
    assert verify(root, signed) == b"data"
    assert verify(root, signed + b"x") is None
    assert verify(root, b"") is None
    assert verify(tmp_path, signed) is None
    (root / KEY).unlink()
    assert verify(root, signed) is None


def test_a_home_without_an_agent_has_no_journal(root: Path):
    write_own(root, root / "config.yaml", b"a: 2\n")
    assert sorted(path.name for path in root.iterdir()) == ["config.yaml"]


def test_a_check_without_changes_is_cheap(guard: OwnFiles):
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter()
        guard.check()
        best = min(best, time.perf_counter() - began)
    assert best < 0.001
