"""The facts of a session, opened when they are first needed and again when the file changed."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from hermes.memory.holographic.database import DAMAGED, open_facts, unusable
from hermes.memory.holographic.facts import Facts
from hermes.memory.holographic.table import Table

T = TypeVar("T")


class Opened:
    """`table` makes the table of the user over a connection."""

    def __init__(
        self, path: Path, table: Callable[[apsw.Connection], Table], tell: Callable[[str], None]
    ) -> None:
        self.path = path
        self._table, self._tell = table, tell
        self._facts: Facts | None = None
        self._inode = 0

    @property
    def exists(self) -> bool:
        """Whether anything was ever stored; looking makes no file."""
        return self.path.exists()

    def use(self, work: Callable[[Facts], T]) -> T:
        """What `work` returns. A file that turns out to be damaged is replaced, and the work done
        again. Raises `StoreError`."""
        try:
            return work(self._current())
        except DAMAGED:
            self.close()
        except apsw.Error as error:
            raise unusable(self.path, error) from error
        try:
            return work(self._current())
        except apsw.Error as error:
            raise unusable(self.path, error) from error

    def close(self) -> None:
        if self._facts is not None:
            self._facts.table.connection.close()
            self._facts = None

    def _current(self) -> Facts:
        """Another process may have set the file aside, a person may have deleted it."""
        if self._facts is not None and not self._is_same_file():
            self.close()
        if self._facts is None:
            table = self._table(open_facts(self.path, self._tell))
            self._inode = self.path.stat().st_ino
            self._facts = Facts(table)
            table.fill_vectors()
        return self._facts

    def _is_same_file(self) -> bool:
        try:
            return self.path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False
