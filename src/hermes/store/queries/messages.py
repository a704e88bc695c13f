"""Rows of `messages`: appended, and read in the order they were logged."""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from hermes.core.messages import Assistant, Message, User
from hermes.store.backend import Backend, Database, Row
from hermes.store.queries import sessions
from hermes.store.records import Change, LoggedMessage
from hermes.store.rows import COLUMNS, columns_of, from_row, row_of, to_row

INSERTED = ("session_id", "timestamp", "token_count", *COLUMNS)
SMALL = 8000
"""Characters."""
NAMES = ", ".join(COLUMNS)

_COUNT = """
UPDATE sessions SET
    message_count = coalesce(message_count, 0) + 1,
    tool_call_count = coalesce(tool_call_count, 0) + ?,
    ended_at = NULL, end_reason = NULL
WHERE id = ?
"""
_ALL = f"SELECT {NAMES}, id FROM messages WHERE session_id = ? ORDER BY timestamp, id"
_LOGGED = f"SELECT id, timestamp, token_count, {NAMES} FROM messages"


def append(
    backend: Backend,
    database: Database,
    session_id: str,
    row: Row,
    *,
    calls: int,
    now: float,
    token_count: int | None = None,
) -> int:
    """The new row's id. A finished session is open again."""
    sessions.change(database, session_id, _COUNT, (calls,))
    return backend.insert_message(database, INSERTED, (session_id, now, token_count, *row))


def calls_in(message: Message) -> int:
    return len(message.calls) if isinstance(message, Assistant) else 0


def is_small(row: Row) -> bool:
    """Whether to store and index it takes a fraction of a millisecond."""
    return sum(len(text) for text in row if text) <= SMALL


def all_rows(database: Database, session_id: str) -> list[Row]:
    """The `COLUMNS` of every message of the session, each row with its id at the end.

    The index gives them by time, which is nearly the order of their ids. To have the database sort
    them would copy every text once more.
    """
    rows = database.rows(_ALL, (session_id,))
    rows.sort(key=itemgetter(-1))
    return rows


def log(database: Database, session_id: str) -> tuple[LoggedMessage, ...]:
    rows = database.rows(f"{_LOGGED} WHERE session_id = ? ORDER BY id", (session_id,))
    if not rows and not sessions.exists(database, session_id):
        raise sessions.not_found(session_id)
    return logged(rows)


def span(database: Database, session_id: str, first: int, last: int | None) -> list[Row]:
    """Id, timestamp, token count and `COLUMNS` of a session's messages from one id to another."""
    clause = "WHERE session_id = ? AND id >= ?"
    values: list[Any] = [session_id, first]
    if last is not None:
        clause, values = f"{clause} AND id <= ?", [*values, last]
    return database.rows(f"{_LOGGED} {clause} ORDER BY id", values)


def logged(rows: Sequence[Row]) -> tuple[LoggedMessage, ...]:
    return tuple(
        LoggedMessage(number, timestamp, message, token_count)
        for number, timestamp, token_count, *columns in rows
        if (message := from_row(columns)) is not None
    )


def newest_id(database: Database, session_id: str) -> int:
    """0 when nothing is logged."""
    rows = database.rows("SELECT max(id) FROM messages WHERE session_id = ?", (session_id,))
    return int(rows[0][0] or 0)


