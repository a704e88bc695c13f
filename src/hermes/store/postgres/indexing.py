"""Keeping `messages.search` in step with the text."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

from psycopg import errors

from hermes.store.postgres import schema
from hermes.store.postgres.database import PostgresDatabase
from hermes.store.postgres.vectors import vector
from hermes.store.rows import user_text
from hermes.store.sql import Progress, Row

_BATCH_ROWS = 500
_BATCH_BYTES = 4_000_000

# The size of a stored text is known without reading it.
_BATCH = """
SELECT id, role, content FROM messages WHERE id > ? AND {which} AND id <= (
    SELECT max(id) FROM (
        SELECT id, row_number() OVER (ORDER BY id) AS number,
            sum(octet_length(content)) OVER (ORDER BY id) AS bytes
        FROM (
            SELECT id, content FROM messages WHERE id > ? AND {which} ORDER BY id LIMIT ?
        ) AS next
    ) AS counted WHERE number = 1 OR coalesce(bytes, 0) <= ?
) ORDER BY id
"""
_ALL = _BATCH.format(which="TRUE")
_MISSING = _BATCH.format(which="search IS NULL")
_STORE = """
UPDATE messages SET search = made.search::tsvector
FROM unnest(?::bigint[], ?::text[]) AS made(id, search)
WHERE messages.id = made.id AND messages.search IS DISTINCT FROM made.search::tsvector
"""


def insert_message(database: PostgresDatabase, columns: Sequence[str], row: Row) -> int:
    """Insert a message with its vector; the new id."""
    values = dict(zip(columns, row, strict=True))
    search = vector(_searchable(values["role"], values.get("content")))
    return int(database.rows(_insertion(tuple(columns)), (*row, search))[0][0])


def index_all(database: PostgresDatabase, progress: Progress) -> int:
    """Make the vector of every message anew, a batch at a time; how many there are."""
    total = int(database.rows("SELECT count(*) FROM messages")[0][0])
    progress(0, total)
    done = 0
    for count in _batches(database, _ALL):
        done += count
        progress(done, max(done, total))
    return done


def index_missing(database: PostgresDatabase) -> None:
    """Make the vectors of messages that another program wrote or changed. Where that is not
    allowed, as on a standby server, they stay unfound."""
    with suppress(errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege):
        for _ in _batches(database, _MISSING):
            pass


def _batches(database: PostgresDatabase, statement: str) -> Iterator[int]:
    last = 0
    while rows := database.rows(statement, (last, last, _BATCH_ROWS, _BATCH_BYTES)):
        vectors = [vector(_searchable(role, content)) for _, role, content in rows]
        database.change(_STORE, ([row[0] for row in rows], vectors))
        last = rows[-1][0]
        yield len(rows)


def rebuild_index(database: PostgresDatabase) -> None:
    """Write the index itself anew, without getting in the way of others where that can be. One
    that is not there is made."""
    for statement in schema.INDEXES:
        database.run(statement)
    how = "" if database.in_transaction else "CONCURRENTLY"
    database.run(f"REINDEX INDEX {how} {schema.SEARCH_INDEX}")


def _searchable(role: str, content: str | None) -> str:
    """What a person would look for: of a message with images, its words."""
    text = content or ""
    return user_text(text) if role == "user" and text.startswith("[") else text


@lru_cache(maxsize=8)
def _insertion(columns: tuple[str, ...]) -> str:
    marks = ", ".join("?" for _ in columns)
    names = ", ".join(columns)
    return f"INSERT INTO messages ({names}, search) VALUES ({marks}, ?::tsvector) RETURNING id"
