"""Our wires, used as the agent uses them: deltas as they arrive, the whole reply at the end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import get_args

from bench.wires_worker import Caller
from hermes.core.messages import User
from hermes.core.model import ApiMode, ModelEvent, ModelRequest, TextDelta
from hermes.providers import Credential, ModelHttpClient, Target, WireModel, make_model_client
from hermes.util.http import LateTls


class Wire:
    def __init__(self, mode: ApiMode, url: str, client: ModelHttpClient) -> None:
        self._mode, self._url, self._client = mode, url, client

    async def call(self, model: str, *, stream: bool) -> str:
        target = Target(
            provider="bench",
            model=model,
            base_url=self._url,
            api_mode=self._mode,
            credentials=(Credential("bench", "k"),),
        )
        asked = ModelRequest((User.say("hi"),), max_tokens=9000, stream=stream)
        texts: list[str] = []

        def emit(event: ModelEvent) -> None:
            if isinstance(event, TextDelta):
                texts.append(event.text)

        reply = await WireModel(target, self._client).call(asked, emit)
        streamed = "".join(texts)
        return streamed if streamed == reply.message.text else reply.message.text


@asynccontextmanager
async def caller(wire: str, url: str) -> AsyncIterator[Caller]:
    mode = next(mode for mode in get_args(ApiMode) if mode == wire)
    client = make_model_client(LateTls())
    yield Wire(mode, f"{url}/v1", client)
    await client.aclose()
