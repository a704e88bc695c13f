"""Restores the readable rows of a damaged `state.db` into a new store.

SQLite reads the damaged file, with its log. A row is lost if its own page or a page on the way to
it is damaged, or if one of its values cannot be decoded or has the wrong type.
"""

import heapq
import math
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, get_args

import apsw
import msgspec

from hermes.core.errors import StoreCorrupt
from hermes.store.engine import Progress, ignore_progress
from hermes.store.records import InState, OutState, RunState
from hermes.store.schema import data_tables
from hermes.store.sqlite import schema
from hermes.store.sqlite.backend import connect
from hermes.store.sqlite.health import as_store_error, transaction
from hermes.util.text import many

SEQUENCES = "sqlite_sequence"  #: The table in which SQLite keeps the highest id of each table.
_NEEDED = frozenset({"sessions", "messages"})


class StoreUnreadable(StoreCorrupt):
    """SQLite cannot open the file or does not find its tables: no row can be read."""


def check_readable(path: Path) -> None:
    """Raise `StoreUnreadable` if nothing can be salvaged from `path`. It only reads."""
    with _open(path):
        pass


# As bytes: a damaged name may be no text any more.
_TABLE_NAMES = "SELECT CAST(name AS BLOB) FROM sqlite_schema WHERE type = 'table'"
_COLUMN_NAMES = "SELECT CAST(name AS BLOB) FROM pragma_table_info(?)"


