"""Messages of chats on their way in."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from hermes.core.errors import LeaseLost, StoreConflict
from hermes.store.backend import Database, Row
from hermes.store.queries import messages
from hermes.store.records import (
    ChatRow,
    Draft,
    Fenced,
    InboxRow,
    InState,
    MailCount,
    OutboxRow,
    OutState,
    Received,
)
from hermes.util.text import clean

# Structs in and out of tables that have a column for each field, under the same name.

S = TypeVar("S", bound=msgspec.Struct)


class Fields(Generic[S]):
    """The columns of a struct. What is bytes in it is text in the table."""

    def __init__(self, struct: type[S]) -> None:
        fields = msgspec.structs.fields(struct)
        self.names = ", ".join(field.name for field in fields)
        self.marks = marks(fields)
        self._struct = struct
        self._bytes = [at for at, field in enumerate(fields) if field.type is bytes]

    def read(self, row: Row) -> S:
        values = list(row)
        for at in self._bytes:
            values[at] = values[at].encode()
        return self._struct(*values)

    def read_all(self, rows: Sequence[Row]) -> tuple[S, ...]:
        return tuple([self.read(row) for row in rows])

    def first(self, rows: Sequence[Row]) -> S | None:
        return self.read(rows[0]) if rows else None


def fit(*values: Any) -> list[Any]:
    """Values as a table takes them: bytes as text, and text without what no database takes."""
    return [_fit(value) for value in values]


def _fit(value: Any) -> Any:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return clean(value) if isinstance(value, str) else value


def marks(values: Sequence[Any]) -> str:
    """A `?` for each."""
    return ", ".join("?" for _ in values)


# Messages of chats on their way out.

_OUTBOX = Fields(OutboxRow)
_SELECT_OUTBOX = f"SELECT {_OUTBOX.names} FROM outbox"

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
{_SELECT_OUTBOX} WHERE state = 'pending' AND due_at <= ? AND ({{places}}) AND NOT EXISTS (
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
_CLEAN_OUTBOX = """
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


def adopt_stream(database: Database, row_id: int, draft: Draft, now: float) -> None:
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
    return _OUTBOX.read_all(rows)


def in_doubt(database: Database, platforms: Sequence[tuple[str, str]]) -> tuple[OutboxRow, ...]:
    if not platforms:
        return ()
    places, values = _places(platforms)
    statement = f"{_SELECT_OUTBOX} WHERE state = 'sending' AND ({places}) ORDER BY id"
    return _OUTBOX.read_all(database.rows(statement, values))


def sending(database: Database, row_id: int, after_id: str, by: str, now: float) -> bool:
    return bool(database.change(_SENDING, (*fit(after_id, by), now, row_id)))


def streaming(database: Database, row_id: int, platform_id: str) -> None:
    database.change(_STREAMING, (*fit(platform_id), row_id))


def stream_of(database: Database, inbox_id: int) -> OutboxRow | None:
    clause = (
        "WHERE inbox_id = ? AND state = 'streaming' AND kind = 'stream' ORDER BY id DESC LIMIT 1"
    )
    return _OUTBOX.first(database.rows(f"{_SELECT_OUTBOX} {clause}", (inbox_id,)))


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
    return _OUTBOX.first(database.rows(f"{_SELECT_OUTBOX} WHERE key = ?", fit(key)))


def clean_outbox(database: Database, before: float) -> int:
    return database.change(_CLEAN_OUTBOX, (before,))


def _change(database: Database, row_id: int, what: str, *values: Any) -> None:
    """Leaves alone what was sent: that does not change any more."""
    statement = f"UPDATE outbox SET {what} WHERE id = ? AND state <> 'sent'"
    database.change(statement, (*fit(*values), row_id))


def _places(platforms: Sequence[tuple[str, str]]) -> tuple[str, list[str]]:
    one = "platform = ? AND account = ?"
    return " OR ".join(one for _ in platforms), fit(*(name for pair in platforms for name in pair))


# Which conversation a chat is in, and which process works on it.

_CHATS = Fields(ChatRow)
_SELECT_CHATS = f"SELECT {_CHATS.names} FROM chats"

