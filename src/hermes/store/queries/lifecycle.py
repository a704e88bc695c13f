"""Branching, compacting and undoing; exporting, restoring and deleting whole sessions."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hermes.core.errors import UsageError
from hermes.core.messages import Message, User
from hermes.core.model import Usage
from hermes.core.ports import SessionInfo
from hermes.store.engine import Backend, Database
from hermes.store.queries import chats, messages, sessions, usage
from hermes.store.queries.messages import Piece, Projection, Span
from hermes.store.records import LoggedMessage, Record, SessionFilter, StoreStats
from hermes.store.rows import columns_of, placeholders, row_of
from hermes.util.text import clean

# UNION, not UNION ALL, so that a cycle of parents in a damaged store ends the recursion.
_ANCESTORS = """
WITH RECURSIVE line(id, depth) AS (
    SELECT parent_session_id, 1 FROM sessions WHERE id = ?
    UNION
    SELECT sessions.parent_session_id, line.depth + 1
    FROM line JOIN sessions ON sessions.id = line.id WHERE line.depth < 1000
)
SELECT id FROM line WHERE id IS NOT NULL GROUP BY id ORDER BY min(depth)
"""
_DESCENDANTS = """
WITH RECURSIVE family(id) AS (
    SELECT id FROM sessions WHERE parent_session_id = ?
    UNION
    SELECT sessions.id FROM family JOIN sessions ON sessions.parent_session_id = family.id
)
SELECT sessions.id FROM family JOIN sessions ON sessions.id = family.id
ORDER BY started_at, sessions.id
"""
_COPY = """
INSERT INTO sessions (id, source, user_id, model, model_config, system_prompt,
    parent_session_id, started_at)
