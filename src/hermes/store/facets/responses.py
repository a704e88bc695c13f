"""Answers of the API server that may be asked for again."""

from functools import partial

from hermes.store.facets.access import Access
from hermes.store.queries import responses
from hermes.store.responses import StoredResponse


class Responses(Access):
    """`responses.Responses`."""

    async def save_response(self, response: StoredResponse, now: float) -> None:
        await self.write(partial(responses.save, response=response, now=now))

    async def response(self, response_id: str, now: float) -> StoredResponse | None:
        return await self.write(partial(responses.get, response_id=response_id, now=now))

    async def last_response(self, conversation: str, now: float) -> StoredResponse | None:
        return await self.write(partial(responses.last, conversation=conversation, now=now))

    async def drop_response(self, response_id: str) -> bool:
        return await self.write(partial(responses.drop, response_id=response_id))
