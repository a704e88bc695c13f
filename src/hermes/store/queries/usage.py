"""Model calls, one row each, their sums, and the activity since a moment."""

from collections.abc import Sequence
from typing import Any

from hermes.core.model import ModelCall, Usage
from hermes.store.backend import Database, Row
from hermes.store.queries import sessions
from hermes.store.records import ActiveSession, Activity, CallSum, QuarterHour, ToolSum, UsageLine
from hermes.store.rows import placeholders

COLUMNS = (
    "timestamp", "task", "provider", "model", "tool", "input_tokens", "output_tokens",
    "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "cost_usd", "seconds",
)  # fmt: skip
REQUIRED = tuple(name for name in COLUMNS if name != "cost_usd")
INSERT = (
    f"INSERT INTO model_calls (session_id, {', '.join(COLUMNS)})"
    f" VALUES (?, {placeholders(COLUMNS)})"
)
_ADD = """
UPDATE sessions SET
    input_tokens = coalesce(input_tokens, 0) + ?,
    output_tokens = coalesce(output_tokens, 0) + ?,
    cache_read_tokens = coalesce(cache_read_tokens, 0) + ?,
    cache_write_tokens = coalesce(cache_write_tokens, 0) + ?,
    reasoning_tokens = coalesce(reasoning_tokens, 0) + ?
"""
_ADD_TOKENS = f"{_ADD} WHERE id = ?"
_ADD_PRICED = f"{_ADD}, estimated_cost_usd = coalesce(estimated_cost_usd, 0) + ? WHERE id = ?"

# The session of a compaction and the sessions of subagents count to the session they come from; a
# branch is a conversation of its own.
_FAMILY = """
WITH RECURSIVE family(id, is_subagent) AS (
    SELECT id, 0 FROM sessions WHERE id = ?
    UNION
    SELECT child.id, CASE WHEN made.reason IS NULL THEN 1 ELSE family.is_subagent END
    FROM family
    JOIN sessions AS child ON child.parent_session_id = family.id
    LEFT JOIN (SELECT session_id, min(reason) AS reason FROM projections
        WHERE reason IN ('branch', 'compression') GROUP BY session_id) AS made
        ON made.session_id = child.id
    WHERE made.reason IS NULL OR made.reason <> 'branch'
)
"""
_EVERYONE = """
WITH family(id, is_subagent) AS (
    SELECT sessions.id, CASE WHEN parent_session_id IS NULL OR EXISTS (
        SELECT 1 FROM projections WHERE session_id = sessions.id AND reason <> 'undo'
    ) THEN 0 ELSE 1 END FROM sessions
)
"""
_SUMS = """
SELECT task, model, provider, tool, coalesce(is_subagent, 0) AS by_subagent, count(*),
    sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
    sum(reasoning_tokens), coalesce(sum(cost_usd), 0), count(*) - count(cost_usd)
FROM model_calls {join} JOIN family ON family.id = model_calls.session_id
WHERE timestamp >= ?
GROUP BY task, model, provider, tool, coalesce(is_subagent, 0)
ORDER BY 12 DESC, 6 DESC, task, model, tool
"""

_SPENT_BY_FAMILY = (
    _FAMILY
    + """
SELECT coalesce(sum(cost_usd), 0)
FROM model_calls JOIN family ON family.id = model_calls.session_id WHERE timestamp >= ?
"""
)
_SPENT_BY_USER = """
SELECT coalesce(sum(cost_usd), 0)
FROM model_calls JOIN sessions ON sessions.id = model_calls.session_id
WHERE sessions.user_id = ? AND timestamp >= ?
"""
_SPENT_BY_ALL = "SELECT coalesce(sum(cost_usd), 0) FROM model_calls WHERE timestamp >= ?"


