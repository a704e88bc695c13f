"""What went on since a moment: by session, tool, model and time."""

from collections.abc import Sequence
from typing import Any

from hermes.core.usage import Usage
from hermes.store.records import ActiveSession, Activity, CallSum, Moment, ToolSum
from hermes.store.sql import Database

QUARTER = 900
"""Seconds. Every time zone differs from UTC by a multiple of it."""

_SESSIONS = """
SELECT sessions.source, coalesce(sessions.model, ''), min(messages.timestamp),
    max(messages.timestamp), count(*), coalesce(sessions.end_reason, '')
FROM messages JOIN sessions ON sessions.id = messages.session_id
WHERE messages.timestamp >= ? {only}
GROUP BY sessions.id, sessions.source, sessions.model, sessions.end_reason
ORDER BY 3, sessions.id
"""
_TOOLS = """
SELECT coalesce(tool_name, ''), count(*), sum(CASE WHEN finish_reason = 'error' THEN 1 ELSE 0 END)
FROM messages WHERE role = 'tool' AND timestamp >= ? {only}
GROUP BY tool_name ORDER BY 2 DESC, 1
"""
_MESSAGES = f"""
SELECT floor(timestamp / {QUARTER}), count(*) FROM messages WHERE timestamp >= ? {{only}}
GROUP BY 1 ORDER BY 1
"""
_SPENT = f"""
SELECT floor(timestamp / {QUARTER}),
    sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens),
    coalesce(sum(cost_usd), 0)
FROM model_calls WHERE timestamp >= ? {{only}} GROUP BY 1 ORDER BY 1
"""
_CALLS = """
SELECT coalesce(sessions.source, ''), model_calls.model, provider, task, count(*),
    sum(model_calls.input_tokens), sum(model_calls.output_tokens),
    sum(model_calls.cache_read_tokens), sum(model_calls.cache_write_tokens),
    sum(model_calls.reasoning_tokens), coalesce(sum(cost_usd), 0), count(*) - count(cost_usd)
FROM model_calls LEFT JOIN sessions ON sessions.id = model_calls.session_id
WHERE timestamp >= ? {only}
GROUP BY sessions.source, model_calls.model, provider, task
ORDER BY 11 DESC, 5 DESC, 2, 4
"""


def activity(database: Database, since: float, sources: Sequence[str] = ()) -> Activity:
    """Of all sessions, or of those of `sources`. Calls of deleted sessions have no source."""
    marks = ", ".join("?" for _ in sources)
    named = f"sessions.source IN ({marks})"
    joined = f"AND {named}" if sources else ""
    inside = f"AND session_id IN (SELECT id FROM sessions WHERE {named})" if sources else ""

    def rows(statement: str, only: str) -> list[Any]:
        return database.rows(statement.format(only=only), (since, *sources))

    return Activity(
        sessions=tuple(ActiveSession(*row) for row in rows(_SESSIONS, joined)),
        tools=tuple(ToolSum(name, count, int(bad)) for name, count, bad in rows(_TOOLS, inside)),
        calls=tuple(_call_sum(row) for row in rows(_CALLS, joined)),
        moments=_moments(rows(_MESSAGES, inside), rows(_SPENT, inside)),
    )


def _call_sum(row: Sequence[Any]) -> CallSum:
    source, model, provider, task, calls, *tokens, cost, unpriced = row
    usage = Usage(*(int(number) for number in tokens))
    return CallSum(source, model, provider, task, calls, usage, float(cost), unpriced)


def _moments(said: Sequence[Any], spent: Sequence[Any]) -> tuple[Moment, ...]:
    messages = {int(quarter): count for quarter, count in said}
    calls = {int(quarter): (int(tokens), float(cost)) for quarter, tokens, cost in spent}
    return tuple(
        Moment(quarter * QUARTER, messages.get(quarter, 0), *calls.get(quarter, (0, 0.0)))
        for quarter in sorted({*messages, *calls})
    )