_BIND = f"""
INSERT INTO chats ({_CHATS.names}) VALUES (?, ?, ?, ?, ?, '', 0, 0)
ON CONFLICT (session_key) DO UPDATE SET
    session_id = excluded.session_id,
    origin = CASE excluded.origin WHEN '' THEN chats.origin ELSE excluded.origin END,
    started_at = CASE excluded.session_id WHEN chats.session_id THEN chats.started_at
        ELSE excluded.started_at END,
    last_active = excluded.last_active
"""
# One statement: of two processes that want the same chat, the second sees what the first did.
_CLAIM = f"""
INSERT INTO chats ({_CHATS.names}) VALUES (?, '', '', ?, ?, ?, ?, 1)
ON CONFLICT (session_key) DO UPDATE SET
    fence = chats.fence + CASE excluded.owner WHEN chats.owner THEN 0 ELSE 1 END,
    owner = excluded.owner,
    lease_until = excluded.lease_until
WHERE chats.owner IN ('', excluded.owner{{dead}}) OR chats.lease_until <= ?
RETURNING fence
"""
_OTHERS = "session_id = ? AND session_key <> ?"
_WORKED_ON = "owner NOT IN (''{dead}) AND lease_until > ?"
_RIGHT = "session_key = ? AND owner = ? AND fence = ?"


def chat(database: Database, session_key: str) -> ChatRow | None:
    return _CHATS.first(database.rows(f"{_SELECT_CHATS} WHERE session_key = ?", fit(session_key)))


def chats(database: Database, idle_since: float | None) -> tuple[ChatRow, ...]:
    """The longest idle first."""
    clause, values = ("", ()) if idle_since is None else ("WHERE last_active < ?", (idle_since,))
    rows = database.rows(f"{_SELECT_CHATS} {clause} ORDER BY last_active, session_key", values)
    return _CHATS.read_all(rows)


def bind(database: Database, session_key: str, session_id: str, origin: bytes, now: float) -> None:
    before = chat(database, session_key)
    is_new = before is None or before.session_id != session_id
    if is_new and session_id and _worked_on_elsewhere(database, session_key, session_id, now):
        raise StoreConflict(
            f"the conversation {session_id} is being worked on in another chat",
            hint="Try again when the agent has answered there.",
        )
    database.change(_BIND, (*fit(session_key, session_id, origin), now, now))


def _worked_on_elsewhere(
    database: Database, session_key: str, session_id: str, now: float, dead: Sequence[str] = ()
) -> bool:
    """Whether another chat that is in the conversation is worked on. The rest have to read it anew
    next time, hence another fence; and until this transaction ends nobody can begin there."""
    others = fit(session_id, session_key)
    if not database.rows(f"SELECT 1 FROM chats WHERE {_OTHERS}", others):
        return False
    values = (*others, *fit(*dead), now)
    worked_on = _WORKED_ON.format(dead="".join(", ?" for _ in dead))
    rest = f"UPDATE chats SET fence = fence + 1 WHERE {_OTHERS} AND NOT ({worked_on})"
    database.change(rest, values)
    return bool(database.rows(f"SELECT 1 FROM chats WHERE {_OTHERS} AND {worked_on}", values))


def go_on(database: Database, session_id: str, new_id: str) -> None:
    """The conversation goes on in another session, and the chat that is in it with it."""
    database.change("UPDATE chats SET session_id = ? WHERE session_id = ?", (new_id, session_id))


def claim(
    database: Database,
    session_key: str,
    owner: str,
    now: float,
    until: float,
    dead: Sequence[str],
) -> Fenced | None:
    bound = database.rows("SELECT session_id FROM chats WHERE session_key = ?", fit(session_key))
    session_id = str(bound[0][0]) if bound else ""
    if session_id and _worked_on_elsewhere(database, session_key, session_id, now, dead):
        return None
    statement = _CLAIM.format(dead="".join(", ?" for _ in dead))
    values = fit(session_key, now, now, owner, until, *dead, now)
    rows = database.rows(statement, values)
    return Fenced(session_key, owner, int(rows[0][0])) if rows else None


def insist(database: Database, right: Fenced, now: float | None = None) -> None:
    """Raise `LeaseLost` unless the right is the newest, and have whoever wants to take it wait for
    this transaction. With a time, the chat was active then."""
    what, values = ("owner = owner", ()) if now is None else ("last_active = ?", (now,))
    statement = f"UPDATE chats SET {what} WHERE {_RIGHT}"
    if not database.change(statement, (*values, *_values(right))):
        raise LeaseLost(
            f"another process works on the chat {right.session_key} by now",
            hint="Nothing to do: it answers what is waiting there.",
        )


