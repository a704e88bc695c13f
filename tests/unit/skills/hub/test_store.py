"""The store of the hub: lock file, interrupted changes, quarantine and diffs."""

import os
from pathlib import Path

import msgspec
import pytest

from hermes.core.errors import ConfigError
from hermes.skills.hub.contents import HubError, InstallRefused, write_folder
from hermes.skills.hub.hub import diff_files, summarize_changes
from hermes.skills.hub.sources import SkillOrigin
from hermes.skills.hub.store import (
    ABANDONED_SECONDS,
    AuditEvent,
    HubStore,
    InstalledSkill,
    LockFile,
    PendingInstall,
    Quarantine,
    RefusedSkill,
    append_event,
    read_events,
    read_lock,
    write_lock,
)
from tests.cases import cases

CASES = cases(__file__)


def entry(category: str = "") -> InstalledSkill:
    return InstalledSkill(
        identifier="o/r",
        source="github",
        trust="community",
        origin=SkillOrigin("abc"),
        category=category,
        files={"SKILL.md": "x"},
        sha256="y",
        installed_at="2026-01-01T00:00:00+00:00",
    )


def event(what: str = "installed") -> AuditEvent:
    return AuditEvent(at="2026-01-01T00:00:00+00:00", what=what, skill="a")


def staged(store: HubStore, text: bytes = b"new") -> Path:
    folder = store.quarantine / "a.1" / "skill"
    write_folder(folder, {"SKILL.md": text})
    return folder


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    lock = LockFile({"b": entry(), "a": entry("x")})
    write_lock(tmp_path / "lock.json", lock)
    assert read_lock(tmp_path / "lock.json") == lock


@pytest.mark.parametrize("text", ["", "{", "[]", '{"skills": {"a": {}}}', '{"version": 2}'])
def test_a_lock_that_is_not_understood_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock.json").write_text(text)
    with pytest.raises(ConfigError):
        read_lock(tmp_path / "lock.json")


def test_lock_that_is_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "lock.json").mkdir()
    with pytest.raises(ConfigError):
        read_lock(tmp_path / "lock.json")


@pytest.mark.parametrize(("name", "category"), CASES["locks that lead out"])
def test_a_lock_that_leads_out_of_the_hub_is_an_error(tmp_path, name, category):
    write_lock(tmp_path / "lock.json", LockFile({name: entry(category)}))
    with pytest.raises(ConfigError, match="damaged"):
        read_lock(tmp_path / "lock.json")


def test_a_skill_does_not_take_the_folder_others_are_filed_in(tmp_path: Path) -> None:
    store = HubStore(tmp_path)
    with store.exclusive():
        store.install("a", entry("office"), staged(store, b"1"), event())
    with pytest.raises(InstallRefused, match="office"), store.exclusive():
        store.install("office", entry(), staged(store, b"2"), event())
    assert (store.skills / "office/a/SKILL.md").read_bytes() == b"1"
    assert list(store.lock().skills) == ["a"]


def test_a_skill_is_not_filed_inside_another(tmp_path: Path) -> None:
    store = HubStore(tmp_path)
    with store.exclusive():
        store.install("office", entry(), staged(store, b"1"), event())
    with pytest.raises(InstallRefused, match="office"), store.exclusive():
        store.install("a", entry("office"), store.quarantine / "a.2" / "skill", event())
    assert [path.name for path in (store.skills / "office").iterdir()] == ["SKILL.md"]


@pytest.mark.parametrize("folder", ["../../victim", "skills/../../victim", "/victim"])
def test_pending_change_cannot_leave_the_hub(tmp_path: Path, folder: str) -> None:
    store = HubStore(tmp_path / "home/.hub")
    write_folder(tmp_path / "victim", {"a": b"a"})
    store.root.mkdir(parents=True)
    note = msgspec.json.encode(PendingInstall("a", None, "", "trash/x", folder))
    (store.root / "pending.json").write_bytes(note)
    with pytest.raises(ConfigError, match="interrupted change"):
        store.lock()
    assert (tmp_path / "victim/a").exists()