def record(database: Database, now: float, session_id: str, call: ModelCall) -> None:
    used = call.usage
    tokens = (used.input, used.output, used.cache_read, used.cache_write, used.reasoning)
    if call.cost_usd is None:
        sessions.change(database, session_id, _ADD_TOKENS, tokens)
    else:
        sessions.change(database, session_id, _ADD_PRICED, (*tokens, call.cost_usd))
    facts = (now, call.task, call.provider, call.model, call.tool)
    database.change(INSERT, (session_id, *facts, *tokens, call.cost_usd, call.seconds))


def lines(
    database: Database, session_id: str = "", *, since: float | None = None
) -> tuple[UsageLine, ...]:
    """Return the sums of model calls by task, model and tool: of a session with its subagents and
    what continues it after a compaction, or of all sessions."""
    start = since or 0.0
    values: tuple[Any, ...] = (start,)
    statement = _EVERYONE + _SUMS.format(join="LEFT")
    if session_id:
        sessions.info(database, session_id)
        statement, values = _FAMILY + _SUMS.format(join=""), (session_id, start)
    return tuple(_line(row) for row in database.rows(statement, values))


def spent_usd(
    database: Database, session_id: str = "", *, since: float | None = None, user_id: str = ""
) -> float:
    """Return the US dollars spent on the same calls as `lines`, or on those of a user. Calls
    without a known price count nothing; a session that does not exist yet has spent 0."""
    start = since or 0.0
    if session_id:
        rows = database.rows(_SPENT_BY_FAMILY, (session_id, start))
    elif user_id:
        rows = database.rows(_SPENT_BY_USER, (user_id, start))
    else:
        rows = database.rows(_SPENT_BY_ALL, (start,))
    return float(rows[0][0])


def of_session(database: Database, session_id: str) -> list[dict[str, Any]]:
    """Return every call of a session by column, oldest first."""
    rows = database.rows(
        f"SELECT {', '.join(COLUMNS)} FROM model_calls WHERE session_id = ? ORDER BY id",
        (session_id,),
    )
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def _line(row: Row) -> UsageLine:
    task, model, provider, tool, is_subagent, calls, *tokens, cost, unpriced = row
    usage = Usage(*map(int, tokens))
    facts = (task, model, provider, tool, bool(is_subagent))
    return UsageLine(*facts, calls, usage, float(cost), unpriced)


# Activity since a moment, by session, tool, model and time

QUARTER = 900  #: Seconds. The offset of every time zone from UTC is a multiple of it.

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


def activity(database: Database, *, since: float, sources: Sequence[str] = ()) -> Activity:
    """Return what was said, called and spent since then, by all sessions or by those of `sources`.
    Calls of deleted sessions have no source."""
    named = f"sessions.source IN ({placeholders(sources)})"
    joined = f"AND {named}" if sources else ""
    inside = f"AND session_id IN (SELECT id FROM sessions WHERE {named})" if sources else ""

    def rows(statement: str, only: str) -> list[Any]:
        return database.rows(statement.format(only=only), (since, *sources))

    return Activity(
        sessions=tuple(ActiveSession(*row) for row in rows(_SESSIONS, joined)),
        tools=tuple(ToolSum(name, count, int(bad)) for name, count, bad in rows(_TOOLS, inside)),
        calls=tuple(_call_sum(row) for row in rows(_CALLS, joined)),
        quarter_hours=_quarter_hours(rows(_MESSAGES, inside), rows(_SPENT, inside)),
    )


def _call_sum(row: Sequence[Any]) -> CallSum:
    source, model, provider, task, calls, *tokens, cost, unpriced = row
    usage = Usage(*map(int, tokens))
    return CallSum(source, model, provider, task, calls, usage, float(cost), unpriced)


def _quarter_hours(said: Sequence[Any], spent: Sequence[Any]) -> tuple[QuarterHour, ...]:
    messages = {int(quarter): count for quarter, count in said}
    calls = {int(quarter): (int(tokens), float(cost)) for quarter, tokens, cost in spent}
    return tuple(
        QuarterHour(quarter * QUARTER, messages.get(quarter, 0), *calls.get(quarter, (0, 0.0)))
        for quarter in sorted({*messages, *calls})
    )
