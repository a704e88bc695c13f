"""Which session a chat is in, and which process holds the lease of the chat.

A lease names its owner and a fence, a number that grows with each new owner. Writes under an older
fence are refused.

Keys that begin with `LEASE_PREFIX` are not chats: they are leases on sessions and named
conversations of the API, and the heartbeats of the gateways that share the store. Such a row exists
only while the lease is held.
"""

from collections.abc import Sequence

from msgspec.structs import astuple

from hermes.core.errors import LeaseLost, StoreConflict
from hermes.store.engine import Database
from hermes.store.records import ChatLease, ChatRow, GatewayBeat, GatewayRow
from hermes.store.rows import StructColumns, placeholders, to_columns

LEASE_PREFIX = "lease:"
GATEWAY_PREFIX = f"{LEASE_PREFIX}gateway:"
KEEP_SECONDS = 1800.0  #: Seconds after which a lease that was not released is deleted.

_COLUMNS = StructColumns(ChatRow)
_SELECT = f"SELECT {_COLUMNS.names} FROM chats"
_IS_LEASE = "session_key >= 'lease:' AND session_key < 'lease;'"
_GATEWAYS = """
SELECT owner, origin, lease_until FROM chats
WHERE session_key >= 'lease:gateway:' AND session_key < 'lease:gateway;' ORDER BY owner
"""
_BEAT = f"""
INSERT INTO chats ({_COLUMNS.names}) VALUES (?, '', ?, ?, ?, ?, 0, 1)
ON CONFLICT (session_key) DO UPDATE SET origin = excluded.origin, last_active = excluded.last_active
"""

_BIND = f"""
INSERT INTO chats ({_COLUMNS.names}) VALUES (?, ?, ?, ?, ?, '', 0, 0)
ON CONFLICT (session_key) DO UPDATE SET
    session_id = excluded.session_id,
    origin = CASE excluded.origin WHEN '' THEN chats.origin ELSE excluded.origin END,
    started_at = CASE excluded.session_id WHEN chats.session_id THEN chats.started_at
        ELSE excluded.started_at END,
    last_active = excluded.last_active
"""
# One statement: of two processes that claim the same chat, the second sees what the first did.
_CLAIM = f"""
INSERT INTO chats ({_COLUMNS.names}) VALUES (?, ?, '', ?, ?, ?, ?, 1)
ON CONFLICT (session_key) DO UPDATE SET
    fence = chats.fence + CASE excluded.owner WHEN chats.owner THEN 0 ELSE 1 END,
    owner = excluded.owner,
    lease_until = excluded.lease_until
WHERE chats.owner IN ('', excluded.owner{{dead}}) OR chats.lease_until <= ?
RETURNING fence
"""
_OTHERS = "session_id = ? AND session_key <> ?"
_LEASED = "owner NOT IN (''{dead}) AND lease_until > ?"
_LEASE = "session_key = ? AND owner = ? AND fence = ?"


def get(database: Database, session_key: str) -> ChatRow | None:
    rows = database.rows(f"{_SELECT} WHERE session_key = ?", to_columns(session_key))
    return _COLUMNS.first(rows)


def select(database: Database, *, idle_since: float | None = None) -> tuple[ChatRow, ...]:
    """Return all chats, or those without activity since then; the longest idle first."""
    clause, values = ("", ()) if idle_since is None else (" AND last_active < ?", (idle_since,))
    statement = f"{_SELECT} WHERE NOT ({_IS_LEASE}){clause} ORDER BY last_active, session_key"
    rows = database.rows(statement, values)
    return _COLUMNS.read_all(rows)


def bind(database: Database, session_key: str, session_id: str, origin: bytes, now: float) -> None:
    """Put the chat into this session. An `origin` of b"" leaves the stored one. Raises
    `StoreConflict` if another chat in the session is leased."""
    before = get(database, session_key)
    is_new = before is None or before.session_id != session_id
    if is_new and session_id and _is_leased_elsewhere(database, session_key, session_id, now):
        raise StoreConflict(
            f"the conversation {session_id} is being worked on in another chat",
            hint="Try again when the agent has answered there.",
        )
    database.change(_BIND, (*to_columns(session_key, session_id, origin), now, now))


def _is_leased_elsewhere(
    database: Database, session_key: str, session_id: str, now: float, dead: Sequence[str] = ()
) -> bool:
    """Return whether another chat in the session is leased.

    The other chats that are not leased get a new fence, because they have to read the session
    again. Updating them also makes other processes that want to claim one wait for this
    transaction.
    """
    others = to_columns(session_id, session_key)
    if not database.rows(f"SELECT 1 FROM chats WHERE {_OTHERS}", others):
        return False
    values = (*others, *to_columns(*dead), now)
    leased = _LEASED.format(dead="".join(", ?" for _ in dead))
    database.change(
        f"UPDATE chats SET fence = fence + 1 WHERE {_OTHERS} AND NOT ({leased})", values
    )
    return bool(database.rows(f"SELECT 1 FROM chats WHERE {_OTHERS} AND {leased}", values))


