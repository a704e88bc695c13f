"""The town of the chats, whose gateway has others do the work."""

from tests.integration.gateway.chats.conftest import town

__all__ = ["town"]
