"""Whole sessions out of the store and into it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from hermes.core.errors import UsageError
from hermes.store.queries import calls, messages, projections, sessions, titles
from hermes.store.queries.projections import Piece, Projection, Span
from hermes.store.records import Record
from hermes.store.rows import columns_of, row_of
from hermes.store.sql import Backend, Database
from hermes.util.text import clean

TEXTS = (
    "id",
    "source",
    "user_id",
    "model",
    "model_config",
    "system_prompt",
    "parent_session_id",
    "end_reason",
    "billing_provider",
    "billing_base_url",
    "billing_mode",
    "cost_status",
    "cost_source",
    "pricing_version",
    "title",
)
NUMBERS = (
    "started_at",
    "ended_at",
    "message_count",
    "tool_call_count",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "estimated_cost_usd",
    "actual_cost_usd",
    "archived_at",
)
SESSION_COLUMNS = (*TEXTS, *NUMBERS)


def row(database: Database, session_id: str) -> Record:
    """The columns of a session's row."""
    rows = database.rows(
        f"SELECT {', '.join(SESSION_COLUMNS)} FROM sessions WHERE id = ?", (session_id,)
    )
    if not rows:
        raise sessions.not_found(session_id)
    return dict(zip(SESSION_COLUMNS, rows[0], strict=True))


def export(database: Database, session_id: str) -> Record:
    """Complete in itself: what the conversation takes from other sessions is written out."""
    record = row(database, session_id)
    record["messages"] = message_dicts(database, session_id)
    record["model_calls"] = calls.of_session(database, session_id)
    record["projection"] = None
    if (found := projections.newest(database, session_id)) is not None:
        own = projections.inline(database, found.basis, lambda owner: owner != session_id)
        record["projection"] = msgspec.to_builtins(msgspec.structs.replace(found, basis=own))
    return record


def message_dicts(database: Database, session_id: str) -> list[Record]:
    """Every logged message by column, with JSON read."""
    rows = messages.span(database, session_id, 0, None)
    return [
        {"id": number, "timestamp": timestamp, "token_count": tokens, **columns_of(columns)}
        for number, timestamp, tokens, *columns in rows
    ]


def restore(backend: Backend, database: Database, record: Record, now: float) -> str:
    """Store an exported session again; its id. Messages get new numbers."""
    facts = _session_facts(record, now)
    session_id = facts["id"]
    if sessions.exists(database, session_id):
        raise sessions.taken(session_id)
    said = _messages(record)
    made = _calls(record)
    projection = _projection(record, session_id)
    _make_fit(database, facts, said)
    database.change(
        f"INSERT INTO sessions ({', '.join(SESSION_COLUMNS)})"
        f" VALUES ({', '.join('?' for _ in SESSION_COLUMNS)})",
        [facts[column] for column in SESSION_COLUMNS],
    )
    numbers: dict[int, int] = {}
    for position, data in enumerate(said):
        stored = (session_id, data["timestamp"], data.get("token_count"), *row_of(data))
        number = backend.insert_message(database, messages.INSERTED, stored)
        numbers[data.get("id", position)] = number
    # Calls outlive a deleted session; they must not be counted twice when it comes back.
    database.change("DELETE FROM model_calls WHERE session_id = ?", (session_id,))
    for call in made:
        database.change(calls.INSERT, (session_id, *(call.get(name) for name in calls.COLUMNS)))
    if projection is not None:
        basis = _renumbered(projection.basis, numbers)
        after = max((new for old, new in numbers.items() if old <= projection.after_id), default=0)
        projections.write(database, session_id, basis, projection.reason, now, after_id=after)
    return str(session_id)


def _session_facts(record: Record, now: float) -> Record:
    if not isinstance(record.get("id"), str) or not record["id"].strip():
        raise UsageError("the session has no id")
    facts: Record = {}
    for column in TEXTS:
        value = record.get(column)
        if value is not None and not isinstance(value, str):
            value = msgspec.json.encode(value).decode()
        facts[column] = clean(value) if value is not None else None
    for column in NUMBERS:
        value = record.get(column)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UsageError(f"{column} of session {facts['id']} is not a number")
        facts[column] = value
    facts["source"] = facts["source"] or "import"
    if facts["started_at"] is None:
        facts["started_at"] = now
    return facts


def _messages(record: Record) -> list[Record]:
    said = record.get("messages") or []
    if not isinstance(said, list):
        raise UsageError(f"messages of session {record['id']} is not a list")
    checked: list[Record] = []
    for position, data in enumerate(said, start=1):
        if not isinstance(data, Mapping) or not isinstance(data.get("role"), str):
            raise UsageError(f"message {position} of session {record['id']} has no role")
        timestamp = data.get("timestamp")
        if timestamp is None:
            timestamp = record.get("started_at") or 0.0
        if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):
            raise UsageError(
                f"timestamp of message {position} of session {record['id']} is no number"
            )
        if isinstance(number := data.get("id", 0), bool) or not isinstance(number, int):
            raise UsageError(f"id of message {position} of session {record['id']} is no number")
        name = data.get("tool_name") or (data.get("name") if data["role"] == "tool" else None)
        checked.append({**data, "timestamp": float(timestamp), "tool_name": name})
    return checked


def _calls(record: Record) -> list[Record]:
    made = record.get("model_calls") or []
    complete = isinstance(made, list) and all(
        isinstance(call, dict) and all(call.get(name) is not None for name in calls.REQUIRED)
        for call in made
    )
    if not complete:
        raise UsageError(f"model_calls of session {record['id']} is not a list of calls")
    return made


def _projection(record: Record, session_id: str) -> Projection | None:
    if record.get("projection") is None:
        return None
    try:
        projection = msgspec.convert(record["projection"], Projection)
    except msgspec.ValidationError as error:
        raise UsageError(f"projection of session {session_id}: {error}") from None
    if any(isinstance(p, Span) and p.session_id != session_id for p in projection.basis):
        raise UsageError(f"projection of session {session_id} takes from another session")
    return projection


def _make_fit(database: Database, facts: Record, said: list[Record]) -> None:
    """What the new surroundings do not allow: a parent that is not here, a title in use."""
    parent = facts["parent_session_id"]
    if parent and not sessions.exists(database, parent):
        facts["parent_session_id"] = None
    if facts["title"]:
        facts["title"] = titles.clean_title(facts["title"][: titles.LIMIT])
        if database.rows("SELECT 1 FROM sessions WHERE title = ?", (facts["title"],)):
            facts["title"] = titles.next_title(database, facts["title"])
    facts["title"] = facts["title"] or None
    facts["message_count"] = len(said)
    facts["tool_call_count"] = sum(
        len(made) for data in said if isinstance(made := data.get("tool_calls"), list)
    )
    for column in NUMBERS[2:9]:
        facts[column] = int(facts[column] or 0)


def _renumbered(basis: list[Span | dict[str, Any]], numbers: Mapping[int, int]) -> list[Piece]:
    """Spans by the numbers that their messages have here."""
    made: list[Piece] = []
    for piece in basis:
        if isinstance(piece, Span):
            last = piece.last if piece.last is not None else max(numbers, default=0)
            inside = [new for old, new in numbers.items() if piece.first <= old <= last]
            if inside:
                made.append(Span(piece.session_id, min(inside), max(inside)))
        else:
            made.append(piece)
    return made
