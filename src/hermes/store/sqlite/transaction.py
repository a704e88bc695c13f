"""All or nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from hermes.store.sqlite.faults import BUSY_MILLISECONDS


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
