"""Approvals that a gateway asks for, visible to other processes, which may answer them.

Rows are only added: one when the gateway asks, one when another process answers, and one when the
gateway says what became of it. The unique index on token and kind makes each of them happen once.
"""

from hermes.store.engine import Database
from hermes.store.queries.messages import settled
from hermes.store.records import ApprovalRow
from hermes.store.rows import StructColumns, to_columns

_COLUMNS = StructColumns(ApprovalRow)
_SELECT = f"SELECT {_COLUMNS.names} FROM approvals"
_INSERT = """
INSERT INTO approvals (token, kind, body, owner, created_at, valid_until) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (token, kind) DO NOTHING
"""
_UNRESOLVED = """
kind = 'asked' AND NOT EXISTS (
    SELECT 1 FROM approvals AS later WHERE later.token = approvals.token
    AND later.kind = 'resolved'
)
"""


def ask(
    database: Database, token: str, body: bytes, owner: str, *, now: float, until: float
) -> None:
    """Store a question, which is open until then, or until it is resolved."""
    database.change(_INSERT, to_columns(token, "asked", body, owner, now, until))


def renew(database: Database, token: str, until: float) -> None:
    database.change(
        "UPDATE approvals SET valid_until = ? WHERE token = ? AND kind = 'asked'",
        to_columns(until, token),
    )


def answer(database: Database, token: str, body: bytes, owner: str, now: float) -> bool:
    """Store an answer for the process that asks. Return False if the question is not open, or was
    answered before."""
    which = f"{_SELECT} WHERE token = ? AND valid_until > ? AND {_UNRESOLVED}"
    if not database.rows(which, to_columns(token, now)):
        return False
    return bool(database.change(_INSERT, to_columns(token, "answer", body, owner, now, 0.0)))


def resolve(database: Database, token: str, body: bytes, owner: str, now: float) -> bool:
    """Store what became of a question. Return False if that is known already."""
    return bool(database.change(_INSERT, to_columns(token, "resolved", body, owner, now, 0.0)))


def unresolved(database: Database) -> tuple[ApprovalRow, ...]:
    """Return the questions that are not resolved, oldest first; also those whose time is over."""
    return _COLUMNS.read_all(database.rows(f"{_SELECT} WHERE {_UNRESOLVED} ORDER BY id"))


def get(database: Database, token: str) -> dict[str, ApprovalRow]:
    """Return what is stored of an approval, by kind."""
    rows = database.rows(f"{_SELECT} WHERE token = ?", to_columns(token))
    return {row.kind: row for row in _COLUMNS.read_all(rows)}


def since(database: Database, after: int, now: float, limit: int = 100) -> tuple[ApprovalRow, ...]:
    """Return the rows of every kind with an id above `after`, oldest first (see `settled`)."""
    rows = database.rows(f"{_SELECT} WHERE id > ? ORDER BY id LIMIT ?", (after, limit))
    found = _COLUMNS.read_all(rows)
    return found[: settled([(row.id, row.created_at) for row in found], after, now)]


def newest_id(database: Database) -> int:
    return int(database.rows("SELECT max(id) FROM approvals")[0][0] or 0)


def clean(database: Database, before: float) -> int:
    """Delete approvals that were asked before then and return the number of rows."""
    return database.change("DELETE FROM approvals WHERE created_at < ?", (before,))
