"""One connection to PostgreSQL, as the store uses it."""

import selectors
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.pq import TransactionStatus

from hermes.store.postgres.statements import translated
from hermes.store.sql import Row

Connection = psycopg.Connection[Row]

_USABLE = (TransactionStatus.IDLE, TransactionStatus.INTRANS)


class PostgresDatabase:
    """`Database` over a connection in autocommit mode; transactions are explicit."""

    def __init__(self, connection: Connection) -> None:
        connection.adapters.register_loader("numeric", PlainNumber)
        self.connection = connection
        self.writer_id = uuid.uuid4().hex
        """Names this connection in the table `writers`; see `commits`."""
        self.has_written = False
        self.backend_pid = connection.info.backend_pid

    def rows(
        self, statement: str, values: Sequence[Any] = (), *, prepare: bool | None = None
    ) -> list[Row]:
        """`prepare=False` has the statement planned for these very values."""
        cursor = self.connection.execute(translated(statement), values, prepare=prepare)
        return cursor.fetchall() if cursor.description else []

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        return max(self.connection.execute(translated(statement), values).rowcount, 0)

    def run(self, script: str) -> str:
        """Run statements without values, in one round trip; the tag of the last one."""
        cursor = self.connection.execute(script.encode(), prepare=False)
        while cursor.nextset():
            pass
        return cursor.statusmessage or ""

    def close(self) -> None:
        """Also forgets the row in `writers`. One that stays behind is removed by `vacuum`."""
        if self.has_written and not self.is_lost and not self.in_transaction:
            with suppress(psycopg.Error):
                self.change("DELETE FROM writers WHERE id = ?", (self.writer_id,))
        self.connection.close()

    @property
    def is_lost(self) -> bool:
        return self.connection.closed

    @property
    def in_transaction(self) -> bool:
        return self.connection.info.transaction_status != TransactionStatus.IDLE

    @contextmanager
    def without_time_limits(self) -> Iterator[None]:
        """For work that may take minutes."""
        [before] = self.rows(
            "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')"
        )
        self._limit("0", "0")
        try:
            yield
        finally:
            # A failed transaction takes the settings back by itself.
            if self.connection.info.transaction_status in _USABLE:
                self._limit(*before)

    def _limit(self, statement: str, lock: str) -> None:
        self.rows(
            "SELECT set_config('statement_timeout', ?, false),"
            " set_config('lock_timeout', ?, false)",
            (statement, lock),
        )

    def answers(self) -> bool:
        """Whether the server is still there. Costs nothing as long as it says nothing: only when
        something waits to be read on an idle connection is it asked."""
        if self.connection.closed:
            return False
        if self.in_transaction or not _is_readable(self.connection.fileno()):
            return True
        try:
            self.rows("SELECT 1", prepare=False)
        except psycopg.Error:
            self.connection.close()
            return False
        return True


class PlainNumber(Loader):
    """`numeric` (what `sum` makes of BIGINT) as the int or float SQLite would give."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


def _is_readable(descriptor: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))
