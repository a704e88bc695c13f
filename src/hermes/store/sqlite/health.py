"""Errors of SQLite as `StoreError`, retries and transactions, and checks for damage: a quick one
whenever the store is opened, and a complete one."""

import errno
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from hermes.core.errors import StoreCorrupt, StoreError, StoreFull

T = TypeVar("T")

BUSY_MILLISECONDS = 1000
MAX_TRIES = 15
_MIN_FREE_BYTES = 256 * 1024


def with_retries(work: Callable[[], T]) -> T:
    """Run `work`, repeating it after a short random pause while another process holds the file."""
    for _ in range(MAX_TRIES - 1):
        try:
            return work()
        except apsw.BusyError:
            time.sleep(random.uniform(0.02, 0.15))
    return work()


def as_store_error(error: Exception, path: Path) -> Exception:
    """Return the `StoreError` for an error of SQLite or of the file system, or `error` itself."""
    match error:
        case apsw.NotADBError() | apsw.CorruptError():
            return corrupt(path, str(error))
        case apsw.FullError():
            return _disk_full(path)
        case apsw.BusyError():
            return StoreError(
                f"the session store {path} is in use by another process",
                hint="Try again. If it happens again, look for a hanging hermes process.",
            )
        case apsw.Error():
            if isinstance(error, apsw.IOError | apsw.CantOpenError) and _is_disk_full(path):
                return _disk_full(path)
            return StoreError(
                f"the session store {path} cannot be used ({error})",
                hint="Check the permissions of the file and its folder.",
            )
        case OSError():
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return _disk_full(path)
            return StoreError(
                f"the session store {path} cannot be opened ({error.strerror or error})",
                hint="Check the permissions of the folder, or choose another one with HERMES_HOME.",
            )
        case _:
            return error


def corrupt(path: Path, problem: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"the session store {path} is damaged ({problem})",
        hint="Run `hermes sessions repair`: it keeps the damaged file and restores what it can.",
    )


def _disk_full(path: Path) -> StoreFull:
    return StoreFull(
        f"no space left on the disk of the session store {path}",
        hint="Free some space and continue; everything confirmed so far is stored.",
    )


