"""A new store with the rows of a damaged one."""

from pathlib import Path

import apsw
import msgspec

from hermes.core.errors import StoreCorrupt
from hermes.store.port import Progress, unheard
from hermes.store.sqlite import schema, search_schema
from hermes.store.sqlite.database import connect
from hermes.store.sqlite.faults import as_store_error
from hermes.store.sqlite.migrations import MIGRATIONS
from hermes.store.sqlite.salvage.pages import Pages, opened
from hermes.store.sqlite.salvage.reader import Reader
from hermes.store.sqlite.salvage.records import Value
from hermes.store.sqlite.salvage.shapes import NUMBERED, SEQUENCES, Row, shapes_of
from hermes.store.sqlite.transaction import transaction
from hermes.util.text import many

RECOVERED = "recovered"
"""The source of a session whose own row was lost."""

_UNKNOWN_TIME = -1.0
_SEPARATE_TITLES = next(one.statements[0] for one in MIGRATIONS if one.version == 4)

_LOST_SESSIONS = """
INSERT INTO sessions (id, source, started_at)
SELECT session_id, ?, min(moment) FROM (
    SELECT session_id, timestamp AS moment FROM messages
    UNION ALL SELECT session_id, created_at FROM projections
) WHERE session_id NOT IN (SELECT id FROM sessions) GROUP BY session_id
"""
_LOST_PARENTS = """
UPDATE sessions SET parent_session_id = NULL
WHERE parent_session_id NOT IN (SELECT id FROM sessions)
"""
# Of a message that was cut off: between its neighbours is as near as can be told.
_LOST_TIMES = """
UPDATE messages SET timestamp = coalesce(
    (SELECT max(timestamp) FROM messages AS other
        WHERE other.session_id = messages.session_id AND other.id < messages.id
        AND other.timestamp >= 0),
    (SELECT min(timestamp) FROM messages AS other
        WHERE other.session_id = messages.session_id AND other.timestamp >= 0),
    (SELECT started_at FROM sessions WHERE id = messages.session_id),
    (SELECT max(timestamp) FROM messages AS other WHERE other.id < messages.id),
    0)
WHERE timestamp < 0
"""
_COUNTED = "(SELECT count(*) FROM messages WHERE session_id = sessions.id)"
_LOST_MESSAGES = f"SELECT coalesce(sum(max(message_count - {_COUNTED}, 0)), 0) FROM sessions"
_RECOUNT = f"UPDATE sessions SET message_count = {_COUNTED} WHERE message_count IS NOT {_COUNTED}"


class SalvageReport(msgspec.Struct, frozen=True):
    sessions: int
    """Sessions in the new store, those made anew included."""
    messages: int
    remade_sessions: int = 0
    """Sessions whose own row was lost; they have their messages, but no title or model."""
    cut_messages: int = 0
    """Messages of which only the beginning is left."""
    dropped: int = 0
    """Rows of any table that were seen but could not be read."""
    lost_messages: int = 0
    """Messages that are gone, as far as the counts in the sessions tell."""
    notes: tuple[str, ...] = ()
    """The same for people, a sentence each."""


def salvage(damaged: Path, into: Path, progress: Progress = unheard) -> SalvageReport:
    """Put every row that can be read of `damaged`, and of the log beside it, into a new store at
    `into`. The damaged files stay unchanged. Raises `StoreError`."""
    try:
        store = connect(into)
        try:
            with opened(damaged) as pages:
                return _rebuild(store, pages, progress)
        finally:
            store.close()
    except (apsw.Error, OSError) as error:
        raise as_store_error(error, into) from error


def _rebuild(store: apsw.Connection, pages: Pages, progress: Progress) -> SalvageReport:
    # A file that is thrown away when anything goes wrong needs no journal on the disk.
    store.execute("PRAGMA journal_mode = MEMORY").fetchall()
    store.execute("PRAGMA synchronous = OFF")
    store.execute("PRAGMA foreign_keys = OFF")
    store.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    reader = Reader(pages, shapes_of(store))
    with transaction(store):
        store.execute("DROP INDEX idx_sessions_title_unique")
        cut = _insert(store, reader, progress)
        remade, lost = _connect_rows(store)
        store.execute(schema.UNIQUE_TITLES)
        store.execute(schema.REBUILD_SEARCH)
        store.execute(search_schema.REBUILD)
    problems = [row[0] for row in store.execute("PRAGMA integrity_check(1)")]
    if problems != ["ok"]:
        raise StoreCorrupt(f"the rebuilt session store is not sound ({problems[0]})")
    store.execute("PRAGMA journal_mode = WAL").fetchall()
    return _report(store, remade, cut, reader.dropped, lost)


def _insert(store: apsw.Connection, reader: Reader, progress: Progress) -> int:
    """The number of messages that are cut off."""
    cut = 0
    highest: dict[Value, Value] = {}
    for row in reader.rows(progress):
        if row.table == SEQUENCES:
            highest |= {row.values["name"]: row.values["seq"]}
            continue
        values = _completed(row)
        names, marks = ", ".join(values), ", ".join("?" for _ in values)
        store.execute(
            f"INSERT OR IGNORE INTO {row.table} ({names}) VALUES ({marks})", tuple(values.values())
        )
        cut += row.is_cut and store.changes()
    # The id of a lost message is not given again: projections may still name it.
    for table in NUMBERED:
        seq = highest.get(table, 0)
        store.execute(f"UPDATE {SEQUENCES} SET seq = max(seq, ?) WHERE name = ?", (seq, table))
        if seq and not store.changes():
            store.execute(f"INSERT INTO {SEQUENCES} (name, seq) VALUES (?, ?)", (table, seq))
    return cut


def _completed(row: Row) -> dict[str, object]:
    values: dict[str, object] = dict(row.values)
    if row.table in NUMBERED:
        values["id"] = row.rowid
    if row.is_cut:
        values["timestamp"] = _UNKNOWN_TIME
    return values


def _connect_rows(store: apsw.Connection) -> tuple[int, int]:
    """Make the tables agree; how many sessions had to be made, how many messages are missing."""
    store.execute(_LOST_TIMES)
    store.execute(_LOST_SESSIONS, (RECOVERED,))
    remade = store.changes()
    store.execute(_LOST_PARENTS)
    lost = int(store.execute(_LOST_MESSAGES).get)
    store.execute(_RECOUNT)
    while True:
        store.execute(_SEPARATE_TITLES)
        if not store.changes():
            return remade, lost


def _report(
    store: apsw.Connection, remade: int, cut: int, dropped: int, lost: int
) -> SalvageReport:
    sessions = int(store.execute("SELECT count(*) FROM sessions").get)
    messages = int(store.execute("SELECT count(*) FROM messages").get)
    facts = (
        (remade, "session", "lost title and settings; only the messages are left"),
        (cut, "message", "could be read only up to a damaged place"),
        (dropped, "row", "could be seen but not read"),
        (lost, "message", "missing, by the counts kept with the sessions"),
    )
    notes = tuple(f"{many(number, what)} {rest}" for number, what, rest in facts if number)
    return SalvageReport(sessions, messages, remade, cut, dropped, lost, notes)