# What the conversation of a session is, over a log that only grows.
#
# Without a projection it is all the session's messages. The newest row of `projections` says
# otherwise: first its `basis`, then the session's own messages with an id above `after_id`. A
# basis
# is a list of spans, each a run of messages of some session by first and last id, and of messages
# that exist only here, such as the summary of a compaction. Undo, branch and compaction each write
# one row and delete nothing.


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Messages of `session_id` with first ≤ id ≤ last; no last means up to the newest."""

    session_id: str
    first: int
    last: int | None


Inserted = dict[str, Any]
"""A message that exists only in a projection, by the names of `rows.COLUMNS`."""
Piece = Span | Inserted
Entry = LoggedMessage | Message
"""A message of a conversation; one that is in the log has its number."""


class Projection(msgspec.Struct, frozen=True):
    after_id: int
    basis: list[Span | dict[str, Any]]
    reason: str = "import"


# Only those that came from a session take messages from it.
_TAKERS = """
WITH RECURSIVE family(id) AS (
    SELECT id FROM sessions WHERE parent_session_id = ?
    UNION
    SELECT sessions.id FROM family JOIN sessions ON sessions.parent_session_id = family.id
)
SELECT id, basis FROM projections WHERE id IN (
    SELECT max(id) FROM projections WHERE session_id IN (SELECT id FROM family)
    GROUP BY session_id
)
"""

_CHANGES = """
SELECT projections.reason, projections.session_id FROM projections
JOIN sessions ON sessions.id = projections.session_id
WHERE projections.id > ? AND (sessions.id = ? OR sessions.parent_session_id = ?)
ORDER BY projections.id
"""

_decoder = msgspec.json.Decoder(list[Span | Inserted])


def pieces(database: Database, session_id: str, *, back: int = 0) -> list[Piece]:
    """What the conversation is made of, or was before its last `back` changes. The last piece is
    the span that grows."""
    found = newest(database, session_id, back=back) or Projection(0, [])
    return [*found.basis, Span(session_id, found.after_id + 1, None)]


def newest(database: Database, session_id: str, *, back: int = 0) -> Projection | None:
    rows = database.rows(
        "SELECT after_id, basis, reason FROM projections WHERE session_id = ?"
        " ORDER BY id DESC LIMIT 1 OFFSET ?",
        (session_id, back),
    )
    return Projection(rows[0][0], _decoder.decode(rows[0][1]), rows[0][2]) if rows else None


def newest_change_id(database: Database) -> int:
    """Of the changes of all conversations; 0 when there was none."""
    return int(database.rows("SELECT max(id) FROM projections")[0][0] or 0)


def changes(database: Database, session_id: str, after: int) -> tuple[Change, ...]:
    rows = database.rows(_CHANGES, (after, session_id, session_id))
    return tuple(Change(str(reason), str(made)) for reason, made in rows)


def undone(database: Database, session_id: str) -> tuple[Message, ...]:
    found = newest(database, session_id)
    if found is None or found.reason != "undo":
        return ()
    if newest_id(database, session_id) > found.after_id:
        return ()
    before = [
        entry
        for piece in pieces(database, session_id, back=1)
        for entry in _entries(database, piece)
    ]
    left = len(entries(database, session_id))
    return tuple(_message(entry) for entry in before[left:])


def conversation(database: Database, session_id: str) -> tuple[Message, ...]:
    if newest(database, session_id) is None:
        rows = all_rows(database, session_id)
        if not rows and not sessions.exists(database, session_id):
            raise sessions.not_found(session_id)
        return tuple([message for row in rows if (message := from_row(row[:-1])) is not None])
    return tuple(_message(entry) for entry in entries(database, session_id))


def entries(database: Database, session_id: str) -> tuple[Entry, ...]:
    """Return the conversation like `conversation`, with log ids where a message has one."""
    if not sessions.exists(database, session_id):
        raise sessions.not_found(session_id)
    return tuple(
        [entry for piece in pieces(database, session_id) for entry in _entries(database, piece)]
    )


def write(
    database: Database,
    session_id: str,
    basis: Sequence[Piece],
    reason: str,
    now: float,
    *,
    after_id: int | None = None,
) -> None:
    """From now on the conversation of the session is `basis` and what it logs after `after_id`,
    by default after everything logged so far."""
    after = newest_id(database, session_id) if after_id is None else after_id
    database.change(
        "INSERT INTO projections (session_id, after_id, reason, basis, created_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (session_id, after, reason, encode(basis), now),
    )


def encode(basis: Sequence[Piece]) -> str:
    return msgspec.json.encode(basis).decode()


def beginning(
    database: Database, session_id: str, number: int, *, with_it: bool
) -> list[Piece] | None:
    """The pieces of the conversation before the logged message `number`, or up to and with it;
    None when the conversation has no such message."""
    kept: list[Piece] = []
    for piece in pieces(database, session_id):
        if isinstance(piece, Span):
            rows = span(database, piece.session_id, piece.first, piece.last)
            if any(row[0] == number for row in rows):
                return [*kept, *_closed(piece, number if with_it else number - 1)]
        kept.append(piece)
    return None


def everything(database: Database, session_id: str) -> list[Piece]:
    """The pieces of the conversation as it is now; none of them grows."""
    newest = newest_id(database, session_id)
    *basis, growing = pieces(database, session_id)
    return [*basis, *(_closed(growing, newest) if isinstance(growing, Span) else ())]


def gather(
    database: Database, session_id: str, conversation: Iterable[LoggedMessage | Message]
) -> list[Piece]:
    """The pieces that make up `conversation`, of the messages of a session and of new ones."""
    places = {
        row[0]: (number, position, piece.session_id)
        for number, piece in enumerate(pieces(database, session_id))
        if isinstance(piece, Span)
        for position, row in enumerate(span(database, piece.session_id, piece.first, piece.last))
    }
    made: list[Piece] = []
    last: tuple[int, int] | None = None
    for entry in conversation:
        place = places.get(entry.id) if isinstance(entry, LoggedMessage) else None
        if place is None or not isinstance(entry, LoggedMessage):
            made.append(_inserted(_message(entry)))
            last = None
            continue
        number, position, owner = place
        if last == (number, position - 1) and isinstance(made[-1], Span):
            made[-1] = Span(owner, made[-1].first, entry.id)
        else:
            made.append(Span(owner, entry.id, entry.id))
        last = (number, position)
    return made


def last_turn(entries: Sequence[Entry], turns: int) -> LoggedMessage | None:
    """Where the last `turns` turns begin: at a message of the user that is in the log."""
    asked = [
        entry
        for entry in entries
        if isinstance(entry, LoggedMessage) and isinstance(entry.message, User)
    ]
    return asked[-min(turns, len(asked))] if asked else None


def forget_session(database: Database, session_id: str) -> None:
    """Make every other session independent of the messages of `session_id`, about to go."""
    for number, text in database.rows(_TAKERS, (session_id,)):
        basis = _decoder.decode(text)
        if any(isinstance(piece, Span) and piece.session_id == session_id for piece in basis):
            whole = inline(database, basis, lambda owner: owner == session_id)
            database.change(
                "UPDATE projections SET basis = ? WHERE id = ?", (encode(whole), number)
            )


def inline(
    database: Database, basis: Sequence[Piece], is_foreign: Callable[[str], bool]
) -> list[Piece]:
    """`basis` with the spans of some sessions written out as messages."""
    made: list[Piece] = []
    for piece in basis:
        if isinstance(piece, Span) and is_foreign(piece.session_id):
            made += [_inserted(_message(entry)) for entry in _entries(database, piece)]
        else:
            made.append(piece)
    return made


def _entries(database: Database, piece: Piece) -> Sequence[Entry]:
    if isinstance(piece, Span):
        return logged(span(database, piece.session_id, piece.first, piece.last))
    message = from_row(row_of(piece))
    return () if message is None else (message,)


def _inserted(message: Message) -> Inserted:
    return {name: value for name, value in columns_of(to_row(message)).items() if value}


def _message(entry: Entry) -> Message:
    return entry.message if isinstance(entry, LoggedMessage) else entry


def _closed(span: Span, last: int) -> list[Piece]:
    return [Span(span.session_id, span.first, last)] if last >= span.first else []
