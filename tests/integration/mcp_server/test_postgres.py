"""What the tools return with a store in PostgreSQL."""

from collections.abc import Iterator

import pytest

from hermes.store import SessionStore, open_store
from tests.postgres_server import shared_server
from tests.unit.mcp_server import test_conversations
from tests.unit.mcp_server.test_conversations import home, service

__all__ = ["home", "service"]


@pytest.fixture
def store(tmp_path) -> Iterator[SessionStore]:
    with shared_server().database() as url:
        opened = open_store(url, tmp_path / "unused.db")
        yield opened
        opened.close()


class TestEvents(test_conversations.TestEvents): ...


class TestApprovals(test_conversations.TestApprovals): ...
