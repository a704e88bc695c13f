"""All or nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

import apsw


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """A write transaction: kept when the block ends well, undone in every other case."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