def test_damaged_pending_change_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pending.json").write_text("{bad")
    with pytest.raises(ConfigError, match="interrupted change") as damaged:
        HubStore(tmp_path).lock()
    assert "audit" in damaged.value.hint


def test_looking_creates_nothing(tmp_path: Path) -> None:
    assert HubStore(tmp_path / ".hub").lock() == LockFile()
    assert list(tmp_path.iterdir()) == []


def test_a_skill_that_changes_its_category_leaves_no_empty_one(tmp_path: Path) -> None:
    store = HubStore(tmp_path)
    with store.exclusive():
        store.install("a", entry("old"), staged(store, b"1"), event())
    with store.exclusive():
        store.install("a", entry("new"), staged(store, b"2"), event("updated"))
    assert [path.name for path in store.skills.iterdir()] == ["new"]
    assert (store.skills / "new/a/SKILL.md").read_bytes() == b"2"
    assert [one.what for one in read_events(store.log_file)] == ["installed", "updated"]


def test_folder_missing_from_the_lock_is_replaced(tmp_path: Path) -> None:
    store = HubStore(tmp_path)
    write_folder(store.skills / "a", {"SKILL.md": b"stray"})
    with store.exclusive():
        store.install("a", entry(), staged(store), event())
    assert (store.skills / "a/SKILL.md").read_bytes() == b"new"


def test_truncated_log_line_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    append_event(file, event())
    with file.open("ab") as log:
        log.write(b'{"at": "20')
    assert read_events(file) == [event()]
    assert file.stat().st_mode & 0o777 == 0o600


def test_abandoned_quarantine_folders_are_removed(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path)
    old = quarantine.stage("a", {"SKILL.md": b"1"})
    refused = quarantine.stage("b", {"SKILL.md": b"2"})
    held = RefusedSkill(
        name="b",
        source="github",
        identifier="o/r",
        trust="community",
        origin=SkillOrigin(),
        verdict="dangerous",
        reason="no",
        at="2026-01-01T00:00:00+00:00",
    )
    quarantine.keep(refused, held)
    for folder in (old.parent, refused.parent):
        past = folder.stat().st_mtime - ABANDONED_SECONDS - 10
        os.utime(folder, (past, past))
    fresh = quarantine.stage("c", {"SKILL.md": b"3"})
    assert (old.exists(), refused.exists(), fresh.exists()) == (False, True, True)
    quarantine.discard(refused)
    assert quarantine.refused() == [held]


def test_failed_staging_leaves_nothing_in_quarantine(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="a"):
        Quarantine(tmp_path).stage("a", {"SKILL.md": b"1", "a": b"", "a/b": b""})
    assert list(tmp_path.iterdir()) == []


def test_a_difference_names_files_and_lines() -> None:
    old = {"a.md": b"one\ntwo\n", "gone.md": b"x\n", "p.png": b"\0\1"}
    new = {"a.md": b"one\n2\n", "new.md": b"y\n", "p.png": b"\0\1\2"}
    text = diff_files(old, new)
    assert "-two\n+2" in text
    assert "--- a/gone.md\n+++ /dev/null" in text
    assert "--- /dev/null\n+++ b/new.md" in text
    assert "binary p.png: 2 B → 3 B" in text
    assert summarize_changes(old, new) == "2 changed, 1 added, 1 removed"
    assert diff_files(old, old) == ""


def test_a_long_difference_is_cut() -> None:
    text = diff_files({}, {"a": b"x\n" * 1000})
    assert text.endswith("… 603 more lines")


def test_error_message_has_no_control_characters() -> None:
    error = HubError("no \x1b[2J\u202e skill", hint="one of \x1b]0;owned\x07")
    assert f"{error}{error.hint}".isprintable()
