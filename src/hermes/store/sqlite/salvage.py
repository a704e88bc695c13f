"""Restores the readable rows of a damaged `state.db` into a new store.

`pages` reads the damaged file without SQLite. This module finds its tables, decides which table
each row belongs to, and inserts the rows into the new store.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import get_args

import apsw
import msgspec

from hermes.core.errors import StoreCorrupt
from hermes.store import schema as shared_schema
from hermes.store.backend import Progress, ignore_progress
from hermes.store.records import InState, OutState, RunState
from hermes.store.sqlite import schema
from hermes.store.sqlite.backend import connect
from hermes.store.sqlite.errors import as_store_error, transaction
from hermes.store.sqlite.pages import (
    Cell,
    Pages,
    Value,
    cells,
    free_pages,
    is_leaf,
    leaves,
    open_pages,
)
from hermes.store.sqlite.schema import ADDITIONS, MIGRATIONS
from hermes.util.text import many

# The tables of the damaged file, from its schema table

_CONSTRAINT = re.compile(r"(constraint|primary|unique|check|foreign)\b", re.IGNORECASE)
_NAME = re.compile(r'"((?:[^"]|"")+)"|`([^`]+)`|\[([^]]+)\]|(\w+)')
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|.", re.DOTALL)


class CatalogTable(msgspec.Struct, frozen=True):
    root: int
    columns: tuple[str, ...]


def read_catalog(pages: Pages, free: set[int], wanted: Iterable[str]) -> dict[str, CatalogTable]:
    """Return the tables of the schema by name. If the first page does not lead to all the `wanted`
    ones, all pages are searched for schema rows."""
    found = dict(_tables(pages, leaves(pages, 1)))
    if not found.keys() >= set(wanted):
        strays = (n for n in range(2, pages.count + 1) if n not in free and is_leaf(pages, n))
        found = dict(_tables(pages, strays)) | found
    return found


def column_names(statement: str) -> tuple[str, ...]:
    """Return the columns of a CREATE TABLE statement, in order."""
    parts, depth = [""], 0
    for token in _TOKEN.findall(statement.partition("(")[2]):
        depth += (token == "(") - (token == ")")
        if depth < 0:
            break
        if token == "," and depth == 0:
            parts.append("")
        elif not token.startswith(("--", "/*")):
            parts[-1] += token
    defined = [part.strip() for part in parts]
    matches = [_NAME.match(part) for part in defined if not _CONSTRAINT.match(part)]
    return tuple(next(filter(None, match.groups())) for match in matches if match)


def _tables(pages: Pages, numbers: Iterable[int]) -> Iterator[tuple[str, CatalogTable]]:
    for number in numbers:
        for cell in cells(pages, number):
            match cell and cell.record.values:
                case ("table", str(name), str(), int(root), str(statement)):
                    yield name, CatalogTable(root, column_names(statement))
                case _:
                    continue


# Which table a row can belong to, by the number and types of its values

NUMBERED = (
    "messages",
    "projections",
    "model_calls",
    *(table.name for table in shared_schema.TABLES if not table.key),
)
"""Tables whose rows have an automatic `id`."""
TABLES = ("sessions", *NUMBERED, *(table.name for table in shared_schema.TABLES if table.key))
SEQUENCES = "sqlite_sequence"
"""The table in which SQLite keeps the highest id of each table."""

LARGEST_ID = 2**53
_LATEST = 1e11
LOST = "\n\n[The rest of this message was lost when the session store was damaged.]"

_ANY = (int, float, str, bytes)
_TYPES: dict[str, tuple[type, ...]] = {
    "KEY": (),
    "TEXT": (str,),
    "INTEGER": (int, float),
    "REAL": (int, float),
    "": _ANY,
}
_CHECKS: dict[tuple[str, str], Callable[[Value], bool]] = {
    ("messages", "role"): lambda role: bool(re.fullmatch("[a-z_]{1,30}", str(role))),
    ("messages", "session_id"): bool,
    ("sessions", "id"): bool,
    ("inbox", "state"): lambda state: state in get_args(InState),
    ("outbox", "state"): lambda state: state in get_args(OutState),
    ("cron_runs", "state"): lambda state: state in get_args(RunState),
    (SEQUENCES, "name"): lambda name: name in TABLES,
    (SEQUENCES, "seq"): lambda seq: isinstance(seq, int) and 0 <= seq < LARGEST_ID,
}


class ShapeColumn(msgspec.Struct, frozen=True):
    name: str
    """Empty for a column that the current store does not have."""
    kind: str = ""
    """Its type; KEY is the row id under another name, which the record does not hold."""
    is_required: bool = False

    def accepts(self, table: str, value: Value) -> bool:
        if value is None:
            return self.kind == "KEY" or not self.is_required
        if not isinstance(value, _TYPES.get(self.kind, _ANY)):
            return False
        if self.kind == "REAL" and self.is_required and not _is_plausible(value):
            return False
        test = _CHECKS.get((table, self.name))
        return test is None or test(value)


class SalvagedRow(msgspec.Struct, frozen=True):
    table: str
    rowid: int
    values: dict[str, Value]
    """By column, without columns that are NULL or were added after the row was written."""
    is_cut: bool = False
    """A message of which only the beginning is left. Its time is unknown."""


class TableShape(msgspec.Struct, frozen=True, dict=True):
    """A table with its columns in the order of its records."""

    table: str
    columns: tuple[ShapeColumn, ...]

    def row(self, cell: Cell) -> SalvagedRow | None:
        """Return the row in `cell`, or None if it is not a complete row of this table. Of a
        truncated row only a message that is cut in its text is kept."""
        values, is_cut = cell.record.values, cell.record.is_cut
        if is_cut and not self._is_text_cut(len(values)):
            return None
        if not self._is_right_length(len(values)) and not is_cut:
            return None
        if self.columns[0].kind == "KEY" and not 0 < cell.rowid < LARGEST_ID:
            return None
        pairs = list(zip(self.columns, values, strict=False))
        if not all(column.accepts(self.table, value) for column, value in pairs):
            return None
        kept: dict[str, Value] = {
            column.name: value for column, value in pairs if column.name and value is not None
        }
        if is_cut:
            kept["content"] = str(kept.get("content", "")) + LOST
        return SalvagedRow(self.table, cell.rowid, kept, is_cut)

    def _is_text_cut(self, length: int) -> bool:
        return (
            self.table == "messages"
            and length <= len(self.columns)
            and self.columns[length - 1].name == "content"
        )

    def _is_right_length(self, length: int) -> bool:
        """Columns may be missing at the end only: those added after the row was written."""
        return self._least <= length <= len(self.columns)

    @cached_property
    def _least(self) -> int:
        return max(n for n, column in enumerate(self.columns, 1) if column.is_required)


def table_shapes(store: apsw.Connection) -> dict[str, list[TableShape]]:
    """Return the possible shapes of every table: that of the current `store`, and that of a table
    which got its later columns by migrations."""
    found = {table: _shapes(store, table) for table in TABLES}
    columns = (
        ShapeColumn("name", "TEXT", is_required=True),
        ShapeColumn("seq", "INTEGER", is_required=True),
    )
    return found | {SEQUENCES: [TableShape(SEQUENCES, columns)]}


def known_shape(shapes: list[TableShape], names: tuple[str, ...]) -> TableShape | None:
    """Return the shape with the columns `names`, or None if a required one is missing."""
    columns = {column.name: column for column in shapes[0].columns}
    required = {name for name, column in columns.items() if column.is_required}
    if not required <= set(names):
        return None
    return TableShape(shapes[0].table, tuple(columns.get(name, ShapeColumn("")) for name in names))


def _shapes(store: apsw.Connection, table: str) -> list[TableShape]:
    declared = [
        ShapeColumn(name, "KEY" if is_key and kind == "INTEGER" else kind, bool(not_null or is_key))
        for _, name, kind, not_null, _, is_key in store.execute(f"PRAGMA table_info({table})")
    ]
    changes = [change for change in (*MIGRATIONS, *ADDITIONS) if change.table == table]
    later = [name for change in changes for name, _ in change.columns]
    migrated = sorted(declared, key=lambda c: later.index(c.name) if c.name in later else -1)
    return [TableShape(table, tuple(declared)), TableShape(table, tuple(migrated))]


def _is_plausible(moment: Value) -> bool:
    return isinstance(moment, int | float) and math.isfinite(moment) and 0 <= moment < _LATEST


# Reading all rows

_PAGES_PER_REPORT = 100


class RowReader:
    """Reads a file once. `dropped` is then the number of rows that could not be read."""

    def __init__(self, pages: Pages, shapes: dict[str, list[TableShape]]) -> None:
        self.dropped = 0
        self._pages = pages
        self._shapes = shapes
        self._read: set[int] = set()

    def rows(self, progress: Progress) -> Iterator[SalvagedRow]:
        """Yield the rows that are reached from their table first, because they are the right ones
        if a row occurs twice; then those of pages that no table leads to."""
        pages = self._pages
        free = free_pages(pages)
        for number, shapes in self._in_order(free):
            if number not in self._read:
                yield from self._rows(number, shapes)
            if number % _PAGES_PER_REPORT == 0:
                progress(min(len(self._read), pages.count), pages.count)
        progress(pages.count, pages.count)

    def _in_order(self, free: set[int]) -> Iterator[tuple[int, list[TableShape]]]:
        catalog = read_catalog(self._pages, free, TABLES)
        for name, shapes in self._shapes.items():
            if (table := catalog.get(name)) is None:
                continue
            if (exact := known_shape(shapes, table.columns)) is not None:
                shapes.insert(0, exact)
            for number in leaves(self._pages, table.root):
                yield number, shapes
        every = [shape for shapes in self._shapes.values() for shape in shapes]
        for number in range(1, self._pages.count + 1):
            if number not in free and is_leaf(self._pages, number):
                yield number, every

    def _rows(self, number: int, shapes: list[TableShape]) -> list[SalvagedRow]:
        """Return the rows of a page that fit one of the shapes, and mark the page as read."""
        found = list(cells(self._pages, number))
        fitting = (
            next((row for shape in shapes if (row := shape.row(cell))), None) if cell else None
            for cell in found
        )
        rows = [row for row in fitting if row is not None]
        if rows:
            self._read.add(number)
            self.dropped += len(found) - len(rows)
        return rows


# Building the new store

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
# A truncated message gets a time between its neighbours.
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
    """Sessions in the new store, including those that were created for orphaned messages."""
    messages: int
    remade_sessions: int = 0
    """Sessions whose own row was lost; they have their messages, but no title or model."""
    cut_messages: int = 0
    """Messages of which only the beginning is left."""
    dropped: int = 0
    """Rows of any table that were found but could not be read."""
    lost_messages: int = 0
    """Missing messages, according to the counts in the sessions."""
    notes: tuple[str, ...] = ()
    """The same for the user, one sentence each."""


def salvage(damaged: Path, into: Path, progress: Progress = ignore_progress) -> SalvageReport:
    """Insert every readable row of `damaged` and of its log into a new store at `into`. The damaged
    files stay unchanged. Raises `StoreError`."""
    try:
        store = connect(into)
        try:
            with open_pages(damaged) as pages:
                return _rebuild(store, pages, progress)
        finally:
            store.close()
    except (apsw.Error, OSError) as error:
        raise as_store_error(error, into) from error


def _rebuild(store: apsw.Connection, pages: Pages, progress: Progress) -> SalvageReport:
    # The new file is deleted if anything fails, so it needs no journal on the disk.
    store.execute("PRAGMA journal_mode = MEMORY").fetchall()
    store.execute("PRAGMA synchronous = OFF")
    store.execute("PRAGMA foreign_keys = OFF")
    store.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    reader = RowReader(pages, table_shapes(store))
    with transaction(store):
        store.execute("DROP INDEX idx_sessions_title_unique")
        cut = _insert(store, reader, progress)
        remade, lost = _connect_rows(store)
        store.execute(schema.UNIQUE_TITLES)
        store.execute(schema.REBUILD_SEARCH)
        store.execute(schema.REBUILD_TRIGRAMS)
    problems = [row[0] for row in store.execute("PRAGMA integrity_check(1)")]
    if problems != ["ok"]:
        raise StoreCorrupt(f"the rebuilt session store is not sound ({problems[0]})")
    store.execute("PRAGMA journal_mode = WAL").fetchall()
    return _report(store, remade, cut, reader.dropped, lost)


def _insert(store: apsw.Connection, reader: RowReader, progress: Progress) -> int:
    """Insert all rows and return the number of truncated messages."""
    cut = 0
    highest: dict[Value, Value] = {}
    for row in reader.rows(progress):
        if row.table == SEQUENCES:
            highest |= {row.values["name"]: row.values["seq"]}
            continue
        values = _with_defaults(row)
        names, marks = ", ".join(values), ", ".join("?" for _ in values)
        store.execute(
            f"INSERT OR IGNORE INTO {row.table} ({names}) VALUES ({marks})", tuple(values.values())
        )
        cut += row.is_cut and store.changes()
    # The id of a lost message is not reused, because projections may still refer to it.
    for table in NUMBERED:
        seq = highest.get(table, 0)
        store.execute(f"UPDATE {SEQUENCES} SET seq = max(seq, ?) WHERE name = ?", (seq, table))
        if seq and not store.changes():
            store.execute(f"INSERT INTO {SEQUENCES} (name, seq) VALUES (?, ?)", (table, seq))
    return cut


def _with_defaults(row: SalvagedRow) -> dict[str, object]:
    values: dict[str, object] = dict(row.values)
    if row.table in NUMBERED:
        values["id"] = row.rowid
    if row.is_cut:
        values["timestamp"] = _UNKNOWN_TIME
    return values


def _connect_rows(store: apsw.Connection) -> tuple[int, int]:
    """Make the tables consistent. Return the number of created sessions and of missing messages."""
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
        (cut, "message", "could be read only up to a damaged part"),
        (dropped, "row", "found but not readable"),
        (lost, "message", "missing, according to the counts in the sessions"),
    )
    notes = tuple(f"{many(number, what)} {rest}" for number, what, rest in facts if number)
    return SalvageReport(sessions, messages, remade, cut, dropped, lost, notes)
