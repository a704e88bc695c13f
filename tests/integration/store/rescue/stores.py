"""Stores to damage, what is in them, and ways to damage them."""

import random
import shutil
from pathlib import Path

import apsw

from hermes.store.sqlite.backend import connect

PAGE = 4096
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


def fill(connection, sessions=6, messages=120, *, seed=1, sizes=(20, 900)):
    """Sessions with parents, titles and prompts; messages of many lengths; calls; projections."""
    random_ = random.Random(seed)
    with connection:
        for number in range(sessions):
            connection.execute(
                "INSERT INTO sessions (id, source, model, system_prompt, parent_session_id,"
                " started_at, message_count, title) VALUES (?, 'cli', 'm', ?, ?, ?, 0, ?)",
                (
                    f"s{number}",
                    text(random_, 300 if number % 3 else 6000),
                    f"s{number - 1}" if number % 2 else None,
                    1.7e9 + number,
                    f"title {number}",
                ),
            )
        for number in range(messages):
            add_message(connection, f"s{number % sessions}", text(random_, random_.randint(*sizes)))
        for number in range(sessions):
            connection.execute(
                "INSERT INTO projections (session_id, after_id, reason, basis, created_at)"
                " VALUES (?, ?, 'undo', '[]', ?)",
                (f"s{number}", number, 1.7e9 + number),
            )
            connection.execute(
                "INSERT INTO model_calls (session_id, timestamp, task, provider, model, tool,"
                " input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,"
                " reasoning_tokens, cost_usd, seconds)"
                " VALUES (?, ?, 'main', 'p', 'm', '', 1, 2, 3, 4, 5, 0.5, 2)",
                (f"s{number}", 1.7e9 + number),
            )


def add_message(connection, session, content, role="user"):
    connection.execute(
        "INSERT INTO messages (session_id, role, content, timestamp)"
        " VALUES (?, ?, ?, 1.7e9 + (SELECT coalesce(max(id), 0) FROM messages) * 0.25)",
        (session, role, content),
    )
    connection.execute(
        "UPDATE sessions SET message_count = message_count + 1 WHERE id = ?", (session,)
    )


def text(random_, length):
    words = " ".join(random_.choices(WORDS, k=length // 5)) + " 会話を保存する"
    return f"{words}{random_.getrandbits(64):x}"


def make(path, **given):
    """A store at `path`, all in one file."""
    connection = connect(path)
    fill(connection, **given)
    connection.close()
    return path


def contents(path):
    """Every row of every table by its key, read by SQLite."""
    connection = apsw.Connection(str(path))
    try:
        return {
            table: {
                row["id"]: row
                for row in rows_by_name(connection, f"SELECT * FROM {table} ORDER BY id")
            }
            for table in ("sessions", "messages", "projections", "model_calls")
        }
    finally:
        connection.close()


def rows_by_name(connection, statement):
    cursor = connection.execute(statement)
    rows = cursor.fetchall()
    if not rows:
        return []
    names = [column[0] for column in connection.execute(f"{statement} LIMIT 1").description]
    return [dict(zip(names, row, strict=True)) for row in rows]


def rows_of_pages(path, table="messages", *, interior=False):
    """The ids of the rows that each page holds a part of, as SQLite's own statistics have it; with
    `interior` also those of pages that lead to others."""
    connection = apsw.Connection(str(path))
    pages = connection.execute(
        "SELECT pageno, path, pagetype, ncell FROM dbstat WHERE name = ? ORDER BY path", (table,)
    ).fetchall()
    ids = [row[0] for row in connection.execute(f"SELECT id FROM {table} ORDER BY rowid")]
    connection.close()
    held, leaves = {}, {}
    position = 0
    for number, place, kind, count in sorted(pages, key=lambda page: page[1].split("+")[0]):
        if kind == "leaf":
            leaves[place] = ids[position : position + count]
            held[number] = set(leaves[place])
            position += count
    for number, place, kind, _ in pages:
        if kind == "overflow":
            leaf, _, cell = place.split("+")[0].rpartition("/")
            held[number] = {leaves[f"{leaf}/"][int(cell, 16)]}
    for number, place, kind, _ in pages:
        if interior and kind == "internal":
            held[number] = {
                key for leaf, keys in leaves.items() if leaf.startswith(place) for key in keys
            }
    assert position == len(ids)
    return held


def pages_of(path, name, kind="leaf"):
    """The numbers of the pages of a table or index, in order."""
    connection = apsw.Connection(str(path))
    found = connection.execute(
        "SELECT pageno FROM dbstat WHERE name = ? AND pagetype GLOB ? ORDER BY path", (name, kind)
    ).fetchall()
    connection.close()
    return [number for (number,) in found]


def overwrite(path, number, data=None, *, seed=0):
    """Put random bytes, or `data`, over page `number`."""
    with path.open("r+b") as file:
        file.seek((number - 1) * PAGE)
        file.write(random.Random(seed * 100_003 + number).randbytes(PAGE) if data is None else data)


def page_count(path):
    return path.stat().st_size // PAGE


def copied(path: Path, target: Path) -> Path:
    shutil.copy(path, target)
    if (log := Path(f"{path}-wal")).exists():
        shutil.copy(log, f"{target}-wal")
    return target


def root_of(path, name):
    connection = apsw.Connection(str(path))
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).get
    connection.close()
    return root


def assert_sound(path):
    connection = connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    for index in ("messages_fts", "messages_trigram"):
        connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
    connection.close()


def assert_nothing_invented(found, original):
    """Every row that is there is as it was; only sessions may have been made anew."""
    assert found["sessions"].keys() <= original["sessions"].keys()
    for table in ("messages", "projections", "model_calls"):
        assert found[table].items() <= original[table].items()
