"""Migrations of the SQLite store."""

import hashlib

import apsw
import pytest

from hermes.core.errors import StoreCorrupt, StoreError, StoreTooNew
from hermes.core.messages import User
from hermes.store.records import InboxItem, SessionFilter
from hermes.store.schema import data_tables
from hermes.store.session_store import open_store
from hermes.store.sqlite import schema
from hermes.store.sqlite.backend import connect
from hermes.store.sqlite.schema import apply, migrations, set_version
from tests.unit.store.old_schema import BASE


def old_database(path, version):
    """A database as the documented schema had it at `version`, with two sessions in it."""
    connection = apsw.Connection(str(path))
    for table, definition in BASE.items():
        connection.execute(f"CREATE TABLE {table} ({definition})")
    for number, statements in migrations().items():
        if number <= version and number != 4:
            apply(connection, statements)
    connection.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
    connection.execute("INSERT INTO schema_version VALUES (?)", (version,))
    for number, session in enumerate(("old", "older")):
        connection.execute(
            "INSERT INTO sessions (id, source, model, started_at, message_count)"
            " VALUES (?, 'cli', 'm', ?, 1)",
            (session, 100.0 - number),
        )
        connection.execute(
            "INSERT INTO messages (session_id, role, content, timestamp)"
            " VALUES (?, 'user', ?, 101)",
            (session, f"hello from {session}"),
        )
    if version == 3:
        connection.execute("UPDATE sessions SET title = 'same'")
    connection.close()


def objects(connection):
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}


def columns_of(connection, table):
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def test_a_new_store_has_every_named_object_and_is_private(tmp_path):
    path = tmp_path / "home" / "state.db"
    connection = connect(path)
    assert objects(connection) >= schema.documented_objects()
    assert connection.execute("SELECT version FROM schema_version").fetchall() == [(6,)]
    assert connection.execute("PRAGMA journal_mode").get == "wal"
    assert {p.stat().st_mode & 0o777 for p in path.parent.iterdir()} == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700
    connection.close()


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
async def test_a_database_of_any_earlier_version_opens_and_keeps_its_rows(tmp_path, version):
    path = tmp_path / "state.db"
    old_database(path, version)
    log = open_store("", path)
    assert await log.messages("old") == (User.say("hello from old"),)
    await log.append("old", User.say("and on"))
    assert [info.id for info in await log.sessions(SessionFilter())] == ["old", "older"]
    log.close()

    fresh = connect(tmp_path / "fresh.db")
    migrated = connect(path)
    for table in ("sessions", "messages"):
        assert set(columns_of(migrated, table)) == set(columns_of(fresh, table))
    assert objects(migrated) >= schema.documented_objects()
    assert migrated.execute("SELECT version FROM schema_version").fetchall() == [(6,)]
    found = migrated.execute(
        "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'hello' ORDER BY rowid"
    ).fetchall()
    assert found == [(1,), (2,)]
    migrated.execute("INSERT INTO messages_fts(messages_fts) VALUES ('integrity-check')")
    migrated.close()
    fresh.close()


async def test_a_store_from_before_chats_gets_their_tables(tmp_path):
    path = tmp_path / "state.db"
    old_database(path, 6)
    connection = apsw.Connection(str(path))
    for number in (1, 2):
        apply(connection, schema.additions()[number])
    set_version(connection, "additions_version", 2)
    assert "inbox" not in objects(connection)
    connection.close()

    store = open_store("", path)
    assert await store.inbox.receive(InboxItem("fake", "", "m", "chat", b"{}"), 1.0) == 1
    assert await store.runs.claim("job", 1.0, "us", 1.0, 2.0)
    assert await store.messages("old") == (User.say("hello from old"),)
    store.close()
    migrated, fresh = connect(path), connect(tmp_path / "fresh.db")
    assert objects(migrated) >= schema.added_objects()
    for table in data_tables()[4:]:
        assert columns_of(migrated, table) == columns_of(fresh, table)
    assert migrated.execute("SELECT version FROM additions_version").fetchall() == [(4,)]
    migrated.close()
    fresh.close()


def test_equal_titles_are_separated(tmp_path):
    old_database(tmp_path / "state.db", 3)
    connection = connect(tmp_path / "state.db")
    titles = connection.execute("SELECT id, title FROM sessions ORDER BY id").fetchall()
    assert titles == [("old", "same (old)"), ("older", "same")]
    connection.close()


def test_a_half_migrated_database_is_finished(tmp_path):
    path = tmp_path / "state.db"
    old_database(path, 4)
    connection = apsw.Connection(str(path))
    connection.execute("ALTER TABLE sessions ADD COLUMN billing_mode TEXT")
    connection.close()
    connect(path).close()


def test_a_database_from_the_future_is_refused_and_not_touched(tmp_path):
    path = tmp_path / "state.db"
    connection = connect(path)
    connection.execute("UPDATE schema_version SET version = 7")
    connection.close()
    before = hashlib.sha256(path.read_bytes()).digest()
    with pytest.raises(StoreTooNew, match="version 7") as caught:
        connect(path)
    assert "Update Hermes" in caught.value.hint
    assert hashlib.sha256(path.read_bytes()).digest() == before
    assert not (tmp_path / "state.db-wal").read_bytes()


async def test_a_damaged_file_is_kept_and_the_user_notified(tmp_path):
    path = tmp_path / "state.db"
    old_database(path, 6)
    before = path.read_bytes()[:9000]
    path.write_bytes(before)
    notices = []
    log = open_store("", path, notices.append)
    await log.create("s", source="cli", model="m", system_prompt="")
    assert (await log.info("s")).source == "cli"
    log.close()
    (kept,) = tmp_path.glob("state.db.damaged-*[0-9]")
    assert kept.read_bytes() == before
    assert len(notices) == 1
    assert str(kept) in notices[0]


@pytest.mark.parametrize("data", [b"not a database at all " * 500, b"SQLite format 3\0" * 2])
async def test_an_unreadable_file_is_refused_and_not_changed(tmp_path, data):
    path = tmp_path / "state.db"
    path.write_bytes(data)
    log = open_store("", path)
    with pytest.raises(StoreCorrupt, match="cannot be repaired") as raised:
        await log.create("s", source="cli", model="m", system_prompt="")
    log.close()
    assert "To start with an empty store: mv " in raised.value.hint
    assert path.read_bytes() == data


async def test_a_store_that_cannot_be_opened_says_so(tmp_path):
    (tmp_path / "state.db").mkdir()
    log = open_store("", tmp_path / "state.db")
    with pytest.raises(StoreError, match="cannot be used"):
        await log.latest()
    log.close()
