"""Which table a row can belong to, told by the number and types of its values."""

import math
import re
from collections.abc import Callable
from functools import cached_property
from typing import get_args

import apsw
import msgspec

from hermes.store import tables
from hermes.store.claims import RunState
from hermes.store.mail import InState, OutState
from hermes.store.sqlite.additions import ADDITIONS
from hermes.store.sqlite.migrations import MIGRATIONS
from hermes.store.sqlite.salvage.btree import Cell
from hermes.store.sqlite.salvage.records import Value

NUMBERED = (
    "messages",
    "projections",
    "model_calls",
    *(table.name for table in tables.TABLES if not table.key),
)
"""Tables whose rows have a number, `id`."""
TABLES = ("sessions", *NUMBERED, *(table.name for table in tables.TABLES if table.key))
SEQUENCES = "sqlite_sequence"
"""SQLite's own table of the highest id ever given in a table."""

LARGEST_ID = 2**53
_LATEST = 1e11
LOST = "\n\n[The rest of this message was lost when the session store was damaged.]"

_ANY = (int, float, str, bytes)
_TYPES: dict[str, tuple[type, ...]] = {
    "KEY": (),
    "TEXT": (str,),
    "INTEGER": (int, float),
    "REAL": (int, float),
    "": _ANY,
}
_CHECKS: dict[tuple[str, str], Callable[[Value], bool]] = {
    ("messages", "role"): lambda role: bool(re.fullmatch("[a-z_]{1,30}", str(role))),
    ("messages", "session_id"): bool,
    ("sessions", "id"): bool,
    ("inbox", "state"): lambda state: state in get_args(InState),
    ("outbox", "state"): lambda state: state in get_args(OutState),
    ("cron_runs", "state"): lambda state: state in get_args(RunState),
    (SEQUENCES, "name"): lambda name: name in TABLES,
    (SEQUENCES, "seq"): lambda seq: isinstance(seq, int) and 0 <= seq < LARGEST_ID,
}


class Column(msgspec.Struct, frozen=True):
    name: str
    """Empty for a column that the current store does not have."""
    kind: str = ""
    """Its type; KEY is the row id under another name, which the record does not hold."""
    is_required: bool = False

    def accepts(self, table: str, value: Value) -> bool:
        if value is None:
            return self.kind == "KEY" or not self.is_required
        if not isinstance(value, _TYPES.get(self.kind, _ANY)):
            return False
        if self.kind == "REAL" and self.is_required and not _is_plausible(value):
            return False
        test = _CHECKS.get((table, self.name))
        return test is None or test(value)


class Row(msgspec.Struct, frozen=True):
    table: str
    rowid: int
    values: dict[str, Value]
    """By column, without those that are NULL or were added after the row was written."""
    is_cut: bool = False
    """A message of which only the beginning is left. When it was sent is not known."""


class Shape(msgspec.Struct, frozen=True, dict=True):
    """A table with its columns in the order of its records."""

    table: str
    columns: tuple[Column, ...]

    def row(self, cell: Cell) -> Row | None:
        """The row in `cell`, or None when it is no whole row of this table.

        A row that is cut off is good for nothing, unless it is a message and cut in its text.
        """
        values, is_cut = cell.record.values, cell.record.is_cut
        if is_cut and not self._is_text_cut(len(values)):
            return None
        if not self._is_right_length(len(values)) and not is_cut:
            return None
        if self.columns[0].kind == "KEY" and not 0 < cell.rowid < LARGEST_ID:
            return None
        pairs = list(zip(self.columns, values, strict=False))
        if not all(column.accepts(self.table, value) for column, value in pairs):
            return None
        kept: dict[str, Value] = {
            column.name: value for column, value in pairs if column.name and value is not None
        }
        if is_cut:
            kept["content"] = str(kept.get("content", "")) + LOST
        return Row(self.table, cell.rowid, kept, is_cut)

    def _is_text_cut(self, length: int) -> bool:
        return (
            self.table == "messages"
            and length <= len(self.columns)
            and self.columns[length - 1].name == "content"
        )

    def _is_right_length(self, length: int) -> bool:
        """Columns may be missing at the end only: those added after the row was written."""
        return self._least <= length <= len(self.columns)

    @cached_property
    def _least(self) -> int:
        return max(n for n, column in enumerate(self.columns, 1) if column.is_required)


def shapes_of(store: apsw.Connection) -> dict[str, list[Shape]]:
    """The shapes of every table that is brought back, from the current `store`: its own and that
    of a table which got its later columns one migration after the other."""
    found = {table: _shapes(store, table) for table in TABLES}
    columns = (Column("name", "TEXT", is_required=True), Column("seq", "INTEGER", is_required=True))
    return found | {SEQUENCES: [Shape(SEQUENCES, columns)]}


def known_shape(shapes: list[Shape], names: tuple[str, ...]) -> Shape | None:
    """A table with the columns `names` in this order; None when a required one is not there."""
    columns = {column.name: column for column in shapes[0].columns}
    required = {name for name, column in columns.items() if column.is_required}
    if not required <= set(names):
        return None
    return Shape(shapes[0].table, tuple(columns.get(name, Column("")) for name in names))


def _shapes(store: apsw.Connection, table: str) -> list[Shape]:
    declared = [
        Column(name, "KEY" if is_key and kind == "INTEGER" else kind, bool(not_null or is_key))
        for _, name, kind, not_null, _, is_key in store.execute(f"PRAGMA table_info({table})")
    ]
    changes = [change for change in (*MIGRATIONS, *ADDITIONS) if change.table == table]
    later = [name for change in changes for name, _ in change.columns]
    migrated = sorted(declared, key=lambda c: later.index(c.name) if c.name in later else -1)
    return [Shape(table, tuple(declared)), Shape(table, tuple(migrated))]


def _is_plausible(moment: Value) -> bool:
    return isinstance(moment, int | float) and math.isfinite(moment) and 0 <= moment < _LATEST