def move(database: Database, session_id: str, new_id: str) -> None:
    """Move the chats of a session to the session that continues it."""
    database.change("UPDATE chats SET session_id = ? WHERE session_id = ?", (new_id, session_id))


def claim(
    database: Database,
    session_key: str,
    owner: str,
    now: float,
    until: float,
    *,
    dead: Sequence[str] = (),
    session_id: str = "",
    expiry: float | None = None,
) -> ChatLease | None:
    """Take the lease of a chat if it is free or expired, or if its owner is named in `dead` or is
    `owner` itself. Return None if another process holds it, or holds another chat in the same
    session: a session is written by one chat at a time. `session_id` is the session of a chat that
    is not stored yet. Leases that ended before `expiry` are expired, by default those before now.
    """
    expiry = now if expiry is None else expiry
    bound = database.rows(
        "SELECT session_id FROM chats WHERE session_key = ?", to_columns(session_key)
    )
    session_id = str(bound[0][0]) if bound else session_id
    if session_id and _is_leased_elsewhere(database, session_key, session_id, expiry, dead):
        return None
    statement = _CLAIM.format(dead="".join(", ?" for _ in dead))
    values = to_columns(session_key, session_id, now, now, owner, until, *dead, expiry)
    rows = database.rows(statement, values)
    return ChatLease(session_key, owner, int(rows[0][0])) if rows else None


def check_lease(database: Database, lease: ChatLease, now: float | None = None) -> None:
    """Raise `LeaseLost` unless the lease is the newest one of its chat. With `now`, record activity
    in the chat.

    This is an update, so that a process which wants to claim the chat waits for the transaction.
    """
    assignment, values = ("owner = owner", ()) if now is None else ("last_active = ?", (now,))
    statement = f"UPDATE chats SET {assignment} WHERE {_LEASE}"
    if not database.change(statement, (*values, *to_columns(*astuple(lease)))):
        raise LeaseLost(
            f"another process works on the chat {lease.session_key} by now",
            hint="Nothing to do: it answers what is waiting there.",
        )


def renew(database: Database, owner: str, until: float) -> int:
    """Extend all leases of a process and return their number."""
    statement = "UPDATE chats SET lease_until = ? WHERE owner = ?"
    return database.change(statement, to_columns(until, owner))


def beat(
    database: Database,
    owner: str,
    platforms: bytes,
    now: float,
    seconds: float,
    keys: Sequence[str] = (),
) -> GatewayBeat:
    """Record that a gateway is alive and which platforms it serves (JSON), extend its leases on
    `keys`, and return the gateways that share the store. Leases that were not released expire."""
    name = f"{GATEWAY_PREFIX}{owner}"
    database.change(_BEAT, (*to_columns(name, platforms), now, now, owner))
    held = (name, *keys)
    database.change(
        "UPDATE chats SET lease_until = ? WHERE owner = ?"
        f" AND session_key IN ({placeholders(held)})",
        (now + seconds, owner, *to_columns(*held)),
    )
    found = gateways(database)
    if any(each.lease_until < now - KEEP_SECONDS for each in found):
        database.change(
            f"DELETE FROM chats WHERE {_IS_LEASE} AND lease_until < ?", (now - KEEP_SECONDS,)
        )
    return GatewayBeat(now, found)


def gateways(database: Database) -> tuple[GatewayRow, ...]:
    """Return the gateways that share the store, or did until a while ago."""
    rows = database.rows(_GATEWAYS)
    return tuple(GatewayRow(str(name), str(served).encode(), until) for name, served, until in rows)


def release(database: Database, lease: ChatLease) -> None:
    """Free the chat for other processes. A lost lease is ignored."""
    statement = f"UPDATE chats SET owner = '', lease_until = 0 WHERE {_LEASE}"
    database.change(statement, to_columns(*astuple(lease)))


def delete(database: Database, lease: ChatLease) -> None:
    """Delete the chat. A lost lease is ignored."""
    database.change(f"DELETE FROM chats WHERE {_LEASE}", to_columns(*astuple(lease)))


def owners(database: Database) -> tuple[str, ...]:
    """Return the processes that hold leases."""
    rows = database.rows("SELECT DISTINCT owner FROM chats WHERE owner <> '' ORDER BY owner")
    return tuple(str(row[0]) for row in rows)
