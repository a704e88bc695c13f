"""SQLite as a `Backend` of the store."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import apsw

from hermes.core.errors import StoreCorrupt
from hermes.store.engine import Database, Progress, Row, ignore_progress
from hermes.store.records import Candidate, SearchRequest, StoreSizes
from hermes.store.rows import placeholders
from hermes.store.search import Query
from hermes.store.sqlite import schema
from hermes.store.sqlite.health import (
    BUSY_MILLISECONDS,
    as_store_error,
    check,
    file_size,
    transaction,
    with_retries,
)
from hermes.store.sqlite.schema import migrate, refuse_newer
from hermes.store.sqlite.search import find, vocabulary

# Opening `state.db`.

CACHE_KIB = 8192
SMALLEST_PAGE = 512
LAST_RESORT_PAGES = 8000


def connect(path: Path) -> apsw.Connection:
    """Open a store, creating or migrating it if needed. Raises `StoreError`.

    The journal is a write-ahead log with `synchronous=NORMAL`. When a commit returns, the operating
    system has it, so it survives the end of the process at any instant, including SIGKILL. Only a
    power cut can lose the last few commits, and the file stays intact; FULL would keep those too,
    at the cost of a disk flush for every message.
    """
    try:
        _make_private_file(path)
        # SQLite takes a file that is too short for a page for a new one, and would overwrite it.
        if 0 < path.stat().st_size < SMALLEST_PAGE:
            raise as_store_error(apsw.NotADBError("the file is cut short"), path)
        connection = apsw.Connection(str(path))
    except (apsw.Error, OSError) as error:
        raise as_store_error(error, path) from error
    with ExitStack() as undo:
        undo.callback(connection.close)
        try:
            _configure(connection)
        except apsw.Error as error:
            raise as_store_error(error, path) from error
        undo.pop_all()
    return connection


def _make_private_file(path: Path) -> None:
    """Create the file with private permissions. SQLite gives its side files the same mode.

    An existing file is not opened: closing it again would drop the locks that SQLite holds on it
    for this process.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _configure(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    # Nothing may be written before the version is known, not even by closing.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    with_retries(lambda: refuse_newer(connection))
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    with_retries(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchall())
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    # `after_writes` moves the log, because that may wait for the disk. This is a last resort.
    connection.wal_autocheckpoint(LAST_RESORT_PAGES)
    # A search reads a few hundred messages from all over the file.
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    with_retries(lambda: migrate(connection))


T = TypeVar("T")
Notify = Callable[[str], None]

WRITES_PER_CHECKPOINT = 50
PAGES_PER_STEP = 2000

log = logging.getLogger(__name__)


class SqliteDatabase:
    """A connection and the identity of its file."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self.file = _identity(path)
        self.since_checkpoint = 0

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return cast("list[Row]", self.connection.execute(statement, tuple(values)).fetchall())

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        self.connection.execute(statement, tuple(values))
        return self.connection.changes()

    def close(self) -> None:
        self.connection.close()


class SqliteBackend:
    """One file, shared by the processes of one machine."""

    is_local = True
    errors: tuple[type[Exception], ...] = (apsw.Error, OSError)

    def __init__(self, path: Path, notify: Notify = log.warning) -> None:
        self.where = str(path)
        self._path = path
        self._notify = notify
        self._checked: tuple[int, int] | None = None  #: The file that passed the health check.
        self._seen: dict[Path, tuple[int, int] | None] = {}
        """The file and its side files, as they were when it was opened last."""

    def connect(self) -> SqliteDatabase:
        """Open the file. A damaged file is kept under another name, its readable content is
        restored to a new one, and the user is notified. Raises `StoreCorrupt` if SQLite cannot
        read it at all; its hint says how to restore a backup."""
        try:
            return self._connect()
        except StoreCorrupt:
            # Only damaged stores need this module.
            from hermes.store.sqlite.repair import repair

            self._notify(repair(self._path).summary())
            return self._connect()

    def _connect(self) -> SqliteDatabase:
        self._remove_old_log()
        with ExitStack() as undo:
            database = SqliteDatabase(connect(self._path), self._path)
            undo.callback(database.close)
            self._seen = {one: _identity(one) for one in self._files()}
            if database.file != self._checked:
                check(database.connection, self._path)
                self._checked = database.file
            undo.pop_all()
        return database

    def _remove_old_log(self) -> None:
        """Remove the log of a file that was replaced by another one. SQLite would apply it to the
        new file and destroy it."""
        main, *sides = self._files()
        if not self._seen or self._seen.get(main) == _identity(main):
            return
        for side in sides:
            if (seen := self._seen.get(side)) is not None and seen == _identity(side):
                side.unlink(missing_ok=True)

    def _files(self) -> tuple[Path, Path, Path]:
        """SQLite keeps its log next to the file itself, even if our path is a link."""
        path = self._path.resolve()
        return path, Path(f"{path}-wal"), Path(f"{path}-shm")

    def is_stale(self, database: Database) -> bool:
        """True if a backup or a repaired file replaced the file."""
        return _sqlite(database).file != _identity(self._path)

    def transaction(
        self, database: Database, *, waits: bool = True
    ) -> AbstractContextManager[None]:
        return transaction(_sqlite(database).connection, waits=waits)

    def with_retries(self, work: Callable[[], T]) -> T:
        return with_retries(work)

    def as_store_error(self, error: Exception) -> Exception:
        return as_store_error(error, self._path)

    def is_busy(self, error: Exception) -> bool:
        return isinstance(error, apsw.BusyError)

    def after_writes(self, database: Database, count: int) -> None:
        """Move the log into the main file from time to time, as far as readers allow."""
        own = _sqlite(database)
        own.since_checkpoint += count
        if own.since_checkpoint < WRITES_PER_CHECKPOINT:
            return
        own.since_checkpoint = 0
        try:
            own.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:
            log.debug("another process is already moving the log of %s", self._path)
        except apsw.Error as error:
            log.warning("checkpoint of %s postponed: %s", self._path, error)

    def now(self, database: Database) -> float:  # noqa: ARG002 - the signature is that of Backend
        return time.time()

    def insert_message(self, database: Database, columns: Sequence[str], row: Row) -> int:
        """Triggers update the search index."""
        return int(_sqlite(database).connection.execute(_insert_statement(tuple(columns)), row).get)

    def find(self, database: Database, query: Query, request: SearchRequest) -> list[Candidate]:
        return find(database, query, request)

    def vocabulary(self, database: Database, word: str, *, typos: bool) -> list[str]:
        return vocabulary(database, word, typos=typos)

    def reindex(self, database: Database, progress: Progress) -> int:
        count = int(database.rows("SELECT count(*) FROM messages")[0][0])
        progress(0, count)
        database.change(schema.REBUILD_SEARCH)
        database.change(schema.REBUILD_TRIGRAMS)
        progress(count, count)
        return count

    def vacuum(self, database: Database) -> None:
        database.rows("VACUUM")
        _sqlite(database).connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def sizes(self, database: Database) -> StoreSizes:
        page_size = database.rows("PRAGMA page_size")[0][0]
        search = database.rows(
            "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE aggregate = TRUE"
            " AND (name GLOB 'messages_fts*' OR name GLOB 'messages_trigram*')"
        )
        return StoreSizes(
            total=sum(file_size(Path(f"{self._path}{suffix}")) for suffix in ("", "-wal")),
            unused=database.rows("PRAGMA freelist_count")[0][0] * page_size,
            search=search[0][0],
        )

    def backup(self, database: Database, target: Path, progress: Progress) -> None:
        copy_database(_sqlite(database).connection, target, progress)


def copy_database(
    source: apsw.Connection, target: Path, progress: Progress = ignore_progress
) -> None:
    """Copy a database to `target`, which must not exist. A read transaction makes the copy a
    snapshot while others write."""
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with closing(apsw.Connection(str(target))) as copy:
        try:
            source.execute("BEGIN")
            source.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
            with copy.backup("main", source, "main") as work:
                while not work.done:
                    work.step(PAGES_PER_STEP)
                    progress(work.page_count - work.remaining, work.page_count)
            # The copy is a single file, without a log that could be left behind.
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()
        finally:
            if source.in_transaction:
                source.execute("ROLLBACK")


def _sqlite(database: Database) -> SqliteDatabase:
    return cast("SqliteDatabase", database)


@lru_cache(maxsize=8)
def _insert_statement(columns: tuple[str, ...]) -> str:
    names, marks = ", ".join(columns), placeholders(columns)
    return f"INSERT INTO messages ({names}) VALUES ({marks}) RETURNING id"


def _identity(path: Path) -> tuple[int, int] | None:
    """Identify a file, to notice when another one replaces it."""
    try:
        facts = os.stat(path)  # noqa: PTH116 - every write asks
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
