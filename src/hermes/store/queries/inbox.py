"""Messages of chats on their way in."""

from collections.abc import Sequence

from hermes.store.mail import Draft, Fenced, InboxRow, InState, Received
from hermes.store.queries import chats, messages, outbox, projections
from hermes.store.queries.values import Fields, fit, marks
from hermes.store.sql import Database

_FIELDS = Fields(InboxRow)
_WAITING = "state IN ('new', 'begun', 'working')"

_RECEIVE = f"""
INSERT INTO inbox (platform, account, message_key, session_key, event, received_at,
    state, session_id, log_after, answered_by)
VALUES ({marks(range(6))}, 'new', '', 0, 0)
ON CONFLICT (platform, account, message_key) DO NOTHING RETURNING id
"""
_DONE = f"""
UPDATE inbox SET state = ?, answered_by = ?, done_at = ? WHERE id = ? AND {_WAITING}
"""
# What answers a message stands with the one it was answered by.
_CLEAN = f"""
DELETE FROM inbox WHERE state IN ('answered', 'dropped', 'unreadable') AND done_at < ?
AND NOT EXISTS (
    SELECT 1 FROM outbox WHERE outbox.inbox_id IN (inbox.id, inbox.answered_by)
    AND outbox.inbox_id <> 0 AND outbox.{outbox.UNDER_WAY}
)
"""


def receive(database: Database, message: Received, now: float) -> int | None:
    values = fit(*(getattr(message, name) for name in Received.__struct_fields__))
    rows = database.rows(_RECEIVE, (*values, now))
    return int(rows[0][0]) if rows else None


def waiting(database: Database, session_key: str) -> tuple[InboxRow, ...]:
    statement = f"SELECT {_FIELDS.names} FROM inbox WHERE {_WAITING} AND session_key = ?"
    return _FIELDS.read_all(database.rows(f"{statement} ORDER BY id", fit(session_key)))


def chats_waiting(database: Database, platforms: Sequence[str]) -> tuple[str, ...]:
    only = f"AND platform IN ({marks(platforms)})" if platforms else ""
    rows = database.rows(
        f"SELECT session_key FROM inbox WHERE {_WAITING} {only}"
        " GROUP BY session_key ORDER BY min(id)",
        fit(*platforms),
    )
    return tuple(str(row[0]) for row in rows)


def begin(database: Database, row_ids: Sequence[int], session_id: str, right: Fenced) -> int:
    """Called again, it begins anew: from what the log has by then."""
    chats.insist(database, right)
    newest = messages.newest_id(database, session_id)
    if row_ids:
        database.change(
            "UPDATE inbox SET state = 'working', session_id = ?, log_after = ?"
            f" WHERE id IN ({marks(row_ids)}) AND {_WAITING}",
            (*fit(session_id), newest, *row_ids),
        )
    return newest


def begin_once(database: Database, row_id: int, session_id: str) -> None:
    newest = projections.newest_number(database)
    database.change(
        "UPDATE inbox SET state = 'begun', session_id = ?, log_after = ?"
        f" WHERE id = ? AND {_WAITING}",
        (*fit(session_id), newest, row_id),
    )


def answer(
    database: Database,
    row_ids: Sequence[int],
    drafts: Sequence[Draft],
    right: Fenced | None,
    now: float,
    *,
    adopt: int,
    state: InState,
) -> tuple[int, ...]:
    """In the transaction of the caller, so that all of it happens or nothing."""
    if right is not None:
        chats.insist(database, right, now)
    for row_id in row_ids:
        by = row_ids[-1] if row_id != row_ids[-1] else 0
        database.change(_DONE, (state, by, now, row_id))
    if not adopt and row_ids and (shown := outbox.stream_of(database, row_ids[-1])):
        adopt = shown.id
    if adopt and not drafts:
        outbox.stop_growing(database, adopt, now)
    if adopt and drafts:
        outbox.adopt(database, adopt, drafts[0], now)
    if row_ids:
        outbox.stop_growing_for(database, row_ids, now)
    return outbox.put(database, drafts, now)


def clean(database: Database, before: float) -> int:
    return database.change(_CLEAN, (before,))
