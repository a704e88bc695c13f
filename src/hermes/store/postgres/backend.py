"""PostgreSQL as `store.sql.Backend`."""

import random
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar, cast

import psycopg

from hermes.core.errors import StoreError
from hermes.store.backend import Database, Progress, Row
from hermes.store.postgres import errors, schema, search
from hermes.store.postgres.connection import PostgresDatabase, open_connection, parameters_of, shown
from hermes.store.postgres.errors import FateUnknown
from hermes.store.postgres.schema import bring_up_to_date
from hermes.store.postgres.search import find
from hermes.store.query_language import Query
from hermes.store.records import Candidate, SearchRequest, StoreSizes

# Transactions whose end is known, even when the connection is lost during COMMIT.
#
# A client that sends COMMIT and hears nothing does not know whether its transaction was kept. To
# run
# it again might store everything twice; not to, might lose it. So each transaction begins by
# writing
# a number into the row of its connection in the table `writers`. After a loss, another connection
# ends the session that was left behind on the server and reads that row. The read has to wait for
# whoever still holds the row, so the answer is final: the number is there exactly when the
# transaction was kept.
#
# The status of the transaction's id (`pg_xact_status`) would not do: the ids of transactions that
# a
# crash of the server swept away are given out again, and then tell of somebody else's commit.

Reconnect = Callable[[], PostgresDatabase]

ASKING_SECONDS = 30.0
"""How long the server is asked about a lost commit before that is given up."""

_BEGIN = """
BEGIN;
INSERT INTO writers (id, token, used_at) VALUES ('{id}', {token}, now())
ON CONFLICT (id) DO UPDATE SET token = excluded.token, used_at = excluded.used_at
"""
_FORGET_OLD = "DELETE FROM writers WHERE used_at < now() - interval '30 days'"

_END_SESSION = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = ? AND datname = current_database() AND usename = current_user
    AND pid <> pg_backend_pid()
"""
# Nothing is changed, but an unfinished transaction that wrote this row is waited for, also when
# the row is its own and not yet visible.
_READ_TOKEN = """
INSERT INTO writers (id, token, used_at) VALUES (?, -1, now())
ON CONFLICT (id) DO UPDATE SET token = writers.token RETURNING token
"""


@contextmanager
def transaction(database: PostgresDatabase, reconnect: Reconnect) -> Iterator[None]:
    """Kept when the block ends well, undone in every other case.

    When the connection is lost during COMMIT and the transaction was kept, this ends well, with a
    connection that is stale. When it was not kept, the error that is raised says "in the way", so
    the work may be run again. When nobody can be asked, it is `FateUnknown`.
    """
    token = random.getrandbits(62)
    with ExitStack() as undo:
        undo.callback(_roll_back, database)
        database.run(_BEGIN.format(id=database.writer_id, token=token))
        database.has_written = True
        yield
        undo.pop_all()
    try:
        _commit(database)
    except psycopg.Error:
        if not database.is_lost or not _was_kept(database, token, reconnect):
            raise


def forget_old(database: PostgresDatabase) -> None:
    """Remove the rows of connections that ended without a word."""
    database.change(_FORGET_OLD)


def _roll_back(database: PostgresDatabase) -> None:
    # On a lost connection the server does it by itself.
    with suppress(psycopg.Error):
        database.run("ROLLBACK")


def _commit(database: PostgresDatabase) -> None:
    if database.run("COMMIT") != "COMMIT":
        # A statement failed and somebody went on as if it had not; the server undid everything.
        raise StoreError(
            "the session store undid a change because a part of it failed",
            hint="Nothing of it was saved; try again.",
        )


def _was_kept(lost: PostgresDatabase, token: int, reconnect: Reconnect) -> bool:
    """Whether the transaction that wrote `token` on the lost connection was kept."""
    give_up = time.monotonic() + ASKING_SECONDS
    while True:
        try:
            return _ask(lost, token, reconnect)
        except (psycopg.Error, StoreError) as error:
            if time.monotonic() > give_up:
                raise FateUnknown(
                    "the connection to the session store was lost during a save and the server "
                    "does not answer; whether the last messages were saved is not known",
                    hint="When the server is back, look at the end of the conversation.",
                ) from error
            time.sleep(random.uniform(0.1, 0.5))


def _ask(lost: PostgresDatabase, token: int, reconnect: Reconnect) -> bool:
    database = reconnect()
    try:
        database.rows(_END_SESSION, (lost.backend_pid,))
        [(found,)] = database.rows(_READ_TOKEN, (lost.writer_id,))
    finally:
        database.close()
    return bool(found == token)


T = TypeVar("T")

TRIES = 15

_SIZES = """
SELECT (SELECT sum(pg_total_relation_size(to_regclass(name))) FROM unnest(?::text[]) AS name),
    pg_relation_size(to_regclass(?))
