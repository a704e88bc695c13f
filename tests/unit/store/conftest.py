from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.store.opening import open_store
from hermes.store.port import SessionStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    """An empty store in a file."""
    opened = open_store("", tmp_path / "state.db")
    yield opened
    opened.close()
