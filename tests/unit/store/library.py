"""A real SQLite store of messages to search in."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from hermes.store.records import Candidate, SearchHit, SearchRequest
from hermes.store.search import Query, parse_query, search
from hermes.store.sqlite import schema
from hermes.store.sqlite.search import find, vocabulary

NOW = 1_000_000.0
CORPUS = tomllib.loads(Path(__file__).with_name("search_corpus.toml").read_text("utf-8"))


class Library:
    """Both the database and the backend, as far as searching needs them."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        self.statements: list[str] = []
        schema.migrate(self.connection)
        self.session("s")

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self.statements.append(statement)
        return self.connection.execute(statement, tuple(values)).fetchall()

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        self.connection.execute(statement, tuple(values))
        return self.connection.changes()

    def close(self) -> None:
        self.connection.close()

    def find(self, database: Any, query: Query, request: SearchRequest) -> list[Candidate]:
        return find(database, query, request)

    def vocabulary(self, database: Any, word: str, *, typos: bool) -> list[str]:
        return vocabulary(database, word, typos=typos)

    def session(self, name: str, *, source: str = "cli", title: str | None = None) -> None:
        self.change(
            "INSERT INTO sessions (id, source, model, started_at, title) VALUES (?, ?, ?, ?, ?)",
            (name, source, "m", 5.0, title),
        )

    def say(
        self, content: str | None, *, role: str = "user", session: str = "s", at: float = NOW
    ) -> int:
        self.change(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, ?, ?, ?)",
            (session, role, content, at),
        )
        return self.connection.last_insert_rowid()

    def ids(self, query: str, **filters: Any) -> set[int]:
        """What the database finds, before ranking and paging."""
        found = find(self, parse_query(query), SearchRequest(query, **filters))
        assert len({candidate[0] for candidate in found}) == len(found), "a message is found once"
        return {candidate[0] for candidate in found}

    def texts(self, query: str, **filters: Any) -> set[str]:
        ids = self.ids(query, **filters)
        return {text for id_, text in self.rows("SELECT id, content FROM messages") if id_ in ids}

    def search(self, query: str, *, now: float = NOW, **request: Any) -> tuple[SearchHit, ...]:
        return search(self, self, SearchRequest(query, **request), now)  # type: ignore[arg-type]
