"""The chat-completions wire: one call, streamed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any

import httpx2
import msgspec

from hermes.core.errors import ReplyInvalid
from hermes.core.messages import Message
from hermes.core.model import ModelEvent, ModelRequest, ToolSpec
from hermes.providers.resolver import Target
from hermes.providers.wire.chat_form import ChatForm
from hermes.providers.wire.chat_reply import Chunk, ReplyBuilder, WholeReply
from hermes.providers.wire.failures import refused, unreachable
from hermes.providers.wire.sse import ServerEvent, server_events

CONNECT_SECONDS = 10.0
DRAIN_SECONDS = 0.2
STALE_SECONDS = 180.0
"""No byte for this long means the stream has stalled."""


class ChatCompletions:
    """A `Model` behind an OpenAI-compatible endpoint. The client is shared and kept open."""

    def __init__(
        self, target: Target, client: httpx2.AsyncClient, *, stale_seconds: float = STALE_SECONDS
    ) -> None:
        self._target, self._client = target, client
        self._url = f"{target.base_url}/chat/completions"
        self._timeout = httpx2.Timeout(stale_seconds, connect=CONNECT_SECONDS)
        self._form = ChatForm(target.profile.developer_role, target.profile.thinking_field)
        self._headers = {"content-type": "application/json", "accept": "text/event-stream"}
        if not target.profile.keep_alive:
            self._headers["connection"] = "close"
        if target.api_key:
            self._headers["authorization"] = f"Bearer {target.api_key}"

    @property
    def name(self) -> str:
        return self._target.model

    @property
    def provider(self) -> str:
        return self._target.provider

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            async with self._client.stream(
                "POST",
                self._url,
                content=self.body(request),
                headers=self._headers,
                timeout=self._timeout,
            ) as response:
                if response.status_code >= 400:
                    body = await response.aread()
                    raise refused(response.status_code, response.headers, body, self.provider)
                async for event in self._read(response):
                    yield event
        except httpx2.HTTPError as error:
            raise unreachable(error, self._url, self.provider) from error

    def body(self, request: ModelRequest) -> bytes:
        """The request as bytes: messages carry their own encoded form, so only new ones cost."""
        body: dict[str, Any] = {
            "model": self._target.model,
            "messages": [self._encoded(message) for message in request.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._target.profile.extra_body,
        }
        if request.tools:
            body["tools"] = [_tool(spec) for spec in request.tools]
        if request.max_tokens is not None:
            body["max_tokens"] = request.max_tokens
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.reasoning_effort:
            body["reasoning_effort"] = request.reasoning_effort
        if request.reply_schema is not None:
            schema = {"name": "reply", "strict": True, "schema": request.reply_schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return msgspec.json.encode(body)

    def _encoded(self, message: Message) -> msgspec.Raw:
        return message.wire(self._form)

    async def _read(self, response: httpx2.Response) -> AsyncIterator[ModelEvent]:
        builder = ReplyBuilder(self.provider)
        if response.headers.get("content-type", "").startswith("application/json"):
            builder.take_whole(self._decode(_whole_decoder, await response.aread()))
        else:
            events = server_events(response.aiter_bytes())
            async for event in events:
                if event.data == b"[DONE]":
                    await _drain(events)
                    break
                for delta in builder.take(self._decode(_chunk_decoder, event.data)):
                    yield delta
        yield builder.reply()

    def _decode(self, decoder: "msgspec.json.Decoder[Any]", data: bytes) -> Any:
        try:
            return decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            start = data[:80].decode("utf-8", "replace")
            raise ReplyInvalid(
                f"{self.provider} sent a reply that cannot be read ({error}): {start!r}",
                provider=self.provider,
            ) from error


_chunk_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Chunk)
_whole_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(WholeReply)


async def _drain(events: AsyncIterator[ServerEvent]) -> None:
    """Read to the end of the body, so that the connection can be used again. A server that keeps
    the stream open after its last word is not waited for."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in events:
                continue


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.parameters,
        },
    }
