"""Opening `state.db`."""

import os
from contextlib import ExitStack, suppress
from pathlib import Path

import apsw

from hermes.store.sqlite.faults import BUSY_MILLISECONDS, as_store_error, patiently
from hermes.store.sqlite.migrations import bring_up_to_date, refuse_newer

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
