"""Deleting, and counting what there is."""

from typing import Any

from hermes.core.usage import Usage
from hermes.store.queries import projections, sessions
from hermes.store.records import SessionFilter, StoreStats
from hermes.store.sql import Backend, Database


def delete(database: Database, session_id: str) -> None:
    """The session and its messages. Its children keep their conversations and move up one place
    in the line. What was spent stays known."""
    parent = sessions.info(database, session_id).parent_id
    projections.forget_session(database, session_id)
    database.change(
        "UPDATE sessions SET parent_session_id = ? WHERE parent_session_id = ?",
        (parent or None, session_id),
    )
    for table in ("messages", "projections"):
        database.change(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    database.change("DELETE FROM sessions WHERE id = ?", (session_id,))


def prune(database: Database, which: SessionFilter) -> tuple[str, ...]:
    ids = sessions.select_ids(database, which)
    for session_id in ids:
        delete(database, session_id)
    return ids


def clear_messages(database: Database, session_id: str) -> None:
    """Forget what was said, keep the session."""
    projections.forget_session(database, session_id)
    for table in ("messages", "projections"):
        database.change(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    sessions.change(
        database, session_id,
        "UPDATE sessions SET message_count = 0, tool_call_count = 0 WHERE id = ?",
    )  # fmt: skip


def stats(backend: Backend, database: Database) -> StoreStats:
    totals = database.rows(
        "SELECT count(*), count(archived_at), min(started_at), max(started_at),"
        " coalesce(sum(tool_call_count), 0), coalesce(sum(input_tokens), 0),"
        " coalesce(sum(output_tokens), 0), coalesce(sum(cache_read_tokens), 0),"
        " coalesce(sum(cache_write_tokens), 0), coalesce(sum(reasoning_tokens), 0),"
        " coalesce(sum(coalesce(actual_cost_usd, estimated_cost_usd)), 0) FROM sessions"
    )
    count, archived, oldest, newest, tool_calls, *tokens, cost = totals[0]
    by_role = _counts(database, "role", "messages")
    return StoreStats(
        where=backend.where,
        sessions=count,
        archived=archived,
        messages=sum(by_role.values()),
        tool_calls=int(tool_calls),
        usage=Usage(*(int(number) for number in tokens)),
        cost_usd=float(cost),
        by_source=_counts(database, "source", "sessions"),
        by_role=by_role,
        oldest=oldest,
        newest=newest,
        sizes=backend.sizes(database),
    )


def _counts(database: Database, column: str, table: str) -> dict[str, Any]:
    rows = database.rows(
        f"SELECT {column}, count(*) FROM {table} GROUP BY {column} ORDER BY 2 DESC, 1"
    )
    return {str(name): count for name, count in rows}
