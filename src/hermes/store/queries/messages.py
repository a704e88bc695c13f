"""Rows of `messages`: appended, and read in the order they were logged."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from hermes.core.messages import Assistant, Message
from hermes.store.queries import sessions
from hermes.store.records import LoggedMessage
from hermes.store.rows import COLUMNS, from_row
from hermes.store.sql import Backend, Database, Row

INSERTED = ("session_id", "timestamp", "token_count", *COLUMNS)
SMALL = 8000
"""Characters."""
NAMES = ", ".join(COLUMNS)

_COUNT = """
UPDATE sessions SET
    message_count = coalesce(message_count, 0) + 1,
    tool_call_count = coalesce(tool_call_count, 0) + ?,
    ended_at = NULL, end_reason = NULL
WHERE id = ?
"""
_ALL = f"SELECT {NAMES}, id FROM messages WHERE session_id = ? ORDER BY timestamp, id"
_LOGGED = f"SELECT id, timestamp, token_count, {NAMES} FROM messages"


def append(
    backend: Backend,
    database: Database,
    session_id: str,
    row: Row,
    *,
    calls: int,
    now: float,
    token_count: int | None = None,
) -> int:
    """The new row's id. A finished session is open again."""
    sessions.change(database, session_id, _COUNT, (calls,))
    return backend.insert_message(database, INSERTED, (session_id, now, token_count, *row))


def calls_in(message: Message) -> int:
    return len(message.calls) if isinstance(message, Assistant) else 0


def is_small(row: Row) -> bool:
    """Whether to store and index it takes a fraction of a millisecond."""
    return sum(len(text) for text in row if text) <= SMALL


def all_rows(database: Database, session_id: str) -> list[Row]:
    """The `COLUMNS` of every message of the session, each row with its id at the end.

    The index gives them by time, which is nearly the order of their ids. To have the database sort
    them would copy every text once more.
    """
    rows = database.rows(_ALL, (session_id,))
    rows.sort(key=itemgetter(-1))
    return rows


def log(database: Database, session_id: str) -> tuple[LoggedMessage, ...]:
    rows = database.rows(f"{_LOGGED} WHERE session_id = ? ORDER BY id", (session_id,))
    if not rows and not sessions.exists(database, session_id):
        raise sessions.not_found(session_id)
    return logged(rows)


def span(database: Database, session_id: str, first: int, last: int | None) -> list[Row]:
    """Id, timestamp, token count and `COLUMNS` of a session's messages from one id to another."""
    clause = "WHERE session_id = ? AND id >= ?"
    values: list[Any] = [session_id, first]
    if last is not None:
        clause, values = f"{clause} AND id <= ?", [*values, last]
    return database.rows(f"{_LOGGED} {clause} ORDER BY id", values)


def logged(rows: Sequence[Row]) -> tuple[LoggedMessage, ...]:
    return tuple(
        LoggedMessage(number, timestamp, message, token_count)
        for number, timestamp, token_count, *columns in rows
        if (message := from_row(columns)) is not None
    )


def newest_id(database: Database, session_id: str) -> int:
    """0 when nothing is logged."""
    rows = database.rows("SELECT max(id) FROM messages WHERE session_id = ?", (session_id,))
    return int(rows[0][0] or 0)
