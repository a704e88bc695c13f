"""`hermes backup`, `hermes import` and snapshots."""

import asyncio
import socket
import stat
import zipfile
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from hermes.config.home import Home
from hermes.core.errors import UsageError
from hermes.ops.restore import KEPT_SNAPSHOTS, Snapshots, finish_restore
from hermes.store.records import SessionFilter
from hermes.store.session_store import open_store
from tests.cases import cases
from tests.unit.cli.conftest import Run

CASES = cases(__file__)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def say(home: Path, *titles: str) -> None:
    """Sessions of these titles in the store of a home."""

    async def work() -> None:
        store = open_store("", home / "state.db")
        try:
            for title in titles:
                await store.restore(session(title))
        finally:
            store.close()

    asyncio.run(work())


def session(title: str) -> dict:
    name = f"20260101_120000_{zlib.crc32(title.encode()):08x}"
    message = {"role": "user", "content": title}
    return {"id": name, "source": "cli", "model": "m", "title": title, "messages": [message]}


def titles(home: Path) -> set[str]:
    connection = apsw.Connection(str(home / "state.db"), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return {title for (title,) in connection.execute("SELECT title FROM sessions")}
    finally:
        connection.close()


@pytest.fixture
def full(hermes_home: Path) -> Path:
    """A home with something of everything."""
    for name, text in CASES["full"].items():
        path = hermes_home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (hermes_home / "auth.json").chmod(0o644)
    say(hermes_home, "first talk")
    say(hermes_home / "profiles" / "work", "at work")
    return hermes_home


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def names(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as zipped:
        return set(zipped.namelist())


def test_a_backup_has_everything_that_is_yours_and_nothing_else(hermes, full, tmp_path):
    target = tmp_path / "b.zip"
    hermes("backup", "-o", str(target), "-l", "for moving").expect()
    assert names(target) == {
        "config.yaml", ".env", "auth.json", "SOUL.md", "memories/MEMORY.md", "skills/own/SKILL.md",
        "skills/own/uv.lock", "plugins/p/plugin.yaml", "profiles/work/config.yaml", "state.db",
        "profiles/work/state.db", "hermes-backup.json",
    }  # fmt: skip
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with zipfile.ZipFile(target) as zipped:
        assert zipped.getinfo("auth.json").external_attr >> 16 == stat.S_IFREG | 0o600
    assert listed(tmp_path) == ["b.zip"]


def test_backup_is_restored_on_another_machine(hermes, full, tmp_path, monkeypatch):
    hermes("backup", "-o", str(tmp_path / "b.zip"))
    other = tmp_path / "other" / ".hermes"
    monkeypatch.setenv("HERMES_HOME", str(other))
    hermes("import", str(tmp_path / "b.zip")).expect()
    assert (other / "config.yaml").read_text() == "agent:\n  max_turns: 5\n"
    assert (other / "memories" / "MEMORY.md").read_text() == "likes tea"
    assert titles(other) == {"first talk"}
    assert titles(other / "profiles" / "work") == {"at work"}
    for private in (".env", "auth.json", "state.db"):
        assert stat.S_IMODE((other / private).stat().st_mode) == 0o600
    assert stat.S_IMODE(other.stat().st_mode) == 0o700
    assert not (other / ".import").exists()
    assert not (other / "snapshots").exists()


def test_nothing_is_overwritten_without_force_and_kept_with_it(hermes, full, tmp_path):
    target = tmp_path / "b.zip"
    hermes("backup", "-o", str(target))
    (full / "config.yaml").write_text("agent:\n  max_turns: 77\n")
    (full / "skills" / "newer").mkdir()
    (full / "skills" / "newer" / "SKILL.md").write_text("newer")
    say(full, "second talk")
    hermes("import", str(target)).expect(2, err="has these already")
    assert "77" in (full / "config.yaml").read_text()
    hermes("import", str(target), "--force").expect()
    assert "max_turns: 5" in (full / "config.yaml").read_text()
    assert not (full / "skills" / "newer").exists()
    assert titles(full) == {"first talk"}
    assert (full / "logs" / "agent.log").read_text() == "noise"
    assert (full / "models" / "weights.gguf").read_text() == "large"
    (kept,) = (full / "snapshots").iterdir()
    assert {"config.yaml", "skills/newer/SKILL.md", "state.db"} <= names(kept)
    assert hermes("import", str(kept), "-f").code == 0
    assert titles(full) == {"first talk", "second talk"}
    assert "77" in (full / "config.yaml").read_text()


def test_files_missing_in_the_archive_stay(hermes: Run, full: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.zip"
    hermes("backup", "-o", str(target))
    (full / "profiles" / "home").mkdir()
    (full / "profiles" / "home" / "config.yaml").write_text("timezone: UTC\n")
    (full / "cron").mkdir()
    hermes("import", str(target), "-f")
    assert (full / "profiles" / "home" / "config.yaml").exists()
    assert (full / "cron").is_dir()
    assert (full / "profiles" / "work" / "logs" / "agent.log").exists()


def test_a_damaged_archive_changes_nothing(hermes: Run, full: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.zip"
    hermes("backup", "-o", str(target))
    data = bytearray(target.read_bytes())
    data[60] ^= 0xFF
    target.write_bytes(data)
    before = listed(full)
    hermes("import", str(target), "-f").expect(1, err="damaged")
    assert [name for name in listed(full) if name != ".import.lock"] == before


def test_a_store_of_a_later_version_is_refused_whole(hermes, full, tmp_path):
    connection = apsw.Connection(str(full / "state.db"))
    connection.execute("UPDATE schema_version SET version = 99").fetchall()
    connection.close()
    target = tmp_path / "b.zip"
    hermes("backup", "-o", str(target)).expect(6)
    assert not target.exists()


def test_running_hermes_uses_the_imported_sessions(hermes: Run, full: Path, tmp_path: Path) -> None:
    """Its store is open while another takes its place."""
    hermes("backup", "-o", str(tmp_path / "b.zip"))

    async def work() -> set[str]:
        store = open_store("", full / "state.db")
        try:
            await store.restore(session("lost"))
            outcome = await asyncio.to_thread(hermes, "import", str(tmp_path / "b.zip"), "-f")
            assert outcome.code == 0, outcome.err
            await store.restore(session("after"))
            return {info.title for info in await store.sessions(SessionFilter())}
        finally:
            store.close()

    assert asyncio.run(work()) == {"first talk", "after"}


def test_a_backup_taken_while_sessions_are_written_is_of_one_moment(
    hermes, hermes_home, tmp_path, monkeypatch
):
    say(hermes_home, "0000")

    async def work() -> None:
        store = open_store("", hermes_home / "state.db")

        async def write() -> None:
            for number in range(1, 10_000):
                await store.restore(session(f"{number:04}"))

        writing = asyncio.create_task(write())
        try:
            for name in ("a.zip", "b.zip"):
                outcome = await asyncio.to_thread(hermes, "backup", "-o", str(tmp_path / name))
                assert outcome.code == 0, outcome.err
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            store.close()

    asyncio.run(work())
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "other"))
    assert hermes("import", str(tmp_path / "b.zip")).code == 0
    found = titles(tmp_path / "other")
    assert found == {f"{number:04}" for number in range(len(found))}
    assert len(found) > 1


def test_an_existing_file_is_never_replaced(hermes: Run, full: Path, tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_text("precious")
    hermes("backup", "-o", str(tmp_path / "b.zip")).expect(2, err="exists already")
    assert (tmp_path / "b.zip").read_text() == "precious"
    assert hermes("backup", "-o", str(tmp_path / "no" / "b.zip")).code == 2
    assert hermes("backup", "-o", str(tmp_path)).code == 0
    assert len(list(tmp_path.glob("hermes-backup-*.zip"))) == 1


def test_links_are_followed_and_odd_things_named(hermes: Run, full: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles"
    elsewhere.mkdir()
    (elsewhere / "SKILL.md").write_text("linked")
    (full / "skills" / "linked").symlink_to(elsewhere)
    (full / "skills" / "loop").symlink_to(full / "skills")
    (full / "skills" / "gone").symlink_to(tmp_path / "nowhere")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(full / "run.sock"))
    try:
        outcome = hermes("backup", "-o", str(tmp_path / "b.zip"), "--json")
    finally:
        listening.close()
    assert outcome.code == 0, outcome.err
    found = names(tmp_path / "b.zip")
    assert "skills/linked/SKILL.md" in found
    assert not any("loop" in name or "gone" in name or "sock" in name for name in found)
    assert sorted(Path(name).name for name in outcome.document["passed_over"]) == ["gone", "loop"]


def test_a_database_of_a_plugin_is_copied_with_its_log(hermes, full, tmp_path, monkeypatch):
    (full / "holographic").mkdir()
    connection = apsw.Connection(str(full / "holographic" / "memory.db"))
    for statement in (
        "PRAGMA journal_mode = WAL", "CREATE TABLE t(x)", "INSERT INTO t VALUES('kept')",
    ):  # fmt: skip
        connection.execute(statement).fetchall()
    assert (full / "holographic" / "memory.db-wal").stat().st_size
    hermes("backup", "-q", "-o", str(tmp_path / "b.zip"))
    connection.close()
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "other"))
    assert hermes("import", str(tmp_path / "b.zip")).code == 0
    copy = apsw.Connection(str(tmp_path / "other" / "holographic" / "memory.db"))
    assert copy.execute("SELECT x FROM t").fetchall() == [("kept",)]
    copy.close()


def test_empty_home_is_reported(hermes: Run, tmp_path: Path) -> None:
    hermes("backup", "-o", str(tmp_path / "b.zip")).expect(2, err="nothing in ~/.hermes to back up")
    assert hermes("import", str(tmp_path / "none.zip")).code == 2


def test_an_archive_with_profiles_does_not_go_into_a_profile(hermes, full, tmp_path):
    hermes("backup", "-o", str(tmp_path / "b.zip"))
    hermes("import", str(tmp_path / "b.zip"), "-f", profile="work").expect(2, err="holds profiles")


def test_a_quick_backup_is_a_snapshot(hermes: Run, full: Path) -> None:
    hermes("backup", "-q", "-l", "Before the BIG change").expect()
    (path,) = (full / "snapshots").iterdir()
    assert path.name.endswith("-before-the-big-change.zip")
    assert names(path) == {
        "config.yaml", ".env", "auth.json", "SOUL.md", "memories/MEMORY.md", "skills/own/SKILL.md",
        "skills/own/uv.lock", "hermes-backup.json",
    }  # fmt: skip
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_snapshot_is_restored_and_what_was_there_kept(full: Path) -> None:
    shelf = Snapshots(Home(full))
    taken = shelf.create("calm", NOON)
    (full / "SOUL.md").write_text("wild")
    say(full, "later talk")
    used, before = shelf.restore("calm", NOON + timedelta(minutes=1))
    assert used.id == taken.id
    assert (full / "SOUL.md").read_text() == "calm"
    assert titles(full) == {"first talk", "later talk"}
    assert before is not None
    shelf.restore(before.id, NOON + timedelta(minutes=2))
    assert (full / "SOUL.md").read_text() == "wild"


def test_snapshots_are_found_by_number_id_and_label(full: Path) -> None:
    shelf = Snapshots(Home(full))
    old, new = shelf.create("one", NOON), shelf.create("two", NOON + timedelta(hours=1))
    assert [one.id for one in shelf.newest_first()] == [new.id, old.id]
    assert shelf.find("1") == new
    assert shelf.find("one") == old
    assert shelf.find(old.id[:15]) == old
    with pytest.raises(UsageError, match="2 snapshots are called"):
        shelf.find("2026")
    with pytest.raises(UsageError, match="there is no snapshot"):
        shelf.find("three")


def test_only_the_newest_stay_and_the_one_in_use(full: Path) -> None:
    shelf = Snapshots(Home(full))
    for number in range(KEPT_SNAPSHOTS + 3):
        shelf.create(f"n{number}", NOON + timedelta(minutes=number))
    kept = shelf.newest_first()
    assert [one.label for one in kept] == [
        f"n{number}" for number in range(KEPT_SNAPSHOTS + 2, 2, -1)
    ]
    oldest = kept[-1]
    shelf.restore(oldest.id, NOON + timedelta(days=1))
    assert oldest.path.exists()
    assert [one.label for one in shelf.prune(1)] == [one.label for one in kept]
    assert len(shelf.newest_first()) == 1


def test_a_spoilt_snapshot_is_listed_with_its_problem(full: Path) -> None:
    shelf = Snapshots(Home(full))
    taken = shelf.create("x", NOON)
    taken.path.write_bytes(b"spoilt")
    (listed,) = shelf.newest_first()
    assert "not a backup" in listed.problem


def test_a_finished_home_has_nothing_to_finish(full: Path) -> None:
    (full / ".import" / "new").mkdir(parents=True)
    assert finish_restore(Home(full)) is False
    assert not (full / ".import").exists()


def test_a_backup_goes_to_the_home_and_not_to_the_current_folder(
    hermes: Run, full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "project"
    (here / ".git").mkdir(parents=True)
    monkeypatch.chdir(here)
    hermes("backup").expect(out="~/.hermes/backups/hermes-backup-")
    (made,) = (full / "backups").glob("hermes-backup-*.zip")
    assert made.parent.stat().st_mode & 0o077 == 0
    assert [each.name for each in here.iterdir()] == [".git"]
    into_project = hermes("backup", "-o", "mine.zip")
    into_project.expect(err="inside a git work tree and holds your keys")
    with zipfile.ZipFile(here / "mine.zip") as archive:
        assert not [name for name in archive.namelist() if "hermes-backup-" in name]


def test_a_snapshot_of_a_fresh_home_says_what_it_would_hold(hermes: Run, hermes_home: Path) -> None:
    say(hermes_home, "hello")
    hermes("backup", "-q").expect(2, err=["there are none yet", "hermes backup"])
