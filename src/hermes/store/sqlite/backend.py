"""SQLite as `store.sql.Backend`."""

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import apsw

from hermes.core.errors import StoreCorrupt
from hermes.store.backend import Database, Progress, Row
from hermes.store.query_language import Query
from hermes.store.records import Candidate, SearchRequest, StoreSizes
from hermes.store.sqlite import errors, schema
from hermes.store.sqlite.errors import BUSY_MILLISECONDS, as_store_error, patiently, transaction
from hermes.store.sqlite.health import check
from hermes.store.sqlite.schema import bring_up_to_date, refuse_newer
from hermes.store.sqlite.search import find

# Opening `state.db`.

CACHE_KIB = 8192
SMALLEST_PAGE = 512
LAST_RESORT_PAGES = 8000


def connect(path: Path) -> apsw.Connection:
    """A connection to an existing, migrated or new store. Raises `StoreError`.

    The journal is a write-ahead log with `synchronous=NORMAL`. A commit is then in the hands of the
    operating system when it returns, so it survives the death of the process at any instant,
    SIGKILL included. Only a power cut may take the last few commits, and it leaves the file
    whole; FULL would pay a disk flush for every message to keep those as well.
    """
    try:
        _make_private_file(path)
        _refuse_stump(path)
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
    """SQLite gives its side files the mode of the main one, so only this one needs care.

    A file that is there is not opened: closing it again would drop the locks that SQLite holds on
    it for this process.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _refuse_stump(path: Path) -> None:
    """SQLite takes a file too short for a page to be a new one, and would write over it."""
    if 0 < path.stat().st_size < SMALLEST_PAGE:
        raise as_store_error(apsw.NotADBError("the file is cut short"), path)


def _configure(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    # Until the version is known nothing may be written, not even by closing.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    patiently(lambda: refuse_newer(connection))
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchall())
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    # `backend.after_writes` moves the log, since that may wait for the disk. A last resort:
    connection.wal_autocheckpoint(LAST_RESORT_PAGES)
    # A search reads a few hundred messages all over the file.
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    patiently(lambda: bring_up_to_date(connection))


T = TypeVar("T")
Tell = Callable[[str], None]

WRITES_PER_CHECKPOINT = 50
PAGES_PER_STEP = 2000

log = logging.getLogger(__name__)


class SqliteDatabase:
    """A connection and the file it was opened on."""

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
    """One file, shared by several processes of one machine."""

    is_on_this_machine = True
    errors: tuple[type[Exception], ...] = (apsw.Error, OSError)

    def __init__(self, path: Path, tell: Tell = log.warning) -> None:
        self.where = str(path)
        self._path = path
        self._tell = tell
        self._sound: tuple[int, int] | None = None
        """The file that was found sound."""
        self._seen: dict[Path, tuple[int, int] | None] = {}
        """The file and those beside it, as they were when it was opened last."""

    def connect(self) -> SqliteDatabase:
        """A damaged file is kept under another name and what can be read of it brought back; the
        user is told."""
        try:
            return self._connect()
        except StoreCorrupt:
            # A sound store, which is every one but a few, needs none of what this imports.
            from hermes.store.sqlite.repair import rescue

            self._tell(rescue(self._path).summary())
            return self._connect()

    def _connect(self) -> SqliteDatabase:
        self._leave_old_log()
        with ExitStack() as undo:
            database = SqliteDatabase(connect(self._path), self._path)
            undo.callback(database.close)
            self._seen = {one: _identity(one) for one in self._files()}
            if database.file != self._sound:
                check(database.connection, self._path)
                self._sound = database.file
            undo.pop_all()
        return database

    def _leave_old_log(self) -> None:
        """When another file took the name of the one we had, the log of the old one may still be
        there. SQLite would take it for that of the new file and ruin it."""
        main, *sides = self._files()
        if not self._seen or self._seen.get(main) == _identity(main):
            return
        for side in sides:
            if (seen := self._seen.get(side)) is not None and seen == _identity(side):
                side.unlink(missing_ok=True)

    def _files(self) -> tuple[Path, Path, Path]:
        """SQLite has its log beside the file itself, also when our path is a link."""
        path = self._path.resolve()
        return path, Path(f"{path}-wal"), Path(f"{path}-shm")

    def is_stale(self, database: Database) -> bool:
        """A backup was put in the file's place, say, or a repaired file."""
        return _own(database).file != _identity(self._path)

    def transaction(
        self, database: Database, *, waits: bool = True
    ) -> AbstractContextManager[None]:
        return transaction(_own(database).connection, waits=waits)

    def patiently(self, work: Callable[[], T]) -> T:
        return errors.patiently(work)

    def as_store_error(self, error: Exception) -> Exception:
        return errors.as_store_error(error, self._path)

    def is_busy(self, error: Exception) -> bool:
        return isinstance(error, apsw.BusyError)

    def after_writes(self, database: Database, count: int) -> None:
        """Move the log into the main file now and then, as far as readers allow."""
        own = _own(database)
        own.since_checkpoint += count
        if own.since_checkpoint < WRITES_PER_CHECKPOINT:
            return
        own.since_checkpoint = 0
        try:
            own.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:
            log.debug("another process is moving the log of %s already", self._path)
        except apsw.Error as error:
            log.warning("checkpoint of %s put off: %s", self._path, error)

    def insert_message(self, database: Database, columns: Sequence[str], row: Row) -> int:
        """Triggers keep the search index in step."""
        return int(_own(database).connection.execute(_insertion(tuple(columns)), row).get)

    def find(self, database: Database, query: Query, request: SearchRequest) -> list[Candidate]:
        return find(database, query, request)

    def reindex(self, database: Database, progress: Progress) -> int:
        count = int(database.rows("SELECT count(*) FROM messages")[0][0])
        progress(0, count)
        database.change(schema.REBUILD_SEARCH)
        database.change(schema.REBUILD_TRIGRAMS)
        progress(count, count)
        return count

    def vacuum(self, database: Database) -> None:
        database.rows("VACUUM")
        _own(database).connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def sizes(self, database: Database) -> StoreSizes:
        page_size = database.rows("PRAGMA page_size")[0][0]
        search = database.rows(
            "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE aggregate = TRUE"
            " AND (name GLOB 'messages_fts*' OR name GLOB 'messages_trigram*')"
        )
        return StoreSizes(
            total=sum(_size(Path(f"{self._path}{suffix}")) for suffix in ("", "-wal")),
            unused=database.rows("PRAGMA freelist_count")[0][0] * page_size,
            search=search[0][0],
        )

    def backup(self, database: Database, target: Path, progress: Progress) -> None:
        """A snapshot: a transaction on our side keeps it still while others go on writing."""
        source = _own(database).connection
        copy = connect_target(target)
        try:
            source.execute("BEGIN")
            source.execute("SELECT 1 FROM sessions LIMIT 1").fetchall()
            with copy.backup("main", source, "main") as work:
                while not work.done:
                    work.step(PAGES_PER_STEP)
                    progress(work.page_count - work.remaining, work.page_count)
            # One file is the whole copy, without a log that could be left behind.
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()
        finally:
            copy.close()
            if source.in_transaction:
                source.execute("ROLLBACK")


def connect_target(target: Path) -> apsw.Connection:
    """A new, private file; `target` must not exist."""
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return apsw.Connection(str(target))


def _own(database: Database) -> SqliteDatabase:
    return cast("SqliteDatabase", database)


@lru_cache(maxsize=8)
def _insertion(columns: tuple[str, ...]) -> str:
    marks = ", ".join("?" for _ in columns)
    return f"INSERT INTO messages ({', '.join(columns)}) VALUES ({marks}) RETURNING id"


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells one file from another that took its name."""
    try:
        facts = os.stat(path)  # noqa: PTH116 - every write asks
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
