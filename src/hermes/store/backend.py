"""What the store needs from a database, so that one set of statements serves both.

Statements are written in the SQL that SQLite and PostgreSQL share, with `?` for a value. What the
two do differently is behind `Backend`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from hermes.store.query_language import Query
from hermes.store.records import Candidate, SearchRequest, StoreSizes

Row = tuple[Any, ...]
Progress = Callable[[int, int], None]
"""Called with the number of steps done and the total."""


def ignore_progress(_done: int, _total: int) -> None:
    """A `Progress` that does nothing."""


class Database(Protocol):
    """One connection, used by one thread at a time."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Every row of the result."""
        ...

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement that changes rows; how many it changed."""
        ...

    def close(self) -> None: ...


class Backend(Protocol):
    """What differs between the databases."""

    where: str
    """The file or the address (without its password), for messages."""
    is_on_this_machine: bool
    """Whether a small write takes a fraction of a millisecond."""
    errors: tuple[type[Exception], ...]
    """What the database's driver raises."""

    def connect(self) -> Database:
        """A connection to a store that is there, current and sound. Raises `StoreError`."""
        ...

    def is_stale(self, database: Database) -> bool:
        """Whether the connection no longer leads to the store and must be made anew."""
        ...

    def transaction(
        self, database: Database, *, waits: bool = True
    ) -> AbstractContextManager[None]:
        """A write transaction: kept when the block ends well, undone in every other case. One that
        does not wait fails at once when another process is in the way."""
        ...

    def patiently(self, work: Callable[[], Any]) -> Any:
        """Run `work`, again and again for a while when others are in the way."""
        ...

    def as_store_error(self, error: Exception) -> Exception:
        """The `StoreError` that says what `error` means for the user, or `error` itself."""
        ...

    def is_busy(self, error: Exception) -> bool:
        """Whether the whole transaction failed for being in the way, not one write in it."""
        ...

    def after_writes(self, database: Database, count: int) -> None:
        """Told after each commit how many writes it held."""
        ...

    def insert_message(self, database: Database, columns: Sequence[str], row: Row) -> int:
        """Insert into `messages` and its search index; the new id."""
        ...

    def find(self, database: Database, query: Query, request: SearchRequest) -> list[Candidate]:
        """The newest messages that match, best first."""
        ...

    def reindex(self, database: Database, progress: Progress) -> int:
        """Build the search index anew; the number of messages in it."""
        ...

    def vacuum(self, database: Database) -> None:
        """Give unused room back."""
        ...

    def sizes(self, database: Database) -> StoreSizes: ...

    def backup(self, database: Database, target: Path, progress: Progress) -> None:
        """A copy of the whole store, taken while others write."""
        ...
