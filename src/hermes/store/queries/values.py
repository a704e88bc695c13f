"""Structs in and out of tables that have a column for each field, under the same name."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from hermes.store.sql import Row
from hermes.util.text import clean

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
