"""Messages of chats on their way in, and the state of both queues.

A message is stored before the platform gets its acknowledgement, so a crash does not lose it. Its
answer is enqueued in the transaction that marks it as answered.
"""

from collections.abc import Sequence

from hermes.store.engine import Database
from hermes.store.queries import approvals, chats, messages, outbox
from hermes.store.records import ChatLease, InboxItem, InboxRow, InState, OutboxItem, QueueCount
from hermes.store.rows import StructColumns, placeholders, to_columns

_COLUMNS = StructColumns(InboxRow)
_PENDING = "state IN ('new', 'begun', 'working')"

_RECEIVE = f"""
INSERT INTO inbox (platform, account, message_key, session_key, event, received_at,
    state, session_id, log_after, answered_by)
VALUES ({placeholders(range(6))}, 'new', '', 0, 0)
ON CONFLICT (platform, account, message_key) DO NOTHING RETURNING id
"""
_END = f"""
UPDATE inbox SET state = ?, answered_by = ?, done_at = ? WHERE id = ? AND {_PENDING}
"""
# Several messages may share one answer, which belongs to the last of them.
_CLEAN = f"""
DELETE FROM inbox WHERE state IN ('answered', 'dropped', 'unreadable') AND done_at < ?
AND NOT EXISTS (
    SELECT 1 FROM outbox WHERE outbox.inbox_id IN (inbox.id, inbox.answered_by)
    AND outbox.inbox_id <> 0 AND outbox.{outbox.UNFINISHED}
)
"""
_COUNT_INBOX = f"""
SELECT platform, sum(CASE WHEN {_PENDING} THEN 1 ELSE 0 END),
    max(received_at), sum(CASE state WHEN 'unreadable' THEN 1 ELSE 0 END)
FROM inbox GROUP BY platform
"""
_COUNT_OUTBOX = f"""
SELECT platform, sum(CASE WHEN {outbox.UNFINISHED} THEN 1 ELSE 0 END),
    sum(CASE state WHEN 'failed' THEN 1 ELSE 0 END),
    sum(CASE state WHEN 'uncertain' THEN 1 ELSE 0 END), max(sent_at)
FROM outbox GROUP BY platform
"""


def receive(database: Database, item: InboxItem, now: float) -> int | None:
    """Store a message and return its row id, or None if it was stored before."""
    values = to_columns(*(getattr(item, name) for name in InboxItem.__struct_fields__))
    rows = database.rows(_RECEIVE, (*values, now))
    return int(rows[0][0]) if rows else None


def pending(database: Database, session_key: str) -> tuple[InboxRow, ...]:
    """Return the new and unfinished messages of a chat, oldest first."""
    statement = f"SELECT {_COLUMNS.names} FROM inbox WHERE {_PENDING} AND session_key = ?"
    return _COLUMNS.read_all(database.rows(f"{statement} ORDER BY id", to_columns(session_key)))


