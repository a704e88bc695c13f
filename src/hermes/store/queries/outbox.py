"""Messages of chats on their way out."""

from collections.abc import Sequence
from typing import Any

from hermes.store.mail import Draft, OutboxRow, OutState
from hermes.store.queries.values import Fields, fit, marks
from hermes.store.sql import Database

_FIELDS = Fields(OutboxRow)
_SELECT = f"SELECT {_FIELDS.names} FROM outbox"

UNDER_WAY = "state IN ('pending', 'sending', 'streaming')"
_GIVEN_UP = ("failed", "uncertain")

_PUT = f"""
INSERT INTO outbox (key, platform, account, target, lane, body, kind, inbox_id, due_at,
    created_at, state, attempts, platform_id, after_id, error)
VALUES ({marks(range(10))}, 'pending', 0, '', '', '')
ON CONFLICT (key) DO NOTHING RETURNING id
"""
# A row that waits for its next try keeps those behind it waiting, also when they are due.
_DUE = f"""
{_SELECT} WHERE state = 'pending' AND due_at <= ? AND ({{places}}) AND NOT EXISTS (
    SELECT 1 FROM outbox AS earlier WHERE earlier.{UNDER_WAY}
    AND earlier.platform = outbox.platform AND earlier.account = outbox.account
    AND earlier.lane = outbox.lane AND earlier.id < outbox.id
) ORDER BY id LIMIT ?
"""
_SENDING = """
UPDATE outbox SET state = 'sending', attempts = attempts + 1, after_id = ?, error = ?, due_at = ?
WHERE id = ? AND state = 'pending'
"""
# The message is on the platform already, so its `platform_id` stays: it is edited, not sent.
_ADOPT = """
UPDATE outbox SET state = 'pending', attempts = 0, key = ?, body = ?, kind = ?, inbox_id = ?,
    due_at = ?
WHERE id = ? AND state = 'streaming' AND NOT EXISTS (
    SELECT 1 FROM outbox AS other WHERE other.key = ? AND other.id <> outbox.id
)
"""
_STOP_GROWING = """
UPDATE outbox SET state = 'sent', sent_at = ? WHERE {which} AND state = 'streaming'
"""
# Whoever let it grow may be gone, and the answer kept without it: then nobody takes it over.
_STREAMING = """
UPDATE outbox SET platform_id = ?, error = '', state = CASE WHEN EXISTS (
    SELECT 1 FROM inbox WHERE inbox.id = outbox.inbox_id AND inbox.state IN ('answered', 'dropped')
) THEN 'sent' ELSE 'streaming' END WHERE id = ? AND state NOT IN ('sent', 'pending')
"""
# Of one that was given up the time of its last try is known, or else that of its making.
_CLEAN = """
DELETE FROM outbox WHERE state IN ('sent', 'failed', 'uncertain')
AND coalesce(sent_at, CASE WHEN due_at > created_at THEN due_at ELSE created_at END) < ?
"""


def put(database: Database, drafts: Sequence[Draft], now: float) -> tuple[int, ...]:
    return tuple([_put(database, draft, now) for draft in drafts])


def _put(database: Database, draft: Draft, now: float) -> int:
    values = fit(*(getattr(draft, name) for name in Draft.__struct_fields__))
    rows = database.rows(_PUT, (*values, now))
    rows = rows or database.rows("SELECT id FROM outbox WHERE key = ?", fit(draft.key))
    return int(rows[0][0])


def put_sending(database: Database, draft: Draft, after_id: str, by: str, now: float) -> bool:
    return sending(database, _put(database, draft, now), after_id, by, now)


def adopt(database: Database, row_id: int, draft: Draft, now: float) -> None:
    """The row becomes the draft, unless it does not grow any more. When the draft is kept already,
    the row stays as it was shown."""
    values = fit(draft.key, draft.body, draft.kind, draft.inbox_id, draft.due_at)
    if not database.change(_ADOPT, (*values, row_id, *fit(draft.key))):
        stop_growing(database, row_id, now)


def stop_growing(database: Database, row_id: int, now: float) -> None:
    """It stays as it was shown last."""
    database.change(_STOP_GROWING.format(which="id = ?"), (now, row_id))


def stop_growing_for(database: Database, inbox_ids: Sequence[int], now: float) -> None:
    """All that was shown while these messages were worked on."""
    which = f"inbox_id IN ({marks(inbox_ids)})"
    database.change(_STOP_GROWING.format(which=which), (now, *inbox_ids))


def due(
    database: Database, platforms: Sequence[tuple[str, str]], now: float, limit: int
) -> tuple[OutboxRow, ...]:
    if not platforms:
        return ()
    places, values = _places(platforms)
    rows = database.rows(_DUE.format(places=places), (now, *values, limit))
    return _FIELDS.read_all(rows)


def in_doubt(database: Database, platforms: Sequence[tuple[str, str]]) -> tuple[OutboxRow, ...]:
    if not platforms:
        return ()
    places, values = _places(platforms)
    statement = f"{_SELECT} WHERE state = 'sending' AND ({places}) ORDER BY id"
    return _FIELDS.read_all(database.rows(statement, values))


def sending(database: Database, row_id: int, after_id: str, by: str, now: float) -> bool:
    return bool(database.change(_SENDING, (*fit(after_id, by), now, row_id)))


def streaming(database: Database, row_id: int, platform_id: str) -> None:
    database.change(_STREAMING, (*fit(platform_id), row_id))


def stream_of(database: Database, inbox_id: int) -> OutboxRow | None:
    clause = (
        "WHERE inbox_id = ? AND state = 'streaming' AND kind = 'stream' ORDER BY id DESC LIMIT 1"
    )
    return _FIELDS.first(database.rows(f"{_SELECT} {clause}", (inbox_id,)))


def sent(database: Database, row_id: int, platform_id: str, now: float) -> None:
    """Whatever was thought of it before: it is there."""
    database.change(
        "UPDATE outbox SET state = 'sent', platform_id = ?, sent_at = ?, error = '' WHERE id = ?",
        (*fit(platform_id), now, row_id),
    )


def again(database: Database, row_id: int, due_at: float, error: str, *, anew: bool) -> None:
    # An edit is not noted before it is tried, as a sending is; so it is counted here.
    new = (
        ", platform_id = '', attempts = 0"
        if anew
        else ", attempts = attempts + CASE platform_id WHEN '' THEN 0 ELSE 1 END"
    )
    _change(database, row_id, f"state = 'pending', due_at = ?, error = ?{new}", due_at, error)


def given_up(database: Database, row_id: int, state: OutState, error: str) -> None:
    if state not in _GIVEN_UP:
        raise ValueError(f"a message that is given up is failed or uncertain, not {state}")
    _change(database, row_id, "state = ?, error = ?", state, error)


def with_key(database: Database, key: str) -> OutboxRow | None:
    return _FIELDS.first(database.rows(f"{_SELECT} WHERE key = ?", fit(key)))


def clean(database: Database, before: float) -> int:
    return database.change(_CLEAN, (before,))


def _change(database: Database, row_id: int, what: str, *values: Any) -> None:
    """Leaves alone what was sent: that does not change any more."""
    statement = f"UPDATE outbox SET {what} WHERE id = ? AND state <> 'sent'"
    database.change(statement, (*fit(*values), row_id))


def _places(platforms: Sequence[tuple[str, str]]) -> tuple[str, list[str]]:
    one = "platform = ? AND account = ?"
    return " OR ".join(one for _ in platforms), fit(*(name for pair in platforms for name in pair))
