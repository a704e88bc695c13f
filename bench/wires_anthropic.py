"""The official anthropic client, used in its cheapest way: as a raw stream."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anthropic

from bench.wires_worker import Caller


class Messages:
    def __init__(self, client: anthropic.AsyncAnthropic) -> None:
        self._create = client.messages.create

    async def call(self, model: str, *, stream: bool) -> str:
        if not stream:
            reply = await self._create(
                model=model, max_tokens=9000, messages=[{"role": "user", "content": "hi"}]
            )
            return "".join([block.text for block in reply.content if block.type == "text"])
        events = await self._create(
            model=model, max_tokens=9000, messages=[{"role": "user", "content": "hi"}], stream=True
        )
        return "".join(
            [
                event.delta.text
                async for event in events
                if event.type == "content_block_delta" and event.delta.type == "text_delta"
            ]
        )


@asynccontextmanager
async def caller(_wire: str, url: str) -> AsyncIterator[Caller]:
    async with anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as client:
        yield Messages(client)
