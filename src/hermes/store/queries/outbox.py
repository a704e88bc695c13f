"""Messages of chats on their way out.

A row is `sending` before the platform is called and `sent` afterwards, so that a crash leaves
exactly the rows in doubt that are `sending`. Rows of one lane are sent in order.
"""

from collections.abc import Sequence
from typing import Any

from hermes.store.engine import Database
from hermes.store.records import OutboxItem, OutboxRow, OutState
from hermes.store.rows import StructColumns, placeholders, to_columns

_COLUMNS = StructColumns(OutboxRow)
_SELECT = f"SELECT {_COLUMNS.names} FROM outbox"

UNFINISHED = "state IN ('pending', 'sending', 'streaming')"

_ENQUEUE = f"""
INSERT INTO outbox (key, platform, account, target, lane, body, kind, inbox_id, due_at,
    created_at, state, attempts, platform_id, after_id, error)
VALUES ({placeholders(range(10))}, 'pending', 0, '', '', '')
ON CONFLICT (key) DO NOTHING RETURNING id
"""
# A row that waits for its next attempt blocks the rows behind it in its lane, even due ones.
_DUE = f"""
{_SELECT} WHERE state = 'pending' AND due_at <= ? AND ({{accounts}}) AND NOT EXISTS (
    SELECT 1 FROM outbox AS earlier WHERE earlier.{UNFINISHED}
    AND earlier.platform = outbox.platform AND earlier.account = outbox.account
    AND earlier.lane = outbox.lane AND earlier.id < outbox.id
) ORDER BY id LIMIT ?
"""
_MARK_SENDING = """
UPDATE outbox SET state = 'sending', attempts = attempts + 1, after_id = ?, error = ?, due_at = ?
WHERE id = ? AND state = 'pending'
"""
# The message is already on the platform and keeps its `platform_id`: it is edited, not sent.
_ADOPT = """
UPDATE outbox SET state = 'pending', attempts = 0, key = ?, body = ?, kind = ?, inbox_id = ?,
    due_at = ?
WHERE id = ? AND state = 'streaming' AND NOT EXISTS (
    SELECT 1 FROM outbox AS other WHERE other.key = ? AND other.id <> outbox.id
)
"""
_END_STREAM = """
UPDATE outbox SET state = 'sent', sent_at = ? WHERE {which} AND state = 'streaming'
"""
# If the inbox message was answered without this row (its process may have died), no one will
# adopt the row any more. It is then final as shown.
_MARK_STREAMING = """
UPDATE outbox SET platform_id = ?, error = '', state = CASE WHEN EXISTS (
    SELECT 1 FROM inbox WHERE inbox.id = outbox.inbox_id AND inbox.state IN ('answered', 'dropped')
) THEN 'sent' ELSE 'streaming' END WHERE id = ? AND state NOT IN ('sent', 'pending')
"""
# A row that was given up has no `sent_at`; its last attempt or its creation counts instead.
_CLEAN = """
DELETE FROM outbox WHERE state IN ('sent', 'failed', 'uncertain')
AND coalesce(sent_at, CASE WHEN due_at > created_at THEN due_at ELSE created_at END) < ?
"""


def enqueue(database: Database, items: Sequence[OutboxItem], now: float) -> tuple[int, ...]:
    """Store messages for sending and return their row ids. A key that is already stored keeps its
    row, whose id is returned."""
    return tuple([_insert(database, item, now) for item in items])


def _insert(database: Database, item: OutboxItem, now: float) -> int:
    values = to_columns(*(getattr(item, name) for name in OutboxItem.__struct_fields__))
    rows = database.rows(_ENQUEUE, (*values, now))
    rows = rows or database.rows("SELECT id FROM outbox WHERE key = ?", to_columns(item.key))
    return int(rows[0][0])


def enqueue_sending(
    database: Database, item: OutboxItem, after_id: str, *, by: str, now: float
) -> bool:
    """Store a message that is sent at once: no other process ever sees it pending. Return False
    if its key is already stored."""
    return mark_sending(database, _insert(database, item, now), after_id, by=by, now=now)


def due(
    database: Database, accounts: Sequence[tuple[str, str]], now: float, limit: int = 100
) -> tuple[OutboxRow, ...]:
    """Return the first pending row of each lane of these (platform, account) pairs, if its time has
    come and no earlier row of the lane is pending, sending or streaming."""
    if not accounts:
        return ()
    condition, values = _account_condition(accounts)
    rows = database.rows(_DUE.format(accounts=condition), (now, *values, limit))
    return _COLUMNS.read_all(rows)


def in_doubt(database: Database, accounts: Sequence[tuple[str, str]]) -> tuple[OutboxRow, ...]:
    """Return the rows that are `sending`, oldest first. After a start it is unknown whether the
    platform has them."""
    if not accounts:
        return ()
    condition, values = _account_condition(accounts)
    statement = f"{_SELECT} WHERE state = 'sending' AND ({condition}) ORDER BY id"
    return _COLUMNS.read_all(database.rows(statement, values))


