"""What SQLite reports, as the errors of Hermes; and patience with a file that is in use."""

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
TRIES = 15
_ROOM = 256 * 1024


def patiently(work: Callable[[], T]) -> T:
    """Run `work` again, after a short random pause, while another process holds the file."""
    for _ in range(TRIES - 1):
        try:
            return work()
        except apsw.BusyError:
            time.sleep(random.uniform(0.02, 0.15))
    return work()


def as_store_error(error: Exception, path: Path) -> Exception:
    """The `StoreError` that says what `error` means for the user, or `error` if it is another."""
    match error:
        case apsw.NotADBError() | apsw.CorruptError():
            return StoreCorrupt(
                f"the session store {path} is damaged ({error})",
                hint="Run `hermes sessions repair`: it keeps the damaged file and brings back "
                "what it can.",
            )
        case apsw.FullError():
            return _full(path)
        case apsw.BusyError():
            return StoreError(
                f"the session store {path} is in use by another process",
                hint="Try again; if it stays so, look for a hanging hermes process.",
            )
        case apsw.Error():
            if isinstance(error, apsw.IOError | apsw.CantOpenError) and _no_room(path):
                return _full(path)
            return StoreError(
                f"the session store {path} cannot be used ({error})",
                hint="Look at the permissions of the file and its folder.",
            )
        case OSError():
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return _full(path)
            return StoreError(
                f"the session store {path} cannot be opened ({error.strerror or error})",
                hint="Look at the permissions of the folder, or choose another with HERMES_HOME.",
            )
        case _:
            return error


def _full(path: Path) -> StoreFull:
    return StoreFull(
        f"no room left on the disk of the session store {path}",
        hint="Free some space and go on; everything confirmed so far is kept.",
    )


def _no_room(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < _ROOM
    except OSError:
        return False


# All or nothing.


@contextmanager
def transaction(connection: apsw.Connection, *, waits: bool = True) -> Iterator[None]:
    """A write transaction: kept when the block ends well, undone in every other case. One that
    does not wait raises `apsw.BusyError` at once when another process writes."""
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
