"""PostgreSQL as a `Backend` of the store."""

import random
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar, cast

import psycopg

from hermes.core.errors import StoreError
from hermes.store.engine import Database, Progress, Row
from hermes.store.postgres import schema, search
from hermes.store.postgres.connection import (
    CommitOutcomeUnknown,
    PostgresDatabase,
    ServerNotReached,
    TemporaryStoreError,
    as_store_error,
    connection_parameters,
    display_address,
    is_race,
    is_temporary,
    open_connection,
)
from hermes.store.postgres.schema import migrate
from hermes.store.postgres.search import find, vocabulary
from hermes.store.records import Candidate, SearchRequest, StoreSizes
from hermes.store.search import Query

# Transactions whose outcome is known, even if the connection is lost during COMMIT.
#
# A client that sends COMMIT and gets no answer does not know whether the transaction was committed.
# Running it again might store everything twice; not running it again might lose it. So each
# transaction first writes a random token into the row of its connection in the table `writers`.
# After a lost connection, another one ends the session that remains on the server and reads that
# row. The read waits for a transaction that still holds the row, so the result is final: the token
# is there exactly if the transaction was committed.
#
# The status of the transaction id (`pg_xact_status`) is not sufficient: after a crash of the server
# the ids of lost transactions are assigned again, and then describe another transaction.

Reconnect = Callable[[], PostgresDatabase]

OUTCOME_SECONDS = 30.0  #: How long the server is asked about the outcome of a commit.

_BEGIN = """
BEGIN;
INSERT INTO writers (id, token, used_at) VALUES ('{id}', {token}, now())
ON CONFLICT (id) DO UPDATE SET token = excluded.token, used_at = excluded.used_at
"""
_DELETE_OLD = "DELETE FROM writers WHERE used_at < now() - interval '30 days'"

_END_SESSION = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = ? AND datname = current_database() AND usename = current_user
    AND pid <> pg_backend_pid()
"""
# This changes nothing, but waits for an unfinished transaction that wrote this row, even if the row
# is new and not visible yet.
_READ_TOKEN = """
INSERT INTO writers (id, token, used_at) VALUES (?, -1, now())
ON CONFLICT (id) DO UPDATE SET token = writers.token RETURNING token
"""


@contextmanager
def transaction(database: PostgresDatabase, reconnect: Reconnect) -> Iterator[None]:
    """A transaction, committed if the block succeeds and rolled back otherwise.

    If the connection is lost during COMMIT and the transaction was committed, this succeeds and
    leaves a stale connection. If it was not committed, the error is temporary, so the work may be
    run again. If the server cannot be asked, `CommitOutcomeUnknown` is raised.
    """
    token = random.getrandbits(62)
    try:
        database.run(_BEGIN.format(id=database.writer_id, token=token))
        database.has_written = True
        yield
    except BaseException:
        with suppress(psycopg.Error):  # the server does it itself when the connection is lost
            database.run("ROLLBACK")
        raise
    try:
        status = database.run("COMMIT")
    except psycopg.Error:
        if not database.is_lost or not _was_committed(database, token, reconnect):
            raise
        return
    if status != "COMMIT":
        # A statement failed and its error was ignored; the server rolled everything back.
        raise StoreError(
            "the session store rolled a change back because a part of it failed",
            hint="Nothing was saved; try again.",
        )


def _was_committed(lost: PostgresDatabase, token: int, reconnect: Reconnect) -> bool:
    """Return whether the transaction that wrote `token` on the lost connection was committed."""
    give_up = time.monotonic() + OUTCOME_SECONDS
    while True:
        try:
            with closing(reconnect()) as database:
                database.rows(_END_SESSION, (lost.backend_pid,))
                [(found,)] = database.rows(_READ_TOKEN, (lost.writer_id,))
            return bool(found == token)
        except (psycopg.Error, StoreError) as error:
            if time.monotonic() > give_up:
                raise CommitOutcomeUnknown(
                    "the connection to the session store was lost during a save and the server "
                    "does not answer; whether the last messages were saved is not known",
                    hint="When the server is back, check the end of the conversation.",
                ) from error
            time.sleep(random.uniform(0.1, 0.5))


T = TypeVar("T")

MAX_TRIES = 15

_SIZES = """
SELECT (SELECT sum(pg_total_relation_size(to_regclass(name))) FROM unnest(?::text[]) AS name),
    pg_relation_size(to_regclass(?))
