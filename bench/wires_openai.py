"""The official openai client, used in its cheapest way: as a raw stream."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import openai

from bench.wires_worker import Caller


class Chat:
    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._create = client.chat.completions.create

    async def call(self, model: str, *, stream: bool) -> str:
        if not stream:
            reply = await self._create(model=model, messages=[{"role": "user", "content": "hi"}])
            return reply.choices[0].message.content or ""
        chunks = await self._create(
            model=model,
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        return "".join(
            [
                text
                async for chunk in chunks
                if chunk.choices and (text := chunk.choices[0].delta.content)
            ]
        )


class Responses:
    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._create = client.responses.create

    async def call(self, model: str, *, stream: bool) -> str:
        if not stream:
            return (await self._create(model=model, input="hi")).output_text
        events = await self._create(model=model, input="hi", stream=True)
        return "".join(
            [event.delta async for event in events if event.type == "response.output_text.delta"]
        )


@asynccontextmanager
async def caller(wire: str, url: str) -> AsyncIterator[Caller]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        yield Chat(client) if wire == "chat_completions" else Responses(client)