"""


class PostgresBackend:
    """One database, shared by several machines."""

    is_on_this_machine = False
    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, url: str) -> None:
        """Raises `ConfigError` for an address that is none. Nothing is opened yet."""
        self._parameters = parameters_of(url)
        self.where = shown(self._parameters)
        self._was_reached = False

    def connect(self) -> PostgresDatabase:
        database = self._open()
        try:
            bring_up_to_date(database)
        except psycopg.Error as error:
            database.close()
            raise self.as_store_error(error) from error
        except StoreError:
            database.close()
            raise
        return database

    def is_stale(self, database: Database) -> bool:
        return not _own(database).answers()

    def transaction(
        self,
        database: Database,
        *,
        waits: bool = True,  # noqa: ARG002 - the signature is that of Backend
    ) -> AbstractContextManager[None]:
        """A connection lost during COMMIT is no mystery: see `commits`."""
        return transaction(_own(database), self._open)

    def patiently(self, work: Callable[[], T]) -> T:
        """Tried again: deadlocks and the like, a server that restarts, a lost connection, and a
        row that another writer made at the same moment. `work` must look for a stale connection
        by itself. A loss during COMMIT comes here only when the transaction was not kept."""
        for _ in range(TRIES - 1):
            try:
                return work()
            except (psycopg.Error, StoreError) as error:
                if not errors.is_in_the_way(error) and not errors.is_race(error):
                    raise
            time.sleep(random.uniform(0.02, 0.15))
        return work()

    def as_store_error(self, error: Exception) -> Exception:
        return errors.as_store_error(error, self.where)

    def is_busy(self, error: Exception) -> bool:
        """To run the writes of a transaction one by one after `FateUnknown` might store them
        twice, so it counts as well."""
        return errors.is_in_the_way(error) or isinstance(error, errors.FateUnknown)

    def after_writes(self, database: Database, count: int) -> None:
        """The server looks after itself."""

    def insert_message(self, database: Database, columns: Sequence[str], row: Row) -> int:
        return search.insert_message(_own(database), columns, row)

    def find(self, database: Database, query: Query, request: SearchRequest) -> list[Candidate]:
        return find(_own(database), query, request)

    def reindex(self, database: Database, progress: Progress) -> int:
        own = _own(database)
        with own.without_time_limits():
            count = search.index_all(own, progress)
            search.rebuild_index(own)
        return count

    def vacuum(self, database: Database) -> None:
        own = _own(database)
        forget_old(own)
        with own.without_time_limits():
            own.run(f"VACUUM (ANALYZE) {', '.join(table.name for table in schema.TABLES)}")

    def sizes(self, database: Database) -> StoreSizes:
        """The room that is unused is known to the server alone."""
        names = [table.name for table in schema.TABLES]
        [(total, search)] = database.rows(_SIZES, (names, schema.SEARCH_INDEX))
        return StoreSizes(total=int(total), search=int(search))

    def backup(
        self,
        database: Database,
        target: Path,
        progress: Progress,  # noqa: ARG002 - the signature is that of Backend
    ) -> None:
        """Not done here; the error says how."""
        name = str(database.rows("SELECT current_schema()")[0][0])
        command = ["pg_dump", "--format=custom", f"--schema={name}", f"--file={target}", self.where]
        raise StoreError(
            "a PostgreSQL store is backed up with the tools of PostgreSQL",
            hint=f"Run: {shlex.join(command)}",
        )

    def _open(self) -> PostgresDatabase:
        """A server that was there before and refuses now is taken to restart."""
        try:
            database = open_connection(self._parameters, self.where)
        except errors.Unanswered as error:
            if self._was_reached:
                raise errors.InTheWay(str(error), hint=error.hint) from error
            raise
        self._was_reached = True
        return database


def _own(database: Database) -> PostgresDatabase:
    return cast("PostgresDatabase", database)