"""


class PostgresBackend:
    """One database, shared by several machines."""

    is_local = False
    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, url: str) -> None:
        """Raises `ConfigError` for an invalid address. Nothing is opened yet."""
        self._parameters = connection_parameters(url)
        self.where = display_address(self._parameters)
        self._was_reached = False

    def connect(self) -> PostgresDatabase:
        with ExitStack() as undo:
            database = self._open()
            undo.callback(database.close)
            try:
                migrate(database)
            except psycopg.Error as error:
                raise self.as_store_error(error) from error
            undo.pop_all()
        return database

    def is_stale(self, database: Database) -> bool:
        return not _postgres(database).is_alive()

    def transaction(
        self,
        database: Database,
        *,
        waits: bool = True,  # noqa: ARG002 - the signature is that of Backend
    ) -> AbstractContextManager[None]:
        """Its outcome is known even if the connection is lost during COMMIT (see above)."""
        return transaction(_postgres(database), self._open)

    def with_retries(self, work: Callable[[], T]) -> T:
        """Run `work` again after deadlocks and the like, a restart of the server, a lost
        connection, and a row that another writer inserted at the same moment. `work` must check for
        a stale connection itself. A loss during COMMIT gets here only if nothing was committed."""
        for _ in range(MAX_TRIES - 1):
            try:
                return work()
            except (psycopg.Error, StoreError) as error:
                if not is_temporary(error) and not is_race(error):
                    raise
            time.sleep(random.uniform(0.02, 0.15))
        return work()

    def as_store_error(self, error: Exception) -> Exception:
        return as_store_error(error, self.where)

    def is_busy(self, error: Exception) -> bool:
        """`CommitOutcomeUnknown` counts too: running the writes of the transaction one by one might
        store them twice."""
        return is_temporary(error) or isinstance(error, CommitOutcomeUnknown)

    def after_writes(self, database: Database, count: int) -> None:
        """Nothing to do: the server does its own maintenance."""

    def now(self, database: Database) -> float:
        """The clock of the server: those of the machines may differ by more than a lease."""
        return float(database.rows("SELECT extract(epoch FROM clock_timestamp())::float8")[0][0])

    def insert_message(self, database: Database, columns: Sequence[str], row: Row) -> int:
        return search.insert_message(_postgres(database), columns, row)

    def find(self, database: Database, query: Query, request: SearchRequest) -> list[Candidate]:
        return find(_postgres(database), query, request)

    def vocabulary(self, database: Database, word: str, *, typos: bool) -> list[str]:
        return vocabulary(_postgres(database), word, typos=typos)

    def reindex(self, database: Database, progress: Progress) -> int:
        own = _postgres(database)
        with own.without_time_limits():
            count = search.index_all(own, progress)
            search.rebuild_index(own)
        return count

    def vacuum(self, database: Database) -> None:
        own = _postgres(database)
        own.change(_DELETE_OLD)  # the rows of connections that were not closed
        with own.without_time_limits():
            own.run(f"VACUUM (ANALYZE) {', '.join(schema.table_names())}")

    def sizes(self, database: Database) -> StoreSizes:
        """Only the server knows the unused space."""
        values = (schema.table_names(), schema.SEARCH_INDEX)
        [(total, search)] = database.rows(_SIZES, values)
        return StoreSizes(total=int(total), search=int(search))

    def backup(
        self,
        database: Database,
        target: Path,
        progress: Progress,  # noqa: ARG002 - the signature is that of Backend
    ) -> None:
        """Always raises `StoreError`, whose hint names the command to use."""
        name = str(database.rows("SELECT current_schema()")[0][0])
        command = ["pg_dump", "--format=custom", f"--schema={name}", f"--file={target}", self.where]
        raise StoreError(
            "a PostgreSQL store is backed up with the tools of PostgreSQL",
            hint=f"Run: {shlex.join(command)}",
        )

    def _open(self) -> PostgresDatabase:
        """Open a connection. A server that was reached before and refuses now is assumed to
        restart."""
        try:
            database = open_connection(self._parameters, self.where)
        except ServerNotReached as error:
            if self._was_reached:
                raise TemporaryStoreError(str(error), hint=error.hint) from error
            raise
        self._was_reached = True
        return database


def _postgres(database: Database) -> PostgresDatabase:
    return cast("PostgresDatabase", database)
