"""PostgreSQL as `store.sql.Backend`."""

import random
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar, cast

import psycopg

from hermes.core.errors import StoreError
from hermes.store.postgres import commits, faults, indexing, schema
from hermes.store.postgres.address import parameters_of, shown
from hermes.store.postgres.connecting import open_connection
from hermes.store.postgres.database import PostgresDatabase
from hermes.store.postgres.find import find
from hermes.store.postgres.migrations import bring_up_to_date
from hermes.store.records import Candidate, SearchRequest, Sizes
from hermes.store.search.language import Query
from hermes.store.sql import Database, Progress, Row

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
        return commits.transaction(_own(database), self._open)

    def patiently(self, work: Callable[[], T]) -> T:
        """Tried again: deadlocks and the like, a server that restarts, a lost connection, and a
        row that another writer made at the same moment. `work` must look for a stale connection
        by itself. A loss during COMMIT comes here only when the transaction was not kept."""
        for _ in range(TRIES - 1):
            try:
                return work()
            except (psycopg.Error, StoreError) as error:
                if not faults.is_in_the_way(error) and not faults.is_race(error):
                    raise
            time.sleep(random.uniform(0.02, 0.15))
        return work()

    def as_store_error(self, error: Exception) -> Exception:
        return faults.as_store_error(error, self.where)

    def is_busy(self, error: Exception) -> bool:
        """To run the writes of a transaction one by one after `FateUnknown` might store them
        twice, so it counts as well."""
        return faults.is_in_the_way(error) or isinstance(error, faults.FateUnknown)

    def after_writes(self, database: Database, count: int) -> None:
        """The server looks after itself."""

    def insert_message(self, database: Database, columns: Sequence[str], row: Row) -> int:
        return indexing.insert_message(_own(database), columns, row)

    def find(self, database: Database, query: Query, request: SearchRequest) -> list[Candidate]:
        return find(_own(database), query, request)

    def reindex(self, database: Database, progress: Progress) -> int:
        own = _own(database)
        with own.without_time_limits():
            count = indexing.index_all(own, progress)
            indexing.rebuild_index(own)
        return count

    def vacuum(self, database: Database) -> None:
        own = _own(database)
        commits.forget_old(own)
        with own.without_time_limits():
            own.run(f"VACUUM (ANALYZE) {', '.join(table.name for table in schema.TABLES)}")

    def sizes(self, database: Database) -> Sizes:
        """The room that is unused is known to the server alone."""
        names = [table.name for table in schema.TABLES]
        [(total, search)] = database.rows(_SIZES, (names, schema.SEARCH_INDEX))
        return Sizes(total=int(total), search=int(search))

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
        except faults.Unanswered as error:
            if self._was_reached:
                raise faults.InTheWay(str(error), hint=error.hint) from error
            raise
        self._was_reached = True
        return database


def _own(database: Database) -> PostgresDatabase:
    return cast("PostgresDatabase", database)
