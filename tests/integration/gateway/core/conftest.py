"""The harness of the chats, for what happens inside the gateway."""

import pytest

from tests.integration.gateway.chats.conftest import harness

__all__ = ["harness"]


@pytest.fixture
def picture(tmp_path):
    made = tmp_path / "cat.png"
    made.write_bytes(bytes.fromhex("89504e470d0a1a0a") + b"\0" * 32)
    return made
