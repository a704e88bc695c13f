"""What lies in `.hub`: the lock, the log, the quarantine, and changes that were interrupted."""

import os
from pathlib import Path

import pytest

from hermes.core.errors import ConfigError
from hermes.skills.hub import audit_log
from hermes.skills.hub.audit_log import Event
from hermes.skills.hub.contents import write_folder
from hermes.skills.hub.differences import difference, summary
from hermes.skills.hub.lockfile import Entry, Lock, read_lock, write_lock
from hermes.skills.hub.quarantine import UNFINISHED_SECONDS, Held, Quarantine
from hermes.skills.hub.shelf import Shelf
from hermes.skills.hub.sources.source import Origin


def entry(category: str = "") -> Entry:
    return Entry(
        identifier="o/r",
        source="github",
        trust="community",
        origin=Origin("abc"),
        category=category,
        files={"SKILL.md": "x"},
        sha256="y",
        installed_at="2026-01-01T00:00:00+00:00",
    )


def event(what: str = "installed") -> Event:
    return Event(at="2026-01-01T00:00:00+00:00", what=what, skill="a")


def staged(shelf: Shelf, text: bytes = b"new") -> Path:
    folder = shelf.quarantine / "a.1" / "skill"
    write_folder(folder, {"SKILL.md": text})
    return folder


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    lock = Lock({"b": entry(), "a": entry("x")})
    write_lock(tmp_path / "lock.json", lock)
    assert read_lock(tmp_path / "lock.json") == lock


@pytest.mark.parametrize("text", ["", "{", "[]", '{"skills": {"a": {}}}', '{"version": 2}'])
def test_a_lock_that_is_not_understood_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock.json").write_text(text)
    with pytest.raises(ConfigError):
        read_lock(tmp_path / "lock.json")


def test_looking_creates_nothing(tmp_path: Path) -> None:
    assert Shelf(tmp_path / ".hub").lock() == Lock()
    assert list(tmp_path.iterdir()) == []


def test_a_skill_that_changes_its_category_leaves_no_empty_one(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    with shelf.held():
        shelf.put("a", entry("old"), staged(shelf, b"1"), event())
    with shelf.held():
        shelf.put("a", entry("new"), staged(shelf, b"2"), event("updated"))
    assert [path.name for path in shelf.skills.iterdir()] == ["new"]
    assert (shelf.skills / "new/a/SKILL.md").read_bytes() == b"2"
    assert [one.what for one in audit_log.read(shelf.log_file)] == ["installed", "updated"]


def test_a_folder_nobody_installed_makes_room(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    write_folder(shelf.skills / "a", {"SKILL.md": b"stray"})
    with shelf.held():
        shelf.put("a", entry(), staged(shelf), event())
    assert (shelf.skills / "a/SKILL.md").read_bytes() == b"new"


def test_a_line_that_was_cut_off_is_left_out_of_the_log(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    audit_log.append(file, event())
    with file.open("ab") as log:
        log.write(b'{"at": "20')
    assert audit_log.read(file) == [event()]
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_a_killed_process_left_in_quarantine_is_swept(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path)
    old = quarantine.stage("a", {"SKILL.md": b"1"})
    refused = quarantine.stage("b", {"SKILL.md": b"2"})
    held = Held(
        name="b",
        source="github",
        identifier="o/r",
        trust="community",
        origin=Origin(),
        verdict="dangerous",
        reason="no",
        at="2026-01-01T00:00:00+00:00",
    )
    quarantine.keep(refused, held)
    for folder in (old.parent, refused.parent):
        past = folder.stat().st_mtime - UNFINISHED_SECONDS - 10
        os.utime(folder, (past, past))
    fresh = quarantine.stage("c", {"SKILL.md": b"3"})
    assert (old.exists(), refused.exists(), fresh.exists()) == (False, True, True)
    quarantine.discard(refused)
    assert quarantine.refused() == [held]


def test_a_difference_names_files_and_lines() -> None:
    old = {"a.md": b"one\ntwo\n", "gone.md": b"x\n", "p.png": b"\0\1"}
    new = {"a.md": b"one\n2\n", "new.md": b"y\n", "p.png": b"\0\1\2"}
    text = difference(old, new)
    assert "-two\n+2" in text
    assert "--- a/gone.md\n+++ /dev/null" in text
    assert "--- /dev/null\n+++ b/new.md" in text
    assert "binary p.png: 2 B → 3 B" in text
    assert summary(old, new) == "2 changed, 1 added, 1 removed"
    assert difference(old, old) == ""


def test_a_long_difference_is_cut() -> None:
    text = difference({}, {"a": b"x\n" * 1000})
    assert text.endswith("… 603 more lines")
