"""The stored facts of one user, row by row."""

import time
from collections.abc import Callable
from typing import Any

import apsw

from hermes.memory.holographic.claims import Claim, claim_in
from hermes.memory.holographic.entities import entities
from hermes.memory.holographic.fact import COLUMNS, Fact
from hermes.memory.holographic.vectors import Embedder, unit
from hermes.memory.holographic.words import folded
from hermes.store.sqlite.faults import patiently

Rows = list[tuple[Any, ...]]


class Table:
    """`user` is empty for the owner. `now` tells the time in seconds."""

    def __init__(
        self,
        connection: apsw.Connection,
        user: str,
        *,
        embedder: Embedder | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.connection, self.user, self.embedder, self.now = connection, user, embedder, now

    def get(self, fact_id: int) -> Fact | None:
        return next(iter(self.where("facts.id = ?", fact_id)), None)

    def sure(self, fact_id: int) -> Fact:
        """A fact that is known to be there."""
        fact = self.get(fact_id)
        if fact is None:
            raise LookupError(f"fact {fact_id} is gone")
        return fact

    def same(self, text: str) -> Fact | None:
        """The fact with the same words."""
        return next(iter(self.where("terms = ?", folded(text))), None)

    def claimed(self, claim: Claim | None, *, same: bool) -> list[Fact]:
        """The facts that claim the same, or another value of the same attribute."""
        if claim is None:
            return []
        return self.where(
            f"subject = ? AND attribute = ? AND value {'=' if same else '<>'} ?",
            claim.subject,
            claim.attribute,
            claim.value,
        )

    def newest(self, limit: int) -> list[Fact]:
        return self.where("1 ORDER BY max(confirmed, used) DESC, facts.id DESC LIMIT ?", limit)

    def where(self, condition: str, *values: object) -> list[Fact]:
        rows = self.query(
            f"SELECT {COLUMNS} FROM facts WHERE user = ? AND {condition}", self.user, *values
        )
        return [Fact(*row) for row in rows]

    def count(self) -> int:
        return int(self.query("SELECT count(*) FROM facts WHERE user = ?", self.user)[0][0])

    def insert(self, text: str, source: str, session: str, trust: float) -> int:
        now = self.now()
        self.query(
            "INSERT INTO facts"
            " (user, text, terms, source, session, trust, created, confirmed, used)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(self.user, text, folded(text), source, session, trust, now, now, now),
        )
        fact_id = self.connection.last_insert_rowid()
        self._describe(fact_id, text)
        return fact_id

    def rewrite(self, fact_id: int, text: str) -> None:
        self.change(fact_id, text=text, terms=folded(text))
        self._describe(fact_id, text)

    def change(self, fact_id: int, **columns: object) -> None:
        named = ", ".join(f"{name} = ?" for name in columns)
        self.query(f"UPDATE facts SET {named} WHERE id = ?", *columns.values(), fact_id)

    def remove(self, fact_id: int) -> bool:
        found = self.get(fact_id) is not None
        if found:
            self.query("DELETE FROM facts WHERE id = ?", fact_id)
        return found

    def fill_vectors(self, limit: int = 500) -> int:
        """Give facts a vector that were added without, newest first; how many."""
        if self.embedder is None:
            return 0
        rows = self.query(
            "SELECT id, text FROM facts WHERE user = ? AND id NOT IN"
            " (SELECT fact FROM vectors WHERE model = ?) ORDER BY id DESC LIMIT ?",
            *(self.user, self.embedder.name, limit),
        )
        for fact_id, text in rows:
            self._give_vector(fact_id, text)
        return len(rows)

    def query(self, statement: str, *values: object) -> Rows:
        """All rows of one statement; waits while another process writes."""
        found: Rows = patiently(lambda: self.connection.execute(statement, values).fetchall())
        return found

    def _describe(self, fact_id: int, text: str) -> None:
        """What is derived from the text: its claim, its links, its vector."""
        claim = claim_in(text) or Claim("", "", "")
        self.change(fact_id, subject=claim.subject, attribute=claim.attribute, value=claim.value)
        self.query("DELETE FROM links WHERE fact = ?", fact_id)
        for entity in entities(text):
            self.query("INSERT OR IGNORE INTO links VALUES (?, ?)", fact_id, folded(entity))
        self._give_vector(fact_id, text)

    def _give_vector(self, fact_id: int, text: str) -> None:
        self.query("DELETE FROM vectors WHERE fact = ?", fact_id)
        vector = unit(self.embedder.embed(text)) if self.embedder else b""
        if self.embedder and vector:
            name = self.embedder.name
            self.query("INSERT INTO vectors VALUES (?, ?, ?)", fact_id, name, vector)
