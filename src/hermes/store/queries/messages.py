"""The log of messages, and the conversations that are made of it.

The log only grows. Without a projection, the conversation of a session is all its messages. The
newest row of `projections` changes that: the conversation is its `basis`, followed by the messages
of the session with an id above `after_id`. A basis is a list of spans, each a range of messages of
some session by first and last id, and of messages that exist only there, such as the summary of a
compaction. Undo, branch and compaction each write one row and delete nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from hermes.core.messages import Assistant, Message, User
from hermes.store.engine import Backend, Database, Row
from hermes.store.queries import sessions
from hermes.store.records import Change, LogEntry, LoggedMessage
from hermes.store.rows import COLUMNS, columns_of, from_row, row_of, to_row

INSERTED = ("session_id", "timestamp", "token_count", *COLUMNS)
SMALL = 8000  #: Characters of a message that takes a fraction of a millisecond to store.
NAMES = ", ".join(COLUMNS)
SETTLE_SECONDS = 5.0  #: Seconds in which a transaction that took an id is committed.

_COUNT = """
UPDATE sessions SET
    message_count = coalesce(message_count, 0) + 1,
    tool_call_count = coalesce(tool_call_count, 0) + ?,
    ended_at = NULL, end_reason = NULL
WHERE id = ?
"""
_ALL = f"SELECT {NAMES}, id FROM messages WHERE session_id = ? ORDER BY timestamp, id"
_SINCE = f"""
SELECT session_id, source, messages.id, timestamp, token_count, {NAMES}
FROM messages JOIN sessions ON sessions.id = session_id
WHERE messages.id > ? AND messages.id <= ? AND role IN ('user', 'assistant') ORDER BY messages.id
"""
_LOGGED = f"SELECT id, timestamp, token_count, {NAMES} FROM messages"
# The ids come from an index, so only the rows of the page are read.
_PAGE = f"""
{_LOGGED} WHERE id IN (
    SELECT id FROM messages WHERE session_id = ? AND id >= ? AND id <= ? ORDER BY id %s LIMIT ?
) ORDER BY id
"""
MAX_ID = 2**63 - 1


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
    """Append a row and return its id. A finished session is open again."""
    sessions.change(database, session_id, _COUNT, (calls,))
    return backend.insert_message(database, INSERTED, (session_id, now, token_count, *row))


def calls_in(message: Message) -> int:
    return len(message.calls) if isinstance(message, Assistant) else 0


def is_small(row: Row) -> bool:
    """Return whether storing and indexing the row takes a fraction of a millisecond."""
    return sum(len(text) for text in row if text) <= SMALL


def all_rows(database: Database, session_id: str) -> list[Row]:
    """Return the `COLUMNS` of every message of the session, each row with its id at the end.

    The index yields them by time, which is nearly the order of their ids. Sorting in the database
    would copy every text once more.
    """
    rows = database.rows(_ALL, (session_id,))
    rows.sort(key=itemgetter(-1))
    return rows


def log(database: Database, session_id: str) -> tuple[LoggedMessage, ...]:
    """Return every message ever logged in the session, including undone and compacted ones."""
    rows = database.rows(f"{_LOGGED} WHERE session_id = ? ORDER BY id", (session_id,))
    if not rows and not sessions.exists(database, session_id):
        raise sessions.not_found(session_id)
    return logged(rows)


def span(database: Database, session_id: str, first: int, last: int | None) -> list[Row]:
    """Return id, timestamp, token count and `COLUMNS` of the messages from `first` to `last`."""
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


def newest_id(database: Database, session_id: str = "") -> int:
    """Return the newest message id of a session or, for "", of all; 0 if there is none."""
    only, values = ("WHERE session_id = ?", (session_id,)) if session_id else ("", ())
    return int(database.rows(f"SELECT max(id) FROM messages {only}", values)[0][0] or 0)


def log_since(
    database: Database, after: int, now: float, limit: int = 500
) -> tuple[tuple[LogEntry, ...], int]:
    """Return what users and models said in any session after message id `after`, oldest first, and
    the id to continue after. At most `limit` rows are read, with those of tools."""
    scanned = database.rows(
        "SELECT id, timestamp FROM messages WHERE id > ? ORDER BY id LIMIT ?", (after, limit)
    )
    if not (count := settled(scanned, after, now)):
        return (), after
    last = int(scanned[count - 1][0])
    rows = database.rows(_SINCE, (after, last))
    return tuple(
        LogEntry(str(session), str(source), one)
        for session, source, *row in rows
        for one in logged([tuple(row)])
    ), last


def settled(rows: Sequence[Row], after: int, now: float) -> int:
    """Return how many of these rows (id, time), sorted by id, no row can appear in front of.

    In PostgreSQL, a transaction that took a lower id may be committed later. A missing id is
    waited for as long as a transaction may take; after that, its row was deleted or rolled back.
    """
    for place, (number, moment) in enumerate(rows):
        if number > after + 1 and moment > now - SETTLE_SECONDS:
            return place
        after = number
    return len(rows)


def version(database: Database, session_id: str) -> tuple[int, int]:
    """Return the newest message id and the newest change id of a session, 0 if there is none. Equal
    versions mean that the conversation is the same."""
    [(change,)] = database.rows(
        "SELECT max(id) FROM projections WHERE session_id = ?", (session_id,)
    )
    return newest_id(database, session_id), int(change or 0)


# Projections


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Messages of `session_id` with first ≤ id ≤ last; without `last`, up to the newest."""

    session_id: str
    first: int
    last: int | None


