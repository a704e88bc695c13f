"""The interface between the store and its databases, SQLite and PostgreSQL.

Statements are written in the SQL that both share, with `?` for a value. `Backend` covers what
differs.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from hermes.store.query_language import Query
from hermes.store.records import Candidate, SearchRequest, StoreSizes

Row = tuple[Any, ...]
Progress = Callable[[int, int], None]  #: Called with the number of steps done and the total.


def ignore_progress(_done: int, _total: int) -> None:
    """A `Progress` that does nothing."""


class Database(Protocol):
    """One connection, used by one thread at a time."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return all rows of its result."""
        ...

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement that changes rows and return how many it changed."""
        ...

    def close(self) -> None: ...


class Backend(Protocol):
    """The operations that differ between the databases."""

    where: str  #: The file or the address (without its password), for messages.
    is_local: bool  #: True if a small write takes a fraction of a millisecond.
    errors: tuple[type[Exception], ...]  #: The exceptions of the database driver.

    def connect(self) -> Database:
        """Open a connection; create, migrate or repair the store first if needed. Raises
        `StoreError`."""
        ...

    def is_stale(self, database: Database) -> bool:
        """Return whether the connection no longer leads to the store and must be replaced."""
        ...

    def transaction(
        self, database: Database, *, waits: bool = True
    ) -> AbstractContextManager[None]:
        """Return a write transaction, committed if the block succeeds and rolled back otherwise.
        With `waits=False` it fails at once if another process holds the store."""
        ...

    def with_retries(self, work: Callable[[], Any]) -> Any:
        """Run `work`, repeating it for a while as long as other processes hold the store."""
        ...

    def as_store_error(self, error: Exception) -> Exception:
        """Return the `StoreError` for a driver error, or `error` itself if it is another one."""
        ...

    def is_busy(self, error: Exception) -> bool:
        """Return whether the whole transaction failed because of other processes, and not because
        of one of its writes."""
        ...

    def after_writes(self, database: Database, count: int) -> None:
        """Called after each commit with the number of its writes."""
        ...

    def insert_message(self, database: Database, columns: Sequence[str], row: Row) -> int:
        """Insert into `messages` and its search index, and return the new id."""
        ...

    def find(self, database: Database, query: Query, request: SearchRequest) -> list[Candidate]:
        """Return the newest messages that match, best first."""
        ...

    def reindex(self, database: Database, progress: Progress) -> int:
        """Rebuild the search index and return the number of messages in it."""
        ...

    def vacuum(self, database: Database) -> None:
        """Return unused space to the disk."""
        ...

    def sizes(self, database: Database) -> StoreSizes: ...

    def backup(self, database: Database, target: Path, progress: Progress) -> None:
        """Copy the whole store to a new file while others write."""
        ...