def mark_sending(
    database: Database, row_id: int, after_id: str = "", *, by: str = "", now: float = 0.0
) -> bool:
    """Mark the row as being sent by the process `by`. Return False if it is not pending any more,
    because another process took it."""
    return bool(database.change(_MARK_SENDING, (*to_columns(after_id, by), now, row_id)))


def take_sending(database: Database, row_id: int, sender: str, by: str, now: float) -> bool:
    """Make `by` the sender of a row whose `sender` is gone. Return False if another process did
    that, or if the row is not being sent any more."""
    statement = (
        "UPDATE outbox SET error = ?, due_at = ? WHERE id = ? AND state = 'sending' AND error = ?"
    )
    return bool(database.change(statement, (*to_columns(by), now, row_id, *to_columns(sender))))


def mark_streaming(database: Database, row_id: int, platform_id: str) -> None:
    """Mark the row as shown and still growing. If its inbox message is answered already, the row is
    sent as shown. A row that became the answer meanwhile (pending) is not changed."""
    database.change(_MARK_STREAMING, (*to_columns(platform_id), row_id))


def stream_of(database: Database, inbox_id: int) -> OutboxRow | None:
    """Return the row that is `streaming` as the answer of an inbox message."""
    clause = (
        "WHERE inbox_id = ? AND state = 'streaming' AND kind = 'stream' ORDER BY id DESC LIMIT 1"
    )
    return _COLUMNS.first(database.rows(f"{_SELECT} {clause}", (inbox_id,)))


def finish_stream(
    database: Database, row_id: int, items: Sequence[OutboxItem], now: float
) -> tuple[int, ...]:
    """Turn a streaming row into the first item, enqueue the others, and return the row ids.

    The row keeps its place in its lane and on the platform, and is pending, to be edited. Without
    items it is sent as shown. If the row is not streaming any more, the first item gets a new row.
    """
    adopt_stream(database, row_id, items, now)
    return enqueue(database, items, now)


def adopt_stream(database: Database, row_id: int, items: Sequence[OutboxItem], now: float) -> None:
    """`finish_stream` without enqueueing anything."""
    for item in items[:1]:
        values = to_columns(item.key, item.body, item.kind, item.inbox_id, item.due_at)
        if database.change(_ADOPT, (*values, row_id, *to_columns(item.key))):
            return
    database.change(_END_STREAM.format(which="id = ?"), (now, row_id))


def end_streams_for(database: Database, inbox_ids: Sequence[int], now: float) -> None:
    """Mark every row that still streams for these inbox messages as sent, as shown."""
    which = f"inbox_id IN ({placeholders(inbox_ids)})"
    database.change(_END_STREAM.format(which=which), (now, *inbox_ids))


def mark_sent(database: Database, row_id: int, platform_id: str, now: float) -> None:
    """Mark the row as sent, from any state. Sent rows are immutable."""
    database.change(
        "UPDATE outbox SET state = 'sent', platform_id = ?, sent_at = ?, error = '' WHERE id = ?",
        (*to_columns(platform_id), now, row_id),
    )


def retry(
    database: Database,
    row_id: int,
    due_at: float,
    error: str,
    *,
    resend: bool = False,
    body: bytes = b"",
) -> None:
    """Make the row pending again from `due_at` on. With `resend`, the message on the platform can
    not be edited any more, so the row is sent as a new one. `body` replaces its content."""
    if body:
        _change(database, row_id, "body = ?", body)
    # A sending is counted before the attempt, by `mark_sending`; an edit is counted here.
    attempts = (
        ", platform_id = '', attempts = 0"
        if resend
        else ", attempts = attempts + CASE platform_id WHEN '' THEN 0 ELSE 1 END"
    )
    _change(database, row_id, f"state = 'pending', due_at = ?, error = ?{attempts}", due_at, error)


def give_up(database: Database, row_id: int, state: OutState, error: str) -> None:
    """End the attempts to send the row: `failed` or `uncertain`."""
    if state not in ("failed", "uncertain"):
        raise ValueError(f"a message that is given up is failed or uncertain, not {state}")
    _change(database, row_id, "state = ?, error = ?", state, error)


def get(database: Database, key: str) -> OutboxRow | None:
    return _COLUMNS.first(database.rows(f"{_SELECT} WHERE key = ?", to_columns(key)))


def clean(database: Database, before: float) -> int:
    """Delete rows that ended before then and return their number."""
    return database.change(_CLEAN, (before,))


def _change(database: Database, row_id: int, assignments: str, *values: Any) -> None:
    """Update a row unless it is sent."""
    statement = f"UPDATE outbox SET {assignments} WHERE id = ? AND state <> 'sent'"
    database.change(statement, (*to_columns(*values), row_id))


def _account_condition(accounts: Sequence[tuple[str, str]]) -> tuple[str, list[str]]:
    condition = " OR ".join("platform = ? AND account = ?" for _ in accounts)
    return condition, to_columns(*(name for pair in accounts for name in pair))
