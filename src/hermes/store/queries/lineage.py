"""Sessions that come from one another: up, down, branched, compacted, undone."""

from collections.abc import Sequence

from hermes.core.errors import UsageError
from hermes.core.messages import Message, User
from hermes.core.ports import SessionInfo
from hermes.store.queries import chats, projections, sessions, titles
from hermes.store.records import LoggedMessage
from hermes.store.sql import Database

# UNION, not UNION ALL: a ring of parents in a damaged store must not run for ever.
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
    """Parent first."""
    return _line(database, session_id, _ANCESTORS)


def descendants(database: Database, session_id: str) -> tuple[SessionInfo, ...]:
    """Oldest first."""
    return _line(database, session_id, _DESCENDANTS)


def branch(database: Database, session_id: str, new_id: str, up_to: int | None, now: float) -> None:
    sessions.hold(database, session_id)
    if up_to is None:
        basis: list[projections.Piece] | None = projections.everything(database, session_id)
    else:
        basis = projections.beginning(database, session_id, up_to, with_it=True)
    if basis is None:
        raise UsageError(f"the conversation of session {session_id} has no message {up_to}")
    _continue(database, session_id, new_id, basis, "branch", now)


def compact(
    database: Database,
    session_id: str,
    new_id: str,
    conversation: Sequence[LoggedMessage | Message],
    now: float,
) -> None:
    sessions.hold(database, session_id)
    basis = projections.gather(database, session_id, conversation)
    _continue(database, session_id, new_id, basis, "compression", now)
    chats.go_on(database, session_id, new_id)
    sessions.end(database, session_id, "compression", now)


def undo(database: Database, session_id: str, turns: int, now: float) -> str:
    if turns < 1:
        raise UsageError("the number of turns to undo must be at least 1")
    sessions.hold(database, session_id)
    start = projections.last_turn(projections.entries(database, session_id), turns)
    if start is None:
        return ""
    basis = projections.beginning(database, session_id, start.id, with_it=False)
    projections.write(database, session_id, basis or (), "undo", now)
    return start.message.text if isinstance(start.message, User) else ""


def _continue(
    database: Database,
    session_id: str,
    new_id: str,
    basis: Sequence[projections.Piece],
    reason: str,
    now: float,
) -> None:
    """A child session whose conversation begins with `basis`."""
    title = sessions.info(database, session_id).title
    if sessions.exists(database, new_id):
        raise sessions.taken(new_id)
    database.change(_COPY, (new_id, now, session_id))
    projections.write(database, new_id, basis, reason, now, after_id=0)
    if title:
        titles.set_title(database, new_id, titles.next_title(database, title))


def _line(database: Database, session_id: str, statement: str) -> tuple[SessionInfo, ...]:
    if not sessions.exists(database, session_id):
        raise sessions.not_found(session_id)
    ids = [str(row[0]) for row in database.rows(statement, (session_id,))]
    return sessions.infos(database, [one for one in ids if one != session_id])
