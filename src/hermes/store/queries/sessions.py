"""Rows of `sessions`: made, described, ended, listed."""

from collections.abc import Sequence
from typing import Any

import msgspec

from hermes.core.errors import SessionNotFound, StoreError, UsageError
from hermes.core.ports import SessionInfo
from hermes.core.usage import Usage
from hermes.store.records import SessionFilter
from hermes.store.rows import user_text
from hermes.store.sql import Database, Row
from hermes.util.text import clean

PREVIEW_CHARACTERS = 63

_FIRST_SAID = """
(SELECT content FROM messages
    WHERE session_id = {session} AND role = 'user' AND content IS NOT NULL
    ORDER BY timestamp, id LIMIT 1)
"""
# A branch has said nothing of its own at first; then its parent's beginning is shown.
_INFO = f"""
SELECT id, source, coalesce(model, ''), started_at, coalesce(title, ''),
    coalesce(system_prompt, ''), coalesce(message_count, 0), coalesce(tool_call_count, 0),
    coalesce(parent_session_id, ''), coalesce(user_id, ''),
    ended_at, coalesce(end_reason, ''), archived_at,
    coalesce(input_tokens, 0), coalesce(output_tokens, 0), coalesce(cache_read_tokens, 0),
    coalesce(cache_write_tokens, 0), coalesce(reasoning_tokens, 0),
    coalesce(actual_cost_usd, estimated_cost_usd),
    coalesce((SELECT max(timestamp) FROM messages WHERE session_id = sessions.id), started_at)
        AS last_active,
    coalesce({_FIRST_SAID.format(session="sessions.id")},
        {_FIRST_SAID.format(session="sessions.parent_session_id")})
FROM sessions
"""

_BEFORE_USAGE = SessionInfo.__struct_fields__.index("usage")
"""How many columns of `_INFO` are fields of `SessionInfo` in their order."""

# Sending a message to a finished session opens it again.
REOPEN = "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?"


class NewSession(msgspec.Struct, frozen=True):
    id: str
    source: str
    model: str | None = None
    system_prompt: str | None = None
    parent_id: str | None = None
    user_id: str | None = None
    model_config: str | None = None


def insert(database: Database, new: NewSession, now: float) -> None:
    """Raises `StoreError` for an id that is taken, `SessionNotFound` for an unknown parent."""
    if exists(database, new.id):
        raise taken(new.id)
    if new.parent_id and not exists(database, new.parent_id):
        raise not_found(new.parent_id)
    database.change(
        "INSERT INTO sessions (id, source, model, system_prompt, parent_session_id, user_id,"
        " model_config, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            new.id,
            new.source,
            new.model,
            clean(new.system_prompt) if new.system_prompt is not None else None,
            new.parent_id or None,
            new.user_id or None,
            new.model_config,
            now,
        ),
    )


def exists(database: Database, session_id: str) -> bool:
    return bool(database.rows("SELECT 1 FROM sessions WHERE id = ?", (session_id,)))


def info(database: Database, session_id: str) -> SessionInfo:
    found = _infos(database, "WHERE id = ?", (session_id,))
    if not found:
        raise not_found(session_id)
    return found[0]


def infos(database: Database, ids: Sequence[str]) -> tuple[SessionInfo, ...]:
    """In the order of `ids`; a session that is gone is left out."""
    found = [_infos(database, "WHERE id = ?", (session_id,)) for session_id in ids]
    return tuple(one for some in found for one in some)


def latest(database: Database, source: str) -> SessionInfo | None:
    """The session somebody was active in last."""
    clause, values = _where(SessionFilter(sources=(source,) if source else ()))
    order = "ORDER BY last_active DESC, started_at DESC LIMIT 1"
    found = _infos(database, f"{clause} {order}", values)
    return found[0] if found else None


def select(database: Database, which: SessionFilter) -> tuple[SessionInfo, ...]:
    """Newest-started first."""
    if which.limit < 1 or which.offset < 0:
        raise UsageError("a limit must be at least 1 and an offset at least 0")
    clause, values = _where(which)
    order = "ORDER BY started_at DESC, id DESC LIMIT ? OFFSET ?"
    return tuple(_infos(database, f"{clause} {order}", (*values, which.limit, which.offset)))


def select_ids(database: Database, which: SessionFilter) -> tuple[str, ...]:
    """All of them, oldest first; `limit` and `offset` are not applied."""
    clause, values = _where(which)
    rows = database.rows(f"SELECT id FROM sessions {clause} ORDER BY started_at, id", values)
    return tuple(str(row[0]) for row in rows)


def end(database: Database, session_id: str, reason: str, now: float) -> None:
    change(
        database, session_id, "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ?",
        (now, reason),
    )  # fmt: skip


def hold(database: Database, session_id: str) -> None:
    """Make other writers of the session wait for this transaction, where several may write."""
    change(database, session_id, "UPDATE sessions SET message_count = message_count WHERE id = ?")


def archive(database: Database, session_id: str, when: float | None) -> None:
    change(database, session_id, "UPDATE sessions SET archived_at = ? WHERE id = ?", (when,))


def change(database: Database, session_id: str, statement: str, values: Sequence[Any] = ()) -> None:
    """Update the row of one session; its id is the last parameter."""
    if not database.change(statement, (*values, session_id)):
        raise not_found(session_id)


def not_found(session_id: str) -> SessionNotFound:
    return SessionNotFound(
        f"there is no session {session_id}", hint="`hermes sessions list` shows the sessions."
    )


def taken(session_id: str) -> StoreError:
    return StoreError(f"there is already a session {session_id}")


def preview(content: str | None) -> str:
    return " ".join(user_text(content).split())[:PREVIEW_CHARACTERS]


def _where(which: SessionFilter) -> tuple[str, list[Any]]:
    """The clause of a filter and its values."""
    conditions: list[str] = []
    values: list[Any] = []

    def add(condition: str, *given: Any) -> None:
        conditions.append(condition)
        values.extend(given)

    if which.sources:
        add(f"source IN ({_marks(which.sources)})", *which.sources)
    if which.exclude_sources:
        add(f"source NOT IN ({_marks(which.exclude_sources)})", *which.exclude_sources)
    if which.archived is not None:
        add(f"archived_at IS {'NOT ' if which.archived else ''}NULL")
    if which.started_before is not None:
        add("started_at < ?", which.started_before)
    if which.ended_only:
        add("ended_at IS NOT NULL")
    return (f"WHERE {' AND '.join(conditions)}" if conditions else ""), values


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" for _ in values)


def _infos(database: Database, clause: str, values: Sequence[Any]) -> list[SessionInfo]:
    return [_info(row) for row in database.rows(f"{_INFO} {clause}", values)]


def _info(row: Row) -> SessionInfo:
    names = SessionInfo.__struct_fields__
    facts = dict(zip(names, row[:_BEFORE_USAGE], strict=False))
    *tokens, cost, active, said = row[_BEFORE_USAGE:]
    return SessionInfo(
        **facts, usage=Usage(*tokens), cost_usd=cost, last_active=active, preview=preview(said)
    )
