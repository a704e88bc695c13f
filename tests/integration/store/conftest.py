"""A store of each kind: everything in `test_behaviour_*` holds for both."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hermes.core.messages import Assistant, Message, Text, User
from hermes.store.engine import Row
from hermes.store.session_store import SessionStore, open_engine, open_store
from tests.postgres_server import shared_server


class Place(NamedTuple):
    """Where a store is; it can be opened any number of times."""

    url: str
    path: Path

    def open(self) -> SessionStore:
        return open_store(self.url, self.path)

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """What another program would read there."""
        return self._run(lambda database: database.rows(statement, values))

    def change(self, statement: str, *values: Any) -> None:
        """What another program, or an older version, might have written there."""
        self._run(lambda database: database.change(statement, values))

    def _run(self, work: Callable[[Any], Any]) -> Any:
        engine = open_engine(self.url, self.path)
        try:
            return engine.write(work).result()
        finally:
            engine.close()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with shared_server().database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty store. A database takes long to make, so one is emptied again and again."""
    path = tmp_path / "state.db"
    if request.param == "sqlite":
        return Place("", path)
    place = Place(request.getfixturevalue("postgres_url"), path)
    tables = place.rows(
        "SELECT tablename FROM pg_tables"
        " WHERE schemaname = 'public' AND tablename NOT LIKE '%version'"
    )
    place.change(f"TRUNCATE {', '.join(str(row[0]) for row in tables)} CASCADE")
    return place


@pytest.fixture
def store(place: Place) -> Iterator[SessionStore]:
    opened = place.open()
    yield opened
    opened.close()


async def start(store: SessionStore, session: str = "s", *said: str, **options: Any) -> list[int]:
    """A session in which the user and the model took turns saying `said`; the numbers."""
    facts = {"source": "cli", "model": "m", "system_prompt": "Be kind.", **options}
    await store.create(session, **facts)
    return await say(store, session, *said)


async def say(store: SessionStore, session: str, *said: str) -> list[int]:
    return [
        await store.append(session, reply(text) if number % 2 else User.say(text))
        for number, text in enumerate(said)
    ]


def reply(text: str) -> Assistant:
    return Assistant((Text(text),))


def text_of(message: Message) -> str:
    return message.text


async def texts(store: SessionStore, session: str = "s") -> list[str]:
    """The conversation, by what was said."""
    return [text_of(message) for message in await store.messages(session)]


async def logged(store: SessionStore, session: str = "s") -> list[str]:
    """The whole log, by what was said."""
    return [text_of(entry.message) for entry in await store.log(session)]
