"""Answers of the API server that may be asked for again."""

import msgspec

from hermes.store.queries.values import Fields, fit
from hermes.store.responses import MOST_RESPONSES, StoredResponse
from hermes.store.sql import Database

_FIELDS = Fields(StoredResponse)

_SAVE = f"""
INSERT INTO api_responses ({_FIELDS.names}, used_at) VALUES ({_FIELDS.marks}, ?)
ON CONFLICT (id) DO UPDATE SET body = excluded.body, session_id = excluded.session_id,
    conversation = excluded.conversation, previous_id = excluded.previous_id,
    created_at = excluded.created_at, used_at = excluded.used_at
"""
_FORGET = """
DELETE FROM api_responses WHERE id <> ? AND id NOT IN (
    SELECT id FROM api_responses ORDER BY used_at DESC, created_at DESC, id DESC LIMIT ?
)
"""
_USE = f"UPDATE api_responses SET used_at = ? WHERE id = {{which}} RETURNING {_FIELDS.names}"
_GET = _USE.format(which="?")
_LAST = _USE.format(
    which="""(
    SELECT id FROM api_responses WHERE conversation = ?
    ORDER BY created_at DESC, used_at DESC LIMIT 1
)"""
)


def save(database: Database, response: StoredResponse, now: float) -> None:
    """One with the same id is replaced."""
    kept = msgspec.structs.replace(response, created_at=response.created_at or now)
    database.change(_SAVE, fit(*msgspec.structs.astuple(kept), now))
    database.change(_FORGET, (*fit(response.id), MOST_RESPONSES))


def get(database: Database, response_id: str, now: float) -> StoredResponse | None:
    return _FIELDS.first(database.rows(_GET, fit(now, response_id)))


def last(database: Database, conversation: str, now: float) -> StoredResponse | None:
    """None for a conversation without a name."""
    return _FIELDS.first(database.rows(_LAST, fit(now, conversation))) if conversation else None


def drop(database: Database, response_id: str) -> bool:
    return bool(database.change("DELETE FROM api_responses WHERE id = ?", fit(response_id)))
