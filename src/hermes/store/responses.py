"""Answers of the API server that may be asked for again, and requests that must not run twice."""

from typing import Protocol

import msgspec

MOST_RESPONSES = 100


class StoredResponse(msgspec.Struct, frozen=True):
    id: str
    body: bytes
    """The answer as it was given, JSON."""
    session_id: str
    conversation: str = ""
    previous_id: str = ""
    created_at: float = 0.0


class Responses(Protocol):
    async def save_response(self, response: StoredResponse, now: float) -> None:
        """Keep it, also in the place of one with its id; the ones used longest ago beyond
        `MOST_RESPONSES` are forgotten."""
        ...

    async def response(self, response_id: str, now: float) -> StoredResponse | None:
        """It counts as used now."""
        ...

    async def last_response(self, conversation: str, now: float) -> StoredResponse | None:
        """The newest of a named conversation; it counts as used now."""
        ...

    async def drop_response(self, response_id: str) -> bool: ...