def _is_disk_full(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < _MIN_FREE_BYTES
    except OSError:
        return False


@contextmanager
def transaction(connection: apsw.Connection, *, waits: bool = True) -> Iterator[None]:
    """A write transaction, committed if the block succeeds and rolled back otherwise. With
    `waits=False` it raises `apsw.BusyError` at once if another process writes."""
    if not waits:
        connection.set_busy_timeout(0)
    try:
        connection.execute("BEGIN IMMEDIATE")
    finally:
        if not waits:
            connection.set_busy_timeout(BUSY_MILLISECONDS)
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


# Checks for damage

WAL_HEADER_BYTES = 32
WAL_FRAME_BYTES = 24

QUICK_CHECK_BYTES = 10 * 2**20
"""Up to this size the tables are checked completely at every open: 0.3 to 0.5 ms of CPU per MiB.
The search index is not, because it takes 8 ms per MiB."""

_DAMAGED = (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError)
_SCHEMA = """
SELECT type, CAST(name AS TEXT), CAST(tbl_name AS TEXT), rootpage, lower(coalesce(sql, ''))
FROM sqlite_schema
"""
_ABSENT_WORD = "zqxhermeszqx"


class SearchIndexDamaged(StoreCorrupt):
    """Only the search index is damaged. It can be rebuilt from the messages."""


class _Part(msgspec.Struct, frozen=True):
    """A table or index that has pages."""

    kind: str
    name: str
    table: str
    has_rowid: bool
    search: str  #: The search index it belongs to, or empty.


def check(connection: apsw.Connection, path: Path) -> None:
    """Raise `SearchIndexDamaged` or another `StoreCorrupt` for damage that a quick check finds.

    It reads the ends of every tree, and small files completely. It takes milliseconds.
    """
    with _read_transaction(connection), _as_corrupt(path):
        parts, indexes = _schema(connection)
        size = _check_length(connection, path)
        for part in (part for part in parts if not part.search):
            _read_ends(connection, part)
        if size <= QUICK_CHECK_BYTES:
            own = [part for part in parts if not part.search]
            if problems := _tree_problems(connection, own, "quick"):
                raise corrupt(path, problems[0])
        try:
            for part in (part for part in parts if part.search):
                _read_ends(connection, part)
            for name in indexes:
                found = f"SELECT 1 FROM {_quoted(name)} WHERE {_quoted(name)} MATCH ? LIMIT 1"
                connection.execute(found, (_ABSENT_WORD,)).fetchall()
        except _DAMAGED as error:
            raise SearchIndexDamaged(
                f"the search index of the session store {path} is damaged ({error})",
                hint="To rebuild it: hermes sessions repair. No message is lost.",
            ) from error


class Problems(msgspec.Struct, frozen=True):
    tables: list[str]  #: Problems of anything but the search index.
    search: list[str]  #: Problems of the search index.


def find_problems(connection: apsw.Connection) -> Problems:
    """Return the problems of tables and of the search index that SQLite can find.

    Reads the whole file; writers wait while the search index is compared with the messages.
    """
    try:
        parts, indexes = _schema(connection)
        tables = _tree_problems(connection, [part for part in parts if not part.search])
        search = [line for name in indexes for line in _index_problems(connection, name, parts)]
        if not tables and not search:
            # This includes what is in no table and no index, such as the list of free pages.
            tables = _pragma_lines(connection, "PRAGMA integrity_check")
    except _DAMAGED as error:
        return Problems([str(error)], [])
    return Problems(tables, search)


def search_indexes(connection: apsw.Connection) -> list[str]:
    return _schema(connection)[1]


@contextmanager
def _read_transaction(connection: apsw.Connection) -> Iterator[None]:
    """A read transaction: another process may be shrinking the file meanwhile."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        with suppress(apsw.Error):
            connection.execute("ROLLBACK")


@contextmanager
def _as_corrupt(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise corrupt(path, f"its schema is not text: {error}") from error
    except apsw.Error as error:
        raise as_store_error(error, path) from error


def _schema(connection: apsw.Connection) -> tuple[list[_Part], list[str]]:
    """Return every table and index that has pages, and the names of the search indexes."""
    rows: list[tuple[Any, ...]] = connection.execute(_SCHEMA).fetchall()
    indexes = [str(name) for _, name, _, _, sql in rows if "using fts5(" in " ".join(sql.split())]
    parts = [
        _Part(
            kind,
            name,
            table,
            "without rowid" not in sql,
            next((index for index in indexes if table.startswith(f"{index}_")), ""),
        )
        for kind, name, table, root, sql in rows
        if root
    ]
    return parts, indexes


def _check_length(connection: apsw.Connection, path: Path) -> int:
    """Return the length of the store. Pages beyond the end of the file may be in the log."""
    page_size = int(connection.execute("PRAGMA page_size").get)
    pages = int(connection.execute("PRAGMA page_count").get)
    path = path.resolve()
    logged = max(file_size(Path(f"{path}-wal")) - WAL_HEADER_BYTES, 0)
    present = file_size(path) // page_size
    if present + logged // (page_size + WAL_FRAME_BYTES) < pages:
        raise corrupt(path, f"{pages} pages should be there, the file ends after {present}")
    return pages * page_size


def _read_ends(connection: apsw.Connection, part: _Part) -> None:
    """Read the first and the last entry. Values are only compared, so that none is decoded."""
    source, column = _quoted(part.table), "rowid"
    if part.kind == "index":
        names = connection.execute(
            "SELECT name FROM pragma_index_info(?) WHERE seqno = 0 AND name IS NOT NULL",
            (part.name,),
        ).fetchall()
        if not names:
            return
        column = _quoted(str(names[0][0]))
        source += f" INDEXED BY {_quoted(part.name)} WHERE {column} IS NOT NULL"
    if part.has_rowid:
        ends = f"(SELECT min({column}) FROM {source}) IS (SELECT max({column}) FROM {source})"
    else:
        ends = f"EXISTS (SELECT 1 FROM {source})"
    connection.execute(f"SELECT {ends}").fetchall()


def _index_problems(connection: apsw.Connection, index: str, parts: list[_Part]) -> list[str]:
    """Return the problems of its trees, or else of their content."""
    name = _quoted(index)
    statement = f"INSERT INTO {name}({name}, rank) VALUES ('integrity-check', 1)"
    try:
        found = _tree_problems(connection, [part for part in parts if part.search == index])
        if not found:
            with_retries(lambda: connection.execute(statement).fetchall())
    except _DAMAGED as error:
        return [f"search index {index}: {error}"]
    return found


def _tree_problems(
    connection: apsw.Connection, parts: list[_Part], depth: str = "integrity"
) -> list[str]:
    """`depth` is quick or integrity. A table is checked with its indexes."""
    return [
        problem
        for part in parts
        if part.kind == "table"
        for problem in _pragma_lines(connection, f"PRAGMA {depth}_check({_quoted(part.name)})")
    ]


def _pragma_lines(connection: apsw.Connection, pragma: str) -> list[str]:
    return [str(row[0]) for row in connection.execute(pragma) if row[0] != "ok"]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def file_size(path: Path) -> int:
    """Return the bytes of a file, 0 if it does not exist."""
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0
