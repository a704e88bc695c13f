"""A database for each test, and the way the store's engine uses a backend."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hermes.store.postgres.backend import PostgresBackend
from hermes.store.postgres.connection import PostgresDatabase
from tests.postgres_server import PostgresServer, shared_server

COLUMNS = ("session_id", "role", "content", "timestamp")


class Client:
    """Writes as the engine does: patiently, and on a new connection when the old one is lost."""

    def __init__(self, url: str) -> None:
        self.backend = PostgresBackend(url)
        self.runs = 0
        self._database: PostgresDatabase | None = None

    @property
    def database(self) -> PostgresDatabase:
        if self._database is None or self.backend.is_stale(self._database):
            self._database = self.backend.connect()
        return self._database

    def write(self, work: Callable[[PostgresDatabase], Any]) -> Any:
        return self.backend.with_retries(lambda: self._transaction(work))

    def say(self, content: str, role: str = "user", session: str = "s", at: float = 1.0) -> int:
        return int(self.write(lambda database: self.insert(database, content, role, session, at)))

    def insert(
        self, database: PostgresDatabase, content: str, role: str, session: str, at: float
    ) -> int:
        database.change(
            "INSERT INTO sessions (id, source, started_at) VALUES (?, ?, ?)"
            " ON CONFLICT (id) DO NOTHING",
            (session, "cli", at),
        )
        return self.backend.insert_message(database, COLUMNS, (session, role, content, at))

    def contents(self) -> list[str]:
        return [row[0] for row in self.database.rows("SELECT content FROM messages ORDER BY id")]

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def _transaction(self, work: Callable[[PostgresDatabase], Any]) -> Any:
        database = self.database
        self.runs += 1
        with self.backend.transaction(database):
            return work(database)


@pytest.fixture
def server() -> PostgresServer:
    return shared_server()


@pytest.fixture
def url(server: PostgresServer) -> Iterator[str]:
    with server.database() as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    made = Client(url)
    yield made
    made.close()
