"""SQLite errors as `StoreError`, retries while a file is in use, and transactions."""

import errno
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import apsw

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
            return StoreCorrupt(
                f"the session store {path} is damaged ({error})",
                hint="Run `hermes sessions repair`: it keeps the damaged file and restores "
                "what it can.",
            )
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
