"""The statements on sessions and messages, each a plain function of a connection."""

from typing import Any

import apsw

from hermes.core.errors import SessionNotFound, StoreError
from hermes.core.messages import Message
from hermes.core.ports import SessionInfo
from hermes.core.usage import Usage
from hermes.store.rows import COLUMNS, from_row, user_text
from hermes.util.text import clean

PREVIEW_CHARACTERS = 63

_NAMES = ", ".join(COLUMNS)
_MARKS = ", ".join("?" for _ in COLUMNS)

# Sending a message to a finished session opens it again.
_COUNT_MESSAGE = """
UPDATE sessions SET
    message_count = coalesce(message_count, 0) + 1,
    tool_call_count = coalesce(tool_call_count, 0) + ?,
    ended_at = NULL, end_reason = NULL
WHERE id = ?
"""
_INSERT_MESSAGE = f"""
INSERT INTO messages (session_id, timestamp, {_NAMES}) VALUES (?, ?, {_MARKS}) RETURNING id
"""
_SELECT_MESSAGES = f"SELECT {_NAMES} FROM messages WHERE session_id = ? ORDER BY id"

_SELECT_INFO = """
SELECT id, source, coalesce(model, ''), started_at, coalesce(title, ''),
    coalesce(system_prompt, ''), coalesce(message_count, 0),
    coalesce((SELECT max(timestamp) FROM messages WHERE session_id = sessions.id), started_at)
        AS last_active,
    (SELECT content FROM messages
        WHERE session_id = sessions.id AND role = 'user' AND content IS NOT NULL
        ORDER BY timestamp, id LIMIT 1)
FROM sessions
"""

_ADD_USAGE = """
UPDATE sessions SET
    input_tokens = coalesce(input_tokens, 0) + ?,
    output_tokens = coalesce(output_tokens, 0) + ?,
    cache_read_tokens = coalesce(cache_read_tokens, 0) + ?,
    cache_write_tokens = coalesce(cache_write_tokens, 0) + ?,
    reasoning_tokens = coalesce(reasoning_tokens, 0) + ?,
    estimated_cost_usd = CASE WHEN ? IS NULL THEN estimated_cost_usd
        ELSE coalesce(estimated_cost_usd, 0) + ? END
WHERE id = ?
"""


def insert_session(
    connection: apsw.Connection,
    session_id: str,
    *,
    source: str,
    model: str,
    system_prompt: str,
    now: float,
) -> None:
    try:
        connection.execute(
            "INSERT INTO sessions (id, source, model, system_prompt, started_at)"
            " VALUES (?, ?, ?, ?, ?)",
            (session_id, source, model, clean(system_prompt), now),
        )
    except apsw.ConstraintError:
        raise StoreError(f"there is already a session {session_id}") from None


def insert_message(
    connection: apsw.Connection, session_id: str, row: tuple[Any, ...], *, calls: int, now: float
) -> int:
    _change(connection, session_id, _COUNT_MESSAGE, (calls,))
    return int(connection.execute(_INSERT_MESSAGE, (session_id, now, *row)).get)


def add_usage(
    connection: apsw.Connection, session_id: str, usage: Usage, cost_usd: float | None
) -> None:
    tokens = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)
    _change(connection, session_id, _ADD_USAGE, (*tokens, cost_usd, cost_usd))


def end_session(connection: apsw.Connection, session_id: str, reason: str, now: float) -> None:
    statement = "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ?"
    _change(connection, session_id, statement, (now, reason))


def select_messages(connection: apsw.Connection, session_id: str) -> tuple[Message, ...]:
    rows = connection.execute(_SELECT_MESSAGES, (session_id,)).fetchall()
    if not rows:
        select_info(connection, session_id)
    return tuple(message for row in rows if (message := from_row(row)) is not None)


def select_info(connection: apsw.Connection, session_id: str) -> SessionInfo:
    found = _infos(connection, "WHERE id = ?", session_id)
    if not found:
        raise _not_found(session_id)
    return found[0]


def select_latest(connection: apsw.Connection, source: str) -> SessionInfo | None:
    """The session somebody was active in last."""
    order = "WHERE ? IN ('', source) ORDER BY last_active DESC, started_at DESC LIMIT 1"
    found = _infos(connection, order, source)
    return found[0] if found else None


def select_recent(connection: apsw.Connection, source: str, limit: int) -> tuple[SessionInfo, ...]:
    """Newest-started first."""
    order = "WHERE ? IN ('', source) ORDER BY started_at DESC, id DESC LIMIT ?"
    return tuple(_infos(connection, order, source, limit))


def _infos(connection: apsw.Connection, clause: str, *values: Any) -> list[SessionInfo]:
    rows: list[Any] = connection.execute(f"{_SELECT_INFO} {clause}", values).fetchall()
    complete = [(*fields, _preview(first)) for *fields, first in rows]
    return [SessionInfo(*fields) for fields in complete]


def _preview(content: str | None) -> str:
    return " ".join(user_text(content).split())[:PREVIEW_CHARACTERS]


def _change(
    connection: apsw.Connection, session_id: str, statement: str, values: tuple[Any, ...]
) -> None:
    """Update the row of one session; its id is the last parameter."""
    connection.execute(statement, (*values, session_id))
    if not connection.changes():
        raise _not_found(session_id)


def _not_found(session_id: str) -> SessionNotFound:
    return SessionNotFound(
        f"there is no session {session_id}", hint="`hermes sessions list` shows the sessions."
    )
