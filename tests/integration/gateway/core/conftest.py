"""The town of the chats, for what happens inside the gateway."""

from tests.integration.gateway.chats.conftest import echoing, town

__all__ = ["echoing", "town"]
