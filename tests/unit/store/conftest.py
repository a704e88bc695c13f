from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.store.session_store import SessionStore, open_store
from tests.unit.store.library import Library


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    """An empty store in a file."""
    opened = open_store("", tmp_path / "state.db")
    yield opened
    opened.close()


@pytest.fixture
def library() -> Iterator[Library]:
    library = Library()
    yield library
    library.close()
