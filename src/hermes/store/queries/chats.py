"""Which conversation a chat is in, and which process works on it."""

from collections.abc import Sequence

from hermes.core.errors import LeaseLost, StoreConflict
from hermes.store.mail import ChatRow, Fenced
from hermes.store.queries.values import Fields, fit
from hermes.store.sql import Database

_FIELDS = Fields(ChatRow)
_SELECT = f"SELECT {_FIELDS.names} FROM chats"

_BIND = f"""
INSERT INTO chats ({_FIELDS.names}) VALUES (?, ?, ?, ?, ?, '', 0, 0)
ON CONFLICT (session_key) DO UPDATE SET
    session_id = excluded.session_id,
    origin = CASE excluded.origin WHEN '' THEN chats.origin ELSE excluded.origin END,
    started_at = CASE excluded.session_id WHEN chats.session_id THEN chats.started_at
        ELSE excluded.started_at END,
    last_active = excluded.last_active
"""
# One statement: of two processes that want the same chat, the second sees what the first did.
_CLAIM = f"""
INSERT INTO chats ({_FIELDS.names}) VALUES (?, '', '', ?, ?, ?, ?, 1)
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
    return _FIELDS.first(database.rows(f"{_SELECT} WHERE session_key = ?", fit(session_key)))


def chats(database: Database, idle_since: float | None) -> tuple[ChatRow, ...]:
    """The longest idle first."""
    clause, values = ("", ()) if idle_since is None else ("WHERE last_active < ?", (idle_since,))
    rows = database.rows(f"{_SELECT} {clause} ORDER BY last_active, session_key", values)
    return _FIELDS.read_all(rows)


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
