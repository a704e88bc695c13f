"""A damaged store is replaced, kept and reported."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from hermes.core.errors import StoreCorrupt, StoreError, StoreTooNew
from hermes.store.sqlite.backend import SqliteBackend, connect
from hermes.store.sqlite.repair import back_up_daily, repair, restore
from tests.integration.store.rescue import stores

ROOT = Path(__file__).resolve().parents[4]
MOMENT = datetime(2026, 11, 15, 4, 53, 1, tzinfo=UTC)
INDEX = "idx_sessions_source"
"""Its damage costs no row."""
KEPT = "state.db.damaged-20261115-045301"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return stores.make(tmp_path_factory.mktemp("sound") / "state.db")


@pytest.fixture
def path(sound, tmp_path):
    return stores.copied(sound, tmp_path / "state.db")


def names(path):
    return {one.name for one in path.parent.iterdir()}


def ignore(_done, _total):
    pass


def test_a_damaged_store_is_replaced_and_kept_under_a_dated_name(sound, path):
    stores.overwrite(path, stores.root_of(path, INDEX))
    damaged = path.read_bytes()
    report = repair(path, ignore, MOMENT)
    assert report.outcome == "rescued"
    assert report.kept == path.parent / KEPT
    assert report.kept.read_bytes() == damaged
    assert stores.contents(path) == stores.contents(sound)
    assert names(path) == {"state.db", KEPT, "state.db.rescue.lock"}
    assert {one.stat().st_mode & 0o777 for one in path.parent.iterdir()} == {0o600}
    stores.assert_sound(path)
    said = report.summary()
    assert KEPT in said
    assert "6 sessions with 120 messages restored" in said
    assert "Nothing is known to be missing" in said


def test_the_log_is_kept_too_and_nothing_is_ever_overwritten(path):
    (path.parent / KEPT).write_text("an older one")
    connection = connect(path)
    stores.add_message(connection, "s0", "in the log")
    stores.overwrite(stores.copied(path, path.parent / "other.db"), stores.root_of(path, INDEX))
    connection.close()
    (path.parent / "other.db").replace(path)
    (path.parent / "other.db-wal").replace(f"{path}-wal")
    log = Path(f"{path}-wal").read_bytes()
    report = repair(path, ignore, MOMENT)
    assert report.kept == path.parent / f"{KEPT}-2"
    assert Path(f"{report.kept}-wal").read_bytes() == log
    assert (path.parent / KEPT).read_text() == "an older one"
    assert "in the log" in [row["content"] for row in stores.contents(path)["messages"].values()]


def test_lost_rows_are_reported(sound, path):
    page, keys = next((p, keys) for p, keys in stores.rows_of_pages(sound).items() if len(keys) > 1)
    stores.overwrite(path, page)
    said = repair(path, ignore, MOMENT).summary()
    assert f"{120 - len(keys)} messages restored." in said
    assert f"{len(keys)} messages missing" in said
    assert "Nothing is known" not in said


def test_a_sound_store_is_not_changed(sound, path):
    report = repair(path)
    assert report.outcome == "already_sound"
    assert "nothing was changed" in report.summary()
    assert path.read_bytes() == sound.read_bytes()
    assert names(path) == {"state.db", "state.db.rescue.lock"}


@pytest.mark.parametrize("data", [b"no database " * 1000, bytes(9000), "zeroed header"])
def test_an_unreadable_store_is_left_alone_and_the_hint_says_how_to_start_anew(path, data):
    path.write_bytes(bytes(100) + path.read_bytes()[100:] if isinstance(data, str) else data)
    before = path.read_bytes()
    for attempt in (lambda: repair(path), lambda: SqliteBackend(path).connect()):
        with pytest.raises(StoreCorrupt, match="cannot be repaired") as raised:
            attempt()
        assert "no sound backup" in raised.value.hint
        assert path.read_bytes() == before
        assert names(path) <= {"state.db", "state.db.rescue.lock", "state.db-wal", "state.db-shm"}
    command = raised.value.hint.partition("empty store: ")[2]
    subprocess.run(["sh", "-c", command], check=True)
    SqliteBackend(path).connect().close()
    assert stores.contents(path)["messages"] == {}
    assert Path(f"{path}.unreadable").read_bytes() == before


def test_an_unreadable_header_names_the_newest_sound_backup(sound, path):
    good = back_up_daily(path, 3)
    bad = good.with_name("state-20991231-000000.db")
    bad.write_bytes(bytes(100) + good.read_bytes()[100:])
    stores.overwrite(path, 1, bytes(100))
    with pytest.raises(StoreCorrupt) as raised:
        SqliteBackend(path).connect()
    assert f"hermes sessions restore {good}" in raised.value.hint
    kept = restore(path, good)
    assert stores.contents(path) == stores.contents(sound)
    assert kept.read_bytes()[:100] == bytes(100)


def test_a_repair_that_lost_rows_names_the_backup(path):
    backup = back_up_daily(path, 3)
    stores.overwrite(path, rows_page(path))
    assert f"hermes sessions restore {backup}" in repair(path).summary()


def test_an_empty_file_is_sound(tmp_path):
    (tmp_path / "state.db").touch()
    assert repair(tmp_path / "state.db").outcome == "already_sound"
    connect(tmp_path / "state.db").close()
    stores.assert_sound(tmp_path / "state.db")


def test_a_store_that_is_not_there_is_not_repaired(tmp_path):
    with pytest.raises(StoreError, match="there is no session store"):
        repair(tmp_path / "state.db")
    assert list(tmp_path.iterdir()) == []


def test_a_store_from_the_future_is_left_alone(path):
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE schema_version SET version = 99")
    connection.close()
    stores.overwrite(path, stores.root_of(path, INDEX))
    before = path.read_bytes()
    with pytest.raises(StoreTooNew):
        repair(path)
    assert path.read_bytes() == before


def test_a_search_index_that_is_out_of_step_is_built_anew_in_its_place(path):
    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    stores.add_message(connection, "s0", "unheardof")
    connection.close()
    before = path.stat().st_ino
    report = repair(path)
    assert report.outcome == "reindexed"
    assert "No message was lost" in report.summary()
    assert path.stat().st_ino == before
    connection = connect(path)
    assert connection.execute("SELECT rowid FROM messages_fts('unheardof')").get == 121
    connection.close()
    stores.assert_sound(path)


def test_any_damaged_page_of_the_search_index_costs_no_row(sound, path):
    connection = apsw.Connection(str(sound))
    pages = connection.execute(
        "SELECT pageno FROM dbstat WHERE name GLOB 'messages_fts*' OR name GLOB 'messages_trigram*'"
    ).fetchall()
    connection.close()
    original = stores.contents(sound)
    for (number,) in pages:
        stores.copied(sound, path)
        stores.overwrite(path, number)
        assert repair(path).outcome in ("reindexed", "rescued")
        assert stores.contents(path) == original
        stores.assert_sound(path)


def test_a_writer_cannot_slip_in_between(path):
    """What another process writes is in the old file before the rescue, or in the new one."""
    stores.overwrite(path, rows_page(path))
    other = connect(path)
    other.set_busy_timeout(0)
    seen = []

    def try_to_write(_done, _total):
        try:
            stores.add_message(other, "s5", "too late")
            seen.append("written")
        except apsw.BusyError:
            seen.append("busy")

    repair(path, try_to_write)
    other.close()
    assert set(seen) == {"busy"}
    stores.assert_sound(path)


def rows_page(path):
    """A leaf page of `messages` in the middle."""
    return [number for number, keys in stores.rows_of_pages(path).items() if len(keys) > 1][5]


def test_two_processes_at_once_end_with_one_good_store(sound, path):
    stores.overwrite(path, stores.root_of(path, INDEX))
    code = (
        "import sys; from pathlib import Path; from hermes.store.sqlite.repair import repair;"
        "print(repair(Path(sys.argv[1])).outcome)"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT / "src",
        )
        for _ in range(3)
    ]
    said = sorted(process.communicate(timeout=100)[0].strip() for process in running)
    assert said == ["already_sound", "already_sound", "rescued"]
    assert stores.contents(path) == stores.contents(sound)
    assert len([name for name in names(path) if "damaged" in name]) == 1
    stores.assert_sound(path)


def test_symlink_still_leads_to_the_repaired_store(sound, path):
    link = path.parent / "link.db"
    link.symlink_to(path)
    stores.overwrite(path, stores.root_of(path, INDEX))
    report = repair(link, ignore, MOMENT)
    assert link.is_symlink()
    assert report.kept == path.parent / KEPT
    assert stores.contents(link) == stores.contents(sound)
