"""Model calls, one row each, their sums, and the activity since a moment."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hermes.core.model import ModelCall, Usage
from hermes.store.engine import Database
from hermes.store.queries import sessions
from hermes.store.records import ActiveSession, Activity, CallSum, QuarterHour, ToolSum, UsageLine
from hermes.store.rows import placeholders
from hermes.store.schema import read_statements

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

QUARTER = 900  #: Seconds. The offset of every time zone from UTC is a multiple of it.


@cache
def _sql(name: str) -> str:
    return read_statements(Path(__file__).with_name("usage.sql"))[name][0]


def record(database: Database, now: float, session_id: str, call: ModelCall) -> None:
    """Record a call of a session, or with "" one that belongs to no session."""
    used = call.usage
    tokens = (used.input, used.output, used.cache_read, used.cache_write, used.reasoning)
    if not session_id:
        pass
    elif call.cost_usd is None:
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
    if session_id:
        sessions.info(database, session_id)
    family, join = ("family", "") if session_id else ("everyone", "LEFT")
    statement = f"{_sql(family)} {_sql('sums').format(join=join)}"
    values = (session_id, since or 0.0) if session_id else (since or 0.0,)
    found = []
    for row in database.rows(statement, values):
        task, model, provider, tool, is_subagent, calls, *sums = row
        facts = (task, model, provider, tool, bool(is_subagent))
        found.append(UsageLine(*facts, calls, *_sums(sums)))
    return tuple(found)


def spent_usd(
    database: Database, session_id: str = "", *, since: float | None = None, user_id: str = ""
) -> float:
    """Return the US dollars spent on the same calls as `lines`, or on those of a user. Calls
    without a known price count nothing; a session that does not exist yet has spent 0."""
    start = since or 0.0
    if session_id:
        statement = f"{_sql('family')} {_sql('spent by family')}"
        rows = database.rows(statement, (session_id, start))
    elif user_id:
        rows = database.rows(_sql("spent by user"), (user_id, start))
    else:
        rows = database.rows(_sql("spent by all"), (start,))
    return float(rows[0][0])


def last_prompt_tokens(database: Database, session_id: str) -> int:
    """Return the prompt size that the API reported for the last request of the conversation; 0 if
    there is none."""
    rows = database.rows(
        "SELECT input_tokens + cache_read_tokens + cache_write_tokens FROM model_calls"
        " WHERE session_id = ? AND task = 'main' ORDER BY id DESC LIMIT 1",
        (session_id,),
    )
    return int(rows[0][0]) if rows else 0


def of_session(database: Database, session_id: str) -> list[dict[str, Any]]:
    """Return every call of a session by column, oldest first."""
    rows = database.rows(
        f"SELECT {', '.join(COLUMNS)} FROM model_calls WHERE session_id = ? ORDER BY id",
        (session_id,),
    )
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def _sums(row: Sequence[Any]) -> tuple[Usage, float, int]:
    """Return tokens, cost and unpriced calls, the last columns of a sum of model calls."""
    *tokens, cost, unpriced = row
    return Usage(*map(int, tokens)), float(cost), unpriced


def activity(database: Database, *, since: float, sources: Sequence[str] = ()) -> Activity:
    """Return what was said, called and spent since then, by all sessions or by those of `sources`.
    Calls of deleted sessions have no source."""
    named = f"sessions.source IN ({placeholders(sources)})"
    joined = f"AND {named}" if sources else ""
    inside = f"AND session_id IN (SELECT id FROM sessions WHERE {named})" if sources else ""

    def rows(name: str, only: str) -> list[Any]:
        statement = _sql(name).format(only=only, quarter=QUARTER)
        return database.rows(statement, (since, *sources))

    messages = {int(quarter): count for quarter, count in rows("messages", inside)}
    spent = {int(at): (int(tokens), float(cost)) for at, tokens, cost in rows("spent", inside)}
    return Activity(
        sessions=tuple(ActiveSession(*row) for row in rows("sessions", joined)),
        tools=tuple(ToolSum(name, count, int(bad)) for name, count, bad in rows("tools", inside)),
        calls=tuple(
            CallSum(source, model, provider, task, calls, *_sums(sums))
            for source, model, provider, task, calls, *sums in rows("calls", joined)
        ),
        quarter_hours=tuple(
            QuarterHour(quarter * QUARTER, messages.get(quarter, 0), *spent.get(quarter, (0, 0.0)))
            for quarter in sorted({*messages, *spent})
        ),
    )
