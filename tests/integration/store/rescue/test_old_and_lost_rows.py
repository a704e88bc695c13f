"""Rows of older versions, and rows whose others were lost."""

import random

import apsw
import pytest

from hermes.store.sqlite.salvage import RECOVERED, salvage
from hermes.store.sqlite.schema import migrations
from tests.integration.store.rescue import stores
from tests.unit.store.old_schema import BASE

SESSIONS, MESSAGES = 40, 300


def old_store(path, version):
    """Tables as the documented schema had them at `version`, reached by one ALTER TABLE after the
    other, with rows written before and after each."""
    random_ = random.Random(version)
    connection = apsw.Connection(str(path))
    for table, definition in BASE.items():
        connection.execute(f"CREATE TABLE {table} ({definition})")
    connection.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
    connection.execute("INSERT INTO schema_version VALUES (?)", (version,))
    steps = [some for number, some in migrations().items() if number <= version]
    with connection:
        for number in range(SESSIONS):
            connection.execute(
                "INSERT INTO sessions (id, source, model, system_prompt, started_at,"
                " message_count, input_tokens) VALUES (?, 'telegram', 'm', ?, ?, 0, 77)",
                (f"o{number}", stores.text(random_, 400), 100.0 + number),
            )
            if number % (SESSIONS // (len(steps) + 1)) == 5 and steps:
                for statement in steps.pop(0):
                    if statement.startswith("ALTER"):
                        connection.execute(statement)
            if version >= 3 and len(steps) < version - 2:
                connection.execute(
                    "UPDATE sessions SET title = 'same' WHERE id = ?", (f"o{number}",)
                )
        for number in range(MESSAGES):
            connection.execute(
                "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, ?, ?, ?)",
                (f"o{number % SESSIONS}", "user", stores.text(random_, 300), 100 + number),
            )
    assert not steps
    connection.close()
    return path


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_an_old_store_comes_back_as_a_current_one(tmp_path, version):
    path = old_store(tmp_path / "state.db", version)
    connection = apsw.Connection(str(path))
    before = {
        table: connection.execute(f"SELECT {names} FROM {table} ORDER BY id").fetchall()
        for table, names in (
            ("sessions", "id, source, model, system_prompt, started_at, input_tokens"),
            ("messages", "id, session_id, role, content, timestamp"),
        )
    }
    connection.close()
    salvage(path, tmp_path / "new.db")
    found = stores.contents(tmp_path / "new.db")
    assert [
        tuple(row[name] for name in ("id", "session_id", "role", "content", "timestamp"))
        for row in found["messages"].values()
    ] == before["messages"]
    assert [
        (key, row["source"], row["model"], row["system_prompt"], row["started_at"],
         row["input_tokens"])
        for key, row in found["sessions"].items()
    ] == before["sessions"]  # fmt: skip
    assert all(row["cache_read_tokens"] == 0 for row in found["sessions"].values())
    assert sum(row["message_count"] for row in found["sessions"].values()) == MESSAGES
    titles = [row["title"] for row in found["sessions"].values() if row["title"]]
    assert len(titles) == len(set(titles))
    assert bool(titles) == (version >= 3)
    assert all(title.startswith("same") for title in titles)
    stores.assert_sound(tmp_path / "new.db")


def test_a_session_whose_row_is_lost_is_made_again_for_its_messages(tmp_path):
    path = stores.make(tmp_path / "state.db", sessions=60)
    original = stores.contents(path)
    page, lost = next(
        (page, keys)
        for page, keys in stores.rows_of_pages(path, "sessions").items()
        if len(keys) > 1
    )
    stores.overwrite(path, page)
    report = salvage(path, tmp_path / "new.db")
    found = stores.contents(tmp_path / "new.db")
    assert report.remade_sessions == len(lost)
    assert found["messages"] == original["messages"]
    for key in lost:
        times = [row["timestamp"] for row in found["messages"].values() if row["session_id"] == key]
        assert found["sessions"][key]["source"] == RECOVERED
        assert found["sessions"][key]["started_at"] == min(times)
        assert found["sessions"][key]["message_count"] == len(times)
    assert f"{len(lost)} sessions lost title" in " ".join(report.notes)


def test_a_parent_that_is_lost_is_not_named_any_more(tmp_path):
    path = stores.make(tmp_path / "state.db", sessions=60, messages=0)
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM projections")
    connection.close()
    page, lost = next(
        (page, keys)
        for page, keys in stores.rows_of_pages(path, "sessions").items()
        if len(keys) > 1
    )
    stores.overwrite(path, page)
    salvage(path, tmp_path / "new.db")
    sessions = stores.contents(tmp_path / "new.db")["sessions"]
    assert sessions.keys() == {f"s{number}" for number in range(60)} - lost
    parents = {row["parent_session_id"] for row in sessions.values()} - {None}
    assert parents
    assert parents <= sessions.keys()
    stores.assert_sound(tmp_path / "new.db")


def test_titles_that_clash_with_a_separated_one_are_separated_too(tmp_path):
    path = old_store(tmp_path / "state.db", 3)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE sessions SET title = NULL")
    for key, title in (("o1", "plan"), ("o2", "plan"), ("o3", "plan (o2)")):
        connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, key))
    connection.close()
    salvage(path, tmp_path / "new.db")
    found = stores.contents(tmp_path / "new.db")["sessions"]
    assert [found[key]["title"] for key in ("o1", "o2", "o3")] == [
        "plan",
        "plan (o2)",
        "plan (o2) (o3)",
    ]