Inserted = dict[str, Any]
"""A message that exists only in a projection; its keys are `rows.COLUMNS`."""
Piece = Span | Inserted
Entry = LoggedMessage | Message
"""A message of a conversation, with its log id if it is in the log."""


class Projection(msgspec.Struct, frozen=True):
    after_id: int
    basis: list[Span | dict[str, Any]]
    reason: str = "import"


# Only descendants of a session refer to its messages.
_REFERRING = """
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
    """Return the pieces of the conversation, as it was before its last `back` changes. The last
    piece is the open span."""
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
    """Return the id of the newest change of any conversation, 0 if there is none."""
    return int(database.rows("SELECT max(id) FROM projections")[0][0] or 0)


def changes(database: Database, session_id: str, after: int) -> tuple[Change, ...]:
    """Return the changes of the conversation since change id `after`, oldest first (see
    `InboxRow.log_after`)."""
    rows = database.rows(_CHANGES, (after, session_id, session_id))
    return tuple(Change(str(reason), str(made)) for reason, made in rows)


def undone(database: Database, session_id: str) -> tuple[Message, ...]:
    """Return what the newest undo took out of the conversation; nothing once the conversation has
    continued or changed otherwise."""
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
    """Return the logged messages without those that were undone or compacted."""
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


def page(
    database: Database,
    session_id: str,
    limit: int,
    *,
    before: int | None = None,
    after: int | None = None,
) -> tuple[Entry, ...]:
    """Return at most `limit` logged messages of the conversation, oldest first: the last ones,
    those before a message id, or those after one. The messages that are not in the log are among
    the last ones and those before an id."""
    if not sessions.exists(database, session_id):
        raise sessions.not_found(session_id)
    whole, parts = pieces(database, session_id), list[Sequence[Entry]]()
    lowest, highest = (after or 0) + 1, MAX_ID if before is None else before - 1
    owner = database.rows("SELECT session_id FROM messages WHERE id = ?", (before or 0,))
    is_reached = before is None
    for piece in reversed(whole) if after is None else whole:
        if limit <= 0:
            break
        if isinstance(piece, Span):
            last = piece.last or MAX_ID
            order = "DESC" if after is None else "ASC"
            values = (piece.session_id, max(piece.first, lowest), min(last, highest), limit)
            rows = database.rows(_PAGE % order, values)
            parts.append(logged(rows))
            limit -= len(rows)
            ends_here = piece.first <= (before or 0) <= last and owner == [(piece.session_id,)]
            is_reached = is_reached or bool(rows) or ends_here
        elif after is None and is_reached:
            parts.append(_entries(database, piece))
    return tuple(entry for part in (parts[::-1] if after is None else parts) for entry in part)


def write(
    database: Database,
    session_id: str,
    basis: Sequence[Piece],
    reason: str,
    now: float,
    *,
    after_id: int | None = None,
) -> None:
    """Make the conversation of the session `basis` plus the messages after `after_id`, which is by
    default the newest one."""
    after = newest_id(database, session_id) if after_id is None else after_id
    database.change(
        "INSERT INTO projections (session_id, after_id, reason, basis, created_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (session_id, after, reason, encode(basis), now),
    )


def encode(basis: Sequence[Piece]) -> str:
    return msgspec.json.encode(basis).decode()


def pieces_until(
    database: Database, session_id: str, number: int, *, inclusive: bool
) -> list[Piece] | None:
    """Return the pieces of the conversation before the logged message `number`, or up to and
    including it. Return None if the conversation does not have the message."""
    before: list[Piece] = []
    for piece in pieces(database, session_id):
        if isinstance(piece, Span):
            rows = span(database, piece.session_id, piece.first, piece.last)
            if any(row[0] == number for row in rows):
                return [*before, *_closed(piece, number if inclusive else number - 1)]
        before.append(piece)
    return None


def all_pieces(database: Database, session_id: str) -> list[Piece]:
    """Return the pieces of the conversation as it is now, without an open span."""
    newest = newest_id(database, session_id)
    *basis, open_span = pieces(database, session_id)
    return [*basis, *(_closed(open_span, newest) if isinstance(open_span, Span) else ())]


def pieces_of(
    database: Database, session_id: str, conversation: Iterable[LoggedMessage | Message]
) -> list[Piece]:
    """Return the pieces of `conversation`: spans of logged messages, and new messages."""
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


def start_of_last_turns(entries: Sequence[Entry], turns: int) -> LoggedMessage | None:
    """Return the logged user message that begins the last `turns` turns."""
    questions = [
        entry
        for entry in entries
        if isinstance(entry, LoggedMessage) and isinstance(entry.message, User)
    ]
    return questions[-min(turns, len(questions))] if questions else None


def inline_session(database: Database, session_id: str) -> None:
    """Copy the messages of `session_id` into the projections that refer to it, so that it can be
    deleted."""
    for number, text in database.rows(_REFERRING, (session_id,)):
        basis = _decoder.decode(text)
        if any(isinstance(piece, Span) and piece.session_id == session_id for piece in basis):
            whole = inline(database, basis, lambda owner: owner == session_id)
            database.change(
                "UPDATE projections SET basis = ? WHERE id = ?", (encode(whole), number)
            )


def inline(
    database: Database, basis: Sequence[Piece], is_replaced: Callable[[str], bool]
) -> list[Piece]:
    """Return `basis` with the spans of some sessions replaced by their messages."""
    made: list[Piece] = []
    for piece in basis:
        if isinstance(piece, Span) and is_replaced(piece.session_id):
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