SELECT ?, source, user_id, model, model_config, system_prompt, id, ? FROM sessions WHERE id = ?
"""


def ancestors(database: Database, session_id: str) -> tuple[SessionInfo, ...]:
    """Return the parent, its parent, and so on."""
    return _related(database, session_id, _ANCESTORS)


def descendants(database: Database, session_id: str) -> tuple[SessionInfo, ...]:
    """Return children and their children, oldest first."""
    return _related(database, session_id, _DESCENDANTS)


def branch(
    database: Database, now: float, session_id: str, new_id: str, *, up_to: int | None = None
) -> None:
    """Create a session that starts with the conversation so far, or with it up to message `up_to`.
    The two continue independently."""
    sessions.lock(database, session_id)
    if up_to is None:
        basis: list[messages.Piece] | None = messages.all_pieces(database, session_id)
    else:
        basis = messages.pieces_until(database, session_id, up_to, inclusive=True)
    if basis is None:
        raise UsageError(f"the conversation of session {session_id} has no message {up_to}")
    _continue(database, session_id, new_id, basis, "branch", now)


def compact(
    database: Database,
    now: float,
    session_id: str,
    new_id: str,
    conversation: Sequence[LoggedMessage | Message],
) -> None:
    """End the session (`compression`) and continue in a child that starts with `conversation`:
    logged messages that are kept, and new ones such as a summary. The title goes with it."""
    sessions.lock(database, session_id)
    basis = messages.pieces_of(database, session_id, conversation)
    _continue(database, session_id, new_id, basis, "compression", now)
    chats.move(database, session_id, new_id)
    sessions.end(database, now, session_id, "compression")


def rewrite(
    database: Database,
    now: float,
    session_id: str,
    conversation: Sequence[LoggedMessage | Message],
) -> None:
    """Make `conversation` that of the session, as after shortening tool results. The log stays."""
    sessions.lock(database, session_id)
    basis = messages.pieces_of(database, session_id, conversation)
    messages.write(database, session_id, basis, "shortening", now)


def undo(database: Database, now: float, session_id: str, turns: int = 1) -> str:
    """Take the last turns out of the conversation, but not out of the log. Return the text of the
    first user message taken out, or "" if there was none."""
    if turns < 1:
        raise UsageError("the number of turns to undo must be at least 1")
    sessions.lock(database, session_id)
    start = messages.start_of_last_turns(messages.entries(database, session_id), turns)
    if start is None:
        return ""
    basis = messages.pieces_until(database, session_id, start.id, inclusive=False)
    messages.write(database, session_id, basis or (), "undo", now)
    return start.message.text if isinstance(start.message, User) else ""


def _continue(
    database: Database,
    session_id: str,
    new_id: str,
    basis: Sequence[messages.Piece],
    reason: str,
    now: float,
) -> None:
    """Create a child session whose conversation begins with `basis`."""
    title = sessions.info(database, session_id).title
    if sessions.exists(database, new_id):
        raise sessions.id_exists(new_id)
    database.change(_COPY, (new_id, now, session_id))
    messages.write(database, new_id, basis, reason, now, after_id=0)
    if title:
        sessions.set_title(database, new_id, sessions.next_title(database, title))


def _related(database: Database, session_id: str, statement: str) -> tuple[SessionInfo, ...]:
    if not sessions.exists(database, session_id):
        raise sessions.not_found(session_id)
    ids = [str(row[0]) for row in database.rows(statement, (session_id,))]
    return sessions.infos(database, [one for one in ids if one != session_id])


# Export and restore

TEXTS = (
    "id", "source", "user_id", "model", "model_config", "system_prompt", "parent_session_id",
    "end_reason", "billing_provider", "billing_base_url", "billing_mode", "cost_status",
    "cost_source", "pricing_version", "title",
)  # fmt: skip
NUMBERS = (
    "started_at", "ended_at", "message_count", "tool_call_count", "input_tokens", "output_tokens",
    "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "estimated_cost_usd",
    "actual_cost_usd", "archived_at",
)  # fmt: skip
SESSION_COLUMNS = (*TEXTS, *NUMBERS)


def row(database: Database, session_id: str) -> Record:
    """Return the columns of a session."""
    rows = database.rows(
        f"SELECT {', '.join(SESSION_COLUMNS)} FROM sessions WHERE id = ?", (session_id,)
    )
    if not rows:
        raise sessions.not_found(session_id)
    return dict(zip(SESSION_COLUMNS, rows[0], strict=True))


def export(database: Database, session_id: str) -> Record:
    """Return a session as data. Messages of other sessions in its conversation are included."""
    record = row(database, session_id)
    record["messages"] = message_dicts(database, session_id)
    record["model_calls"] = usage.of_session(database, session_id)
    record["projection"] = None
    if (found := messages.newest(database, session_id)) is not None:
        own = messages.inline(database, found.basis, lambda owner: owner != session_id)
        record["projection"] = msgspec.to_builtins(msgspec.structs.replace(found, basis=own))
    return record


def message_dicts(database: Database, session_id: str) -> list[Record]:
    """Return every logged message by column, with decoded JSON."""
    rows = messages.span(database, session_id, 0, None)
    return [
        {"id": number, "timestamp": timestamp, "token_count": tokens, **columns_of(columns)}
        for number, timestamp, tokens, *columns in rows
    ]


def restore(backend: Backend, database: Database, record: Record, now: float) -> str:
    """Store an exported session again and return its id. Its messages get new ids."""
    columns = _session_columns(record, now)
    session_id = columns["id"]
    if sessions.exists(database, session_id):
        raise sessions.id_exists(session_id)
    logged = _messages(record)
    model_calls = _calls(record)
    projection = _projection(record, session_id)
    _adapt(database, columns, logged)
    database.change(
        f"INSERT INTO sessions ({', '.join(SESSION_COLUMNS)})"
        f" VALUES ({placeholders(SESSION_COLUMNS)})",
        [columns[column] for column in SESSION_COLUMNS],
    )
    numbers: dict[int, int] = {}
    for position, data in enumerate(logged):
        stored = (session_id, data["timestamp"], data.get("token_count"), *row_of(data))
        number = backend.insert_message(database, messages.INSERTED, stored)
        numbers[data.get("id", position)] = number
    # Model calls outlive a deleted session; they must not be counted twice when it is restored.
    database.change("DELETE FROM model_calls WHERE session_id = ?", (session_id,))
    for call in model_calls:
        database.change(usage.INSERT, (session_id, *(call.get(name) for name in usage.COLUMNS)))
    if projection is not None:
        basis = _renumber(projection.basis, numbers)
        after = max((new for old, new in numbers.items() if old <= projection.after_id), default=0)
        messages.write(database, session_id, basis, projection.reason, now, after_id=after)
    return str(session_id)


def _session_columns(record: Record, now: float) -> Record:
    if not isinstance(record.get("id"), str) or not record["id"].strip():
        raise UsageError("the session has no id")
    columns: Record = {}
    for column in TEXTS:
        value = record.get(column)
        if value is not None and not isinstance(value, str):
            value = msgspec.json.encode(value).decode()
        columns[column] = clean(value) if value is not None else None
    for column in NUMBERS:
        value = record.get(column)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UsageError(f"{column} of session {columns['id']} is not a number")
        columns[column] = value
    columns["source"] = columns["source"] or "import"
    if columns["started_at"] is None:
        columns["started_at"] = now
    return columns


def _messages(record: Record) -> list[Record]:
    logged = record.get("messages") or []
    if not isinstance(logged, list):
        raise UsageError(f"messages of session {record['id']} is not a list")
    checked: list[Record] = []
    for position, data in enumerate(logged, start=1):
        if not isinstance(data, Mapping) or not isinstance(data.get("role"), str):
            raise UsageError(f"message {position} of session {record['id']} has no role")
        timestamp = data.get("timestamp")
        if timestamp is None:
            timestamp = record.get("started_at") or 0.0
        if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):
            raise UsageError(
                f"timestamp of message {position} of session {record['id']} is not a number"
            )
        if isinstance(number := data.get("id", 0), bool) or not isinstance(number, int):
            raise UsageError(f"id of message {position} of session {record['id']} is not a number")
        name = data.get("tool_name") or (data.get("name") if data["role"] == "tool" else None)
        checked.append({**data, "timestamp": float(timestamp), "tool_name": name})
    return checked


def _calls(record: Record) -> list[Record]:
    model_calls = record.get("model_calls") or []
    complete = isinstance(model_calls, list) and all(
        isinstance(call, dict) and all(call.get(name) is not None for name in usage.REQUIRED)
        for call in model_calls
    )
    if not complete:
        raise UsageError(f"model_calls of session {record['id']} is not a list of calls")
    return model_calls


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


def _adapt(database: Database, columns: Record, logged: list[Record]) -> None:
    """Adapt the session to this store: drop an unknown parent, rename a title in use."""
    parent = columns["parent_session_id"]
    if parent and not sessions.exists(database, parent):
        columns["parent_session_id"] = None
    if columns["title"]:
        columns["title"] = sessions.clean_title(columns["title"][: sessions.LIMIT])
        if database.rows("SELECT 1 FROM sessions WHERE title = ?", (columns["title"],)):
            columns["title"] = sessions.next_title(database, columns["title"])
    columns["title"] = columns["title"] or None
    columns["message_count"] = len(logged)
    columns["tool_call_count"] = sum(
        len(calls) for data in logged if isinstance(calls := data.get("tool_calls"), list)
    )
    for column in NUMBERS[2:9]:
        columns[column] = int(columns[column] or 0)


def _renumber(basis: list[Span | dict[str, Any]], numbers: Mapping[int, int]) -> list[Piece]:
    """Return the basis with spans of the new message ids."""
    renumbered: list[Piece] = []
    for piece in basis:
        if isinstance(piece, Span):
            last = piece.last if piece.last is not None else max(numbers, default=0)
            inside = [new for old, new in numbers.items() if piece.first <= old <= last]
            if inside:
                renumbered.append(Span(piece.session_id, min(inside), max(inside)))
        else:
            renumbered.append(piece)
    return renumbered


# Deletion and statistics


def delete(database: Database, session_id: str) -> None:
    """Delete a session with its messages. Its children keep their conversations and get its parent
    as theirs. Model calls are kept, for the statistics of spending."""
    parent = sessions.info(database, session_id).parent_id
    messages.inline_session(database, session_id)
    database.change(
        "UPDATE sessions SET parent_session_id = ? WHERE parent_session_id = ?",
        (parent or None, session_id),
    )
    for table in ("messages", "projections"):
        database.change(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    database.change("DELETE FROM sessions WHERE id = ?", (session_id,))


def prune(database: Database, which: SessionFilter) -> tuple[str, ...]:
    """Delete the sessions of the filter that have ended and are not archived; return their ids."""
    ended = msgspec.structs.replace(which, ended_only=True, archived=False)
    ids = sessions.select_ids(database, ended)
    for session_id in ids:
        delete(database, session_id)
    return ids


def clear_messages(database: Database, session_id: str) -> None:
    """Delete the messages of a session, but not the session."""
    messages.inline_session(database, session_id)
    for table in ("messages", "projections"):
        database.change(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    sessions.change(
        database, session_id,
        "UPDATE sessions SET message_count = 0, tool_call_count = 0 WHERE id = ?",
    )  # fmt: skip


def stats(backend: Backend, database: Database) -> StoreStats:
    summed = (*NUMBERS[3:9], "coalesce(actual_cost_usd, estimated_cost_usd)")
    sums = ", ".join(f"coalesce(sum({column}), 0)" for column in summed)
    totals = database.rows(
        "SELECT count(*), count(archived_at), min(started_at), max(started_at),"
        f" {sums} FROM sessions"
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
