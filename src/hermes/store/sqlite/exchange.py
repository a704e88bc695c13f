"""One file takes the place of the store, while other processes may have the old one open.

They notice by the file's identity and open the new one; see `backend`.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw
import filelock

from hermes.core.errors import StoreError
from hermes.store.sqlite.faults import BUSY_MILLISECONDS, patiently
from hermes.store.sqlite.salvage.aside import sync

LOCK_SECONDS = 600
_SIDE_FILES = ("-wal", "-journal", "-shm")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time replaces the store."""
    lock = filelock.FileLock(f"{path}.rescue.lock", timeout=LOCK_SECONDS, mode=0o600)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        raise StoreError(
            f"another process is repairing the session store {path}",
            hint="Try again when it is done.",
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def opened(path: Path) -> Iterator[apsw.Connection]:
    """A connection that changes nothing by closing."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        yield connection
    finally:
        connection.close()


def hold_writers(connection: apsw.Connection) -> None:
    """Nobody writes to the file until the connection is closed, as far as it is a database."""
    with suppress(apsw.CorruptError, apsw.NotADBError):
        patiently(lambda: connection.execute("BEGIN IMMEDIATE"))


def put_in_place(new: Path, path: Path) -> None:
    """`new` becomes `path`."""
    sync(new)
    # A log left beside the new file would be taken for its own.
    for suffix in _SIDE_FILES:
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    new.replace(path)
    sync(path.parent)
