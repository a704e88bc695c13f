"""The HTTP client below all the others; it reads the same bytes without parsing them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from bench.wires_worker import Caller

PATHS = {
    "chat_completions": "/v1/chat/completions",
    "anthropic_messages": "/v1/messages",
    "codex_responses": "/v1/responses",
}


class Bytes:
    def __init__(self, address: str, client: httpx2.AsyncClient) -> None:
        self._address, self._client = address, client

    async def call(self, model: str, *, stream: bool) -> str:
        size, expected = 0, 8 * int(model.split("-")[1])
        body = {"model": model, "stream": stream}
        async with self._client.stream("POST", self._address, json=body) as response:
            async for data in response.aiter_raw():
                size += len(data)
        if size < expected:
            raise SystemExit(f"{size} bytes cannot hold {expected} characters")
        return " " * expected


@asynccontextmanager
async def caller(wire: str, url: str) -> AsyncIterator[Caller]:
    async with httpx2.AsyncClient() as client:
        yield Bytes(url + PATHS[wire], client)