@contextmanager
def _open(path: Path) -> Iterator[apsw.Connection]:
    """Open a damaged file read-only. Raises `StoreUnreadable`."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        try:
            # With a writable schema SQLite tolerates damaged entries of other tables and a file
            # that ends early. Nothing is written: the connection is read-only.
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("PRAGMA cell_size_check = ON")
            found = connection.execute(_TABLE_NAMES)
            missing = _NEEDED - {row[0].decode("utf-8", "replace") for row in found}
        except (*_DAMAGED, apsw.SQLError) as error:
            raise StoreUnreadable(f"SQLite cannot read {path} ({error})") from error
        if missing:
            raise StoreUnreadable(f"{path} has no table {' and '.join(sorted(missing))} any more")
        yield connection


# Which rows are accepted. A damaged page can decode to values that were never stored.

_LARGEST_ID = 2**53
_LATEST = 1e11
_TYPES: dict[str, tuple[type, ...]] = {
    "TEXT": (str,),
    "INTEGER": (int, float),
    "REAL": (int, float),
}
_CHECKS: dict[tuple[str, str], Callable[[Any], bool]] = {
    ("messages", "role"): lambda role: bool(re.fullmatch("[a-z_]{1,30}", role)),
    ("messages", "session_id"): bool,
    ("sessions", "id"): bool,
    ("inbox", "state"): lambda state: state in get_args(InState),
    ("outbox", "state"): lambda state: state in get_args(OutState),
    ("cron_runs", "state"): lambda state: state in get_args(RunState),
    (SEQUENCES, "name"): lambda name: name in data_tables(),
    (SEQUENCES, "seq"): lambda seq: isinstance(seq, int) and 0 <= seq < _LARGEST_ID,
}


class _Column(msgspec.Struct, frozen=True):
    table: str
    name: str
    kind: str
    is_required: bool

    def accepts(self, value: Any) -> bool:
        if value is None:
            return not self.is_required
        if not isinstance(value, _TYPES.get(self.kind, object)):
            return False
        if isinstance(value, int | float) and self.kind == "REAL" and self.is_required:
            return math.isfinite(value) and 0 <= value < _LATEST
        test = _CHECKS.get((self.table, self.name))
        return test is None or test(value)


def _columns(store: apsw.Connection, table: str) -> list[_Column]:
    if table == SEQUENCES:
        return [_Column(table, "name", "TEXT", True), _Column(table, "seq", "INTEGER", True)]
    return [
        _Column(table, name, kind, bool(not_null or is_key))
        for _, name, kind, not_null, _, is_key in store.execute(f"PRAGMA table_info({table})")
    ]


# Reading a table around its damaged pages

_DAMAGED = (apsw.CorruptError, apsw.NotADBError, apsw.TooBigError, UnicodeDecodeError)
_MAX_PROBES = 10_000
"""Failed attempts per table to find readable rows between damaged pages: about a second."""
_ROWS_PER_PAGE = 16  #: Used to guess the highest row id if it is not known.

_Row = tuple[Any, ...]


class _TableReader:
    """Reads the rows of one table. `dropped` counts those that exist but cannot be used."""

    def __init__(self, source: apsw.Connection, columns: list[_Column], highest: int) -> None:
        """`highest` is the highest row id, 0 if it is not known."""
        self.table = columns[0].table
        self.dropped = 0
        self._source = source
        self._highest = highest
        found = source.execute(_COLUMN_NAMES, (self.table,))
        present = {row[0].decode("utf-8", "replace") for row in found}
        self.columns = [column for column in columns if column.name in present]
        self._is_usable = all(c.name in present for c in columns if c.is_required)
        self._names = ", ".join(f'"{column.name}"' for column in self.columns)

    def rows(self) -> Iterator[_Row]:
        """Yield every readable row once, as the values of `columns`.

        The table is read forward from its beginning and backward from its end, each up to the
        first damaged page. Rows in the gap between are searched afterwards.
        """
        if not self._is_usable:
            return
        low = yield from self._read(0, _LARGEST_ID)
        if low is None:
            return
        high = yield from self._read(low, _LARGEST_ID, backward=True)
        if high is None:
            return
        if high == _LARGEST_ID:  # the last page is damaged
            pages = int(self._source.execute("PRAGMA page_count").get)
            high = max(self._highest or low + pages * _ROWS_PER_PAGE, low) + 1
        yield from self._read_gap(low, high)

    def _read_gap(self, low: int, high: int) -> Iterator[_Row]:
        """Bisect the ids between two damaged pages: wherever a row is readable, reading continues
        from there in both directions. The largest remaining gap comes first."""
        gaps = [(low - high, low, high)]
        for _ in range(_MAX_PROBES):
            if not gaps:
                return
            _, low, high = heapq.heappop(gaps)
            middle = (low + high) // 2
            if middle == low:
                continue
            end = yield from self._read(middle - 1, high)
            if end is not None:
                heapq.heappush(gaps, (max(end, middle) - high, max(end, middle), high))
            start: int | None = middle
            if end is None or end >= middle:
                start = yield from self._read(low, middle, backward=True)
            if start is not None:
                heapq.heappush(gaps, (low - start, low, start))

    def _read(
        self, low: int, high: int, *, backward: bool = False
    ) -> Generator[_Row, None, int | None]:
        """Yield the rows with ids between `low` and `high`, both excluded, up to a damaged page.
        Return the last id that was reached, or None if there are no more rows."""
        order = "DESC" if backward else "ASC"
        while True:
            try:
                for rowid, *values in self._select(self._names, low, high, order):
                    if not low < rowid < high:  # out of order: the page is damaged
                        return high if backward else low
                    low, high = (low, rowid) if backward else (rowid, high)
                    if all(map(_Column.accepts, self.columns, values)):
                        yield tuple(values)
                    else:
                        self.dropped += 1
                return None
            except _DAMAGED:
                rowid = self._next_id(low, high, order)
            if rowid is None:
                return high if backward else low
            low, high = (low, rowid) if backward else (rowid, high)

    def _next_id(self, low: int, high: int, order: str) -> int | None:
        """Return the id of a row whose values cannot be read, or None if the page is damaged."""
        try:
            found = self._select("1", low, high, order).fetchone()
        except _DAMAGED:
            return None
        if found is None or not low < found[0] < high:
            return None
        self.dropped += 1
        return int(found[0])

    def _select(self, names: str, low: int, high: int, order: str) -> apsw.Cursor:
        # Inclusive bounds: SQLite then goes straight to the page of the first row. For `rowid > ?`
        # it would go through the page of the row before it, which may be the damaged one.
        return self._source.execute(
            f"SELECT rowid, {names} FROM {self.table} WHERE rowid BETWEEN ? AND ?"
            f" ORDER BY rowid {order}",
            (low + 1, high - 1),
        )


# Building the new store

RECOVERED = "recovered"  #: The source of a session whose own row was lost.

_ROWS_PER_REPORT = 1000

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
_COUNTED = "(SELECT count(*) FROM messages WHERE session_id = sessions.id)"
_LOST_MESSAGES = f"SELECT coalesce(sum(max(message_count - {_COUNTED}, 0)), 0) FROM sessions"
_RECOUNT = f"UPDATE sessions SET message_count = {_COUNTED} WHERE message_count IS NOT {_COUNTED}"


class SalvageReport(msgspec.Struct, frozen=True):
    sessions: int
    """Sessions in the new store, including those that were created for orphaned messages."""
    messages: int
    remade_sessions: int = 0
    """Sessions whose own row was lost; they have their messages, but no title or model."""
    dropped: int = 0
    """Rows of any table that were found but could not be used. Rows of damaged pages are not
    found."""
    lost_messages: int = 0  #: Missing messages, according to the counts in the sessions.
    notes: tuple[str, ...] = ()  #: The same for the user, one sentence each.


def salvage(damaged: Path, into: Path, progress: Progress = ignore_progress) -> SalvageReport:
    """Insert every readable row of `damaged` and of its log into a new store at `into`. The damaged
    files stay unchanged. Raises `StoreError`: `StoreUnreadable` if no row can be read at all."""
    try:
        with _open(damaged) as source, closing(connect(into)) as store:
            return _rebuild(store, source, progress)
    except (apsw.Error, OSError) as error:
        raise as_store_error(error, into) from error
    finally:
        # SQLite makes these even for reading.
        Path(f"{damaged}-shm").unlink(missing_ok=True)
        log = Path(f"{damaged}-wal")
        if log.exists() and not log.stat().st_size:
            log.unlink()


def _rebuild(store: apsw.Connection, source: apsw.Connection, progress: Progress) -> SalvageReport:
    # The new file is deleted if anything fails, so it needs no journal on the disk.
    store.execute("PRAGMA journal_mode = MEMORY").fetchall()
    store.execute("PRAGMA synchronous = OFF")
    store.execute("PRAGMA foreign_keys = OFF")
    store.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    separate_titles, unique_titles = schema.migrations()[4]
    with transaction(store):
        store.execute("DROP INDEX idx_sessions_title_unique")
        dropped = _insert_all(store, source, progress)
        remade, lost = _connect_rows(store, separate_titles)
        store.execute(unique_titles)
        store.execute(schema.REBUILD_SEARCH)
        store.execute(schema.REBUILD_TRIGRAMS)
    problems = [row[0] for row in store.execute("PRAGMA integrity_check(1)")]
    if problems != ["ok"]:
        raise StoreCorrupt(f"the rebuilt session store is not sound ({problems[0]})")
    store.execute("PRAGMA journal_mode = WAL").fetchall()
    return _report(store, remade, dropped, lost)


def _insert_all(store: apsw.Connection, source: apsw.Connection, progress: Progress) -> int:
    """Copy all tables and return the number of dropped rows."""
    sequences = _TableReader(source, _columns(store, SEQUENCES), 0)
    highest: dict[str, int] = dict(sequences.rows())
    total = max(sum(highest.values()), 1)
    done, dropped = 0, sequences.dropped
    for table in data_tables():
        reader = _TableReader(source, _columns(store, table), highest.get(table, 0))
        names = ", ".join(column.name for column in reader.columns)
        marks = ", ".join("?" for _ in reader.columns)
        statement = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"
        for row in reader.rows():
            store.execute(statement, row)
            done += 1
            if done % _ROWS_PER_REPORT == 0:
                progress(min(done, total), total)
        dropped += reader.dropped
    # The id of a lost message is not reused, because projections may still refer to it.
    for table, seq in highest.items():
        store.execute(f"UPDATE {SEQUENCES} SET seq = max(seq, ?) WHERE name = ?", (seq, table))
        if seq and not store.changes():
            store.execute(f"INSERT INTO {SEQUENCES} (name, seq) VALUES (?, ?)", (table, seq))
    progress(total, total)
    return dropped


def _connect_rows(store: apsw.Connection, separate_titles: str) -> tuple[int, int]:
    """Make the tables consistent. Return the number of created sessions and of missing messages."""
    store.execute(_LOST_SESSIONS, (RECOVERED,))
    remade = store.changes()
    store.execute(_LOST_PARENTS)
    lost = int(store.execute(_LOST_MESSAGES).get)
    store.execute(_RECOUNT)
    while True:
        store.execute(separate_titles)
        if not store.changes():
            return remade, lost


def _report(store: apsw.Connection, remade: int, dropped: int, lost: int) -> SalvageReport:
    sessions = int(store.execute("SELECT count(*) FROM sessions").get)
    messages = int(store.execute("SELECT count(*) FROM messages").get)
    facts = (
        (remade, "session", "lost title and settings; only the messages are left"),
        (dropped, "row", "found but not readable"),
        (lost, "message", "missing, according to the counts in the sessions"),
    )
    notes = tuple(f"{many(number, what)} {rest}" for number, what, rest in facts if number)
    return SalvageReport(sessions, messages, remade, dropped, lost, notes)