def pending_chats(database: Database, platforms: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the session keys that have new or unfinished messages, the oldest message first."""
    only = f"AND platform IN ({placeholders(platforms)})" if platforms else ""
    rows = database.rows(
        f"SELECT session_key FROM inbox WHERE {_PENDING} {only}"
        " GROUP BY session_key ORDER BY min(id)",
        to_columns(*platforms),
    )
    return tuple(str(row[0]) for row in rows)


def pending_of(database: Database, owner: str) -> tuple[InboxRow, ...]:
    """Return the new and unfinished messages of the chats that a process holds, oldest first."""
    rows = database.rows(
        f"SELECT {_COLUMNS.names} FROM inbox WHERE {_PENDING}"
        " AND session_key IN (SELECT session_key FROM chats WHERE owner = ?) ORDER BY id",
        to_columns(owner),
    )
    return _COLUMNS.read_all(rows)


def orphaned_chats(
    database: Database,
    platforms: Sequence[str],
    now: float,
    received_before: float,
    dead: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the session keys with pending messages that no process works on: the lease of the chat
    has expired at `now` or belongs to a process in `dead`, or the chat has no lease and a message
    that came before then. The oldest message is first."""
    free = "coalesce(chats.owner, '') = '' AND inbox.received_at <= ?"
    named = f" OR chats.owner IN ({placeholders(dead)})" if dead else ""
    rows = database.rows(
        "SELECT inbox.session_key FROM inbox"
        " LEFT JOIN chats ON chats.session_key = inbox.session_key"
        f" WHERE inbox.{_PENDING} AND inbox.platform IN ({placeholders(platforms)})"
        f" AND ({free} OR chats.owner <> '' AND chats.lease_until <= ?{named})"
        " GROUP BY inbox.session_key ORDER BY min(inbox.id)",
        (*to_columns(*platforms), received_before, now, *to_columns(*dead)),
    )
    return tuple(str(row[0]) for row in rows)


def start(database: Database, row_ids: Sequence[int], session_id: str, lease: ChatLease) -> int:
    """Mark messages as being worked on. Return the newest message id in the log of the session,
    which is stored with them. A second call starts again from the log as it is then."""
    chats.check_lease(database, lease)
    newest = messages.newest_id(database, session_id)
    if row_ids:
        database.change(
            "UPDATE inbox SET state = 'working', session_id = ?, log_after = ?"
            f" WHERE id IN ({placeholders(row_ids)}) AND {_PENDING}",
            (*to_columns(session_id), newest, *row_ids),
        )
    return newest


def start_command(database: Database, row_id: int, session_id: str) -> None:
    """Mark a command as begun before it has an effect on `session_id` that must not happen twice.
    A process that finds the mark after a crash checks whether the command took effect."""
    newest = messages.newest_change_id(database)
    database.change(
        "UPDATE inbox SET state = 'begun', session_id = ?, log_after = ?"
        f" WHERE id = ? AND {_PENDING}",
        (*to_columns(session_id), newest, row_id),
    )


def answer(
    database: Database,
    row_ids: Sequence[int],
    items: Sequence[OutboxItem],
    lease: ChatLease | None,
    now: float,
    *,
    stream_id: int = 0,
    state: InState = "answered",
) -> tuple[int, ...]:
    """End messages and enqueue their answer in one transaction; return the outbox row ids.

    The answer belongs to the last of `row_ids`; the others refer to it. `stream_id` is the
    streaming outbox row that becomes the answer (see `outbox.finish_stream`), by default the one
    of the last message. Every other row that streams for these messages is sent as shown.
    """
    if lease is not None:
        chats.check_lease(database, lease, now)
    for row_id in row_ids:
        answered_by = row_ids[-1] if row_id != row_ids[-1] else 0
        database.change(_END, (state, answered_by, now, row_id))
    if not stream_id and row_ids and (stream := outbox.stream_of(database, row_ids[-1])):
        stream_id = stream.id
    if stream_id:
        outbox.adopt_stream(database, stream_id, items, now)
    if row_ids:
        outbox.end_streams_for(database, row_ids, now)
    return outbox.enqueue(database, items, now)


def queue_counts(database: Database) -> tuple[QueueCount, ...]:
    """Return the number of messages in both queues, ordered by platform."""
    inbox = {str(platform): rest for platform, *rest in database.rows(_COUNT_INBOX)}
    sent = {str(platform): rest for platform, *rest in database.rows(_COUNT_OUTBOX)}
    counts: list[QueueCount] = []
    for platform in sorted({*inbox, *sent}):
        waiting_in, last_in, unreadable = inbox.get(platform, (0, None, 0))
        waiting_out, failed, uncertain, last_out = sent.get(platform, (0, 0, 0, None))
        counts.append(
            QueueCount(
                platform, waiting_in, waiting_out, failed, uncertain, last_in, last_out, unreadable
            )
        )
    return tuple(counts)


def clean_queues(database: Database, before: float) -> int:
    """Delete messages of both queues that ended before then, and return their number. An inbox
    message whose answer is still on its way is kept. Approvals from before then are deleted too."""
    approvals.clean(database, before)
    return outbox.clean(database, before) + database.change(_CLEAN, (before,))