def renew(database: Database, owner: str, until: float) -> int:
    return database.change("UPDATE chats SET lease_until = ? WHERE owner = ?", fit(until, owner))


def release(database: Database, right: Fenced) -> None:
    """Of a right that was lost nothing is left to give back."""
    database.change(f"UPDATE chats SET owner = '', lease_until = 0 WHERE {_RIGHT}", _values(right))


def forget(database: Database, right: Fenced) -> None:
    database.change(f"DELETE FROM chats WHERE {_RIGHT}", _values(right))


def owners(database: Database) -> tuple[str, ...]:
    rows = database.rows("SELECT DISTINCT owner FROM chats WHERE owner <> '' ORDER BY owner")
    return tuple(str(row[0]) for row in rows)


def _values(right: Fenced) -> list[object]:
    return fit(right.session_key, right.owner, right.fence)


_INBOX = Fields(InboxRow)
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
_CLEAN_INBOX = f"""
DELETE FROM inbox WHERE state IN ('answered', 'dropped', 'unreadable') AND done_at < ?
AND NOT EXISTS (
    SELECT 1 FROM outbox WHERE outbox.inbox_id IN (inbox.id, inbox.answered_by)
    AND outbox.inbox_id <> 0 AND outbox.{UNDER_WAY}
)
"""


def receive(database: Database, message: Received, now: float) -> int | None:
    values = fit(*(getattr(message, name) for name in Received.__struct_fields__))
    rows = database.rows(_RECEIVE, (*values, now))
    return int(rows[0][0]) if rows else None


def waiting(database: Database, session_key: str) -> tuple[InboxRow, ...]:
    statement = f"SELECT {_INBOX.names} FROM inbox WHERE {_WAITING} AND session_key = ?"
    return _INBOX.read_all(database.rows(f"{statement} ORDER BY id", fit(session_key)))


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
    insist(database, right)
    newest = messages.newest_id(database, session_id)
    if row_ids:
        database.change(
            "UPDATE inbox SET state = 'working', session_id = ?, log_after = ?"
            f" WHERE id IN ({marks(row_ids)}) AND {_WAITING}",
            (*fit(session_id), newest, *row_ids),
        )
    return newest


def begin_once(database: Database, row_id: int, session_id: str) -> None:
    newest = messages.newest_number(database)
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
        insist(database, right, now)
    for row_id in row_ids:
        by = row_ids[-1] if row_id != row_ids[-1] else 0
        database.change(_DONE, (state, by, now, row_id))
    if not adopt and row_ids and (shown := stream_of(database, row_ids[-1])):
        adopt = shown.id
    if adopt and not drafts:
        stop_growing(database, adopt, now)
    if adopt and drafts:
        adopt_stream(database, adopt, drafts[0], now)
    if row_ids:
        stop_growing_for(database, row_ids, now)
    return put(database, drafts, now)


def clean_inbox(database: Database, before: float) -> int:
    return database.change(_CLEAN_INBOX, (before,))


# Messages on their way in both directions: counted, and forgotten once they are done.

_IN = """
SELECT platform, sum(CASE WHEN state IN ('new', 'begun', 'working') THEN 1 ELSE 0 END),
    max(received_at), sum(CASE state WHEN 'unreadable' THEN 1 ELSE 0 END)
FROM inbox GROUP BY platform
"""
_OUT = f"""
SELECT platform, sum(CASE WHEN {UNDER_WAY} THEN 1 ELSE 0 END),
    sum(CASE state WHEN 'failed' THEN 1 ELSE 0 END),
    sum(CASE state WHEN 'uncertain' THEN 1 ELSE 0 END), max(sent_at)
FROM outbox GROUP BY platform
"""


def counts(database: Database) -> tuple[MailCount, ...]:
    """By the name of the platform."""
    came = {str(platform): rest for platform, *rest in database.rows(_IN)}
    went = {str(platform): rest for platform, *rest in database.rows(_OUT)}
    made: list[MailCount] = []
    for platform in sorted({*came, *went}):
        waiting, last_in, unreadable = came.get(platform, (0, None, 0))
        pending, failed, uncertain, last_out = went.get(platform, (0, 0, 0, None))
        counted = (waiting, pending, failed, uncertain, last_in, last_out, unreadable)
        made.append(MailCount(platform, *counted))
    return tuple(made)


def clean_mail(database: Database, before: float) -> int:
    return clean_outbox(database, before) + clean_inbox(database, before)
