"""The harness of the chats, whose gateway has others do the work."""

from tests.integration.gateway.chats.conftest import harness

__all__ = ["harness"]
