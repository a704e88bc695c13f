"""One call of a model over HTTP, whatever API it speaks."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from hermes.core.errors import UnicodeRefused
from hermes.core.model import ModelEvent, ModelRequest
from hermes.providers.failures.later import http_errors, refused, unreachable
from hermes.providers.target import Credential, Target
from hermes.providers.wire.dialect import ReplyReader, dialect_for
from hermes.providers.wire.headers import request_headers, signed
from hermes.providers.wire.sse import EventSplitter, all_events, looks_like_events
from hermes.providers.wire.watch import Watch

if TYPE_CHECKING:
    import httpx2

DRAIN_SECONDS = 0.2


class WireModel:
    """A `Model` behind an endpoint. The client is shared and kept open by its owner.

    `credential` is what is sent; without one the first of the target is.
    """

    def __init__(
        self, target: Target, client: "httpx2.AsyncClient", credential: Credential | None = None
    ) -> None:
        if credential is None and target.credentials:
            credential = target.credentials[0]
        self._target, self._client, self._credential = target, client, credential
        self._dialect = dialect_for(target)
        base_url = (credential.base_url if credential else "") or target.base_url
        self._url = self._dialect.url(base_url)

    @property
    def name(self) -> str:
        return self._target.model

    @property
    def provider(self) -> str:
        return self._target.provider

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        mode = self._target.profile.streaming
        streamed = request.stream if mode == "both" else mode == "always"
        reader, limits = self._dialect.reader(), self._target.timeouts
        stale = limits.stale if streamed else limits.request
        with Watch(self.provider, limits.request, stale) as watch:
            try:
                async with self._sending(request, streamed) as response:
                    if response.status_code >= 300:
                        body = await response.aread()
                        raise refused(self.provider, response, body, secret=self._secret)
                    async with aclosing(_deltas(response, reader, watch)) as deltas:
                        async for delta in deltas:
                            if request.stream:
                                watch.pause()
                                yield delta
                                watch.resume()
            except http_errors() as error:
                raise unreachable(self.provider, self._url, error) from error
        yield reader.reply()

    def _sending(
        self, request: ModelRequest, streamed: bool
    ) -> "AbstractAsyncContextManager[httpx2.Response]":
        target, limits = self._target, self._target.timeouts
        try:
            body = self._dialect.body(request, streamed)
        except UnicodeEncodeError as error:
            raise UnicodeRefused(
                f"the conversation contains characters that cannot be sent: {error.reason}",
                provider=self.provider,
            ) from error
        headers = request_headers(target, self._credential, self._dialect.headers, streamed)
        if target.auth == "aws":
            headers = signed(target, self._credential, self._url, headers, body)
        # Waiting for a free connection counts towards the whole call, not towards its silences.
        silence = limits.read if streamed else limits.silence
        timeout = (limits.connect, silence, silence, limits.request)
        return self._client.stream(
            "POST",
            _address(self._url),
            content=body,
            headers=headers,
            timeout=timeout,
            follow_redirects=False,
        )

    @property
    def _secret(self) -> str:
        return self._credential.secret if self._credential else ""


@lru_cache(maxsize=64)
def _address(url: str) -> "httpx2.URL":
    """As the client takes it; reading one takes long, and few are ever sent to."""
    address: httpx2.URL = import_module("httpx2").URL(url)
    return address


async def _deltas(
    response: "httpx2.Response", reader: ReplyReader, watch: Watch
) -> AsyncGenerator[ModelEvent, None]:
    """What `response` brings, as it comes. What kind of body it is, it says itself."""
    if response.headers.get("content-type", "").startswith("application/json"):
        _take_body(await response.aread(), reader)
        return
    # A layer less for each chunk when there is nothing to unpack.
    packed = "content-encoding" in response.headers
    splitter = EventSplitter()
    async with aclosing(response.aiter_bytes() if packed else response.aiter_raw()) as chunks:
        async for chunk in chunks:
            for data in splitter.feed(chunk):
                deltas = reader.take(data)
                if deltas is None:
                    continue
                watch.news()
                for delta in deltas:
                    yield delta
            if reader.ended:
                await _drain(chunks)
                return
    if rest := splitter.end().strip():
        _take_body(rest, reader)


def _take_body(body: bytes, reader: ReplyReader) -> None:
    """A reply in one piece, be it one object or all the events at once."""
    if not looks_like_events(body):
        reader.take_whole(body)
        return
    for data in all_events(body):
        reader.take(data)


async def _drain(chunks: AsyncGenerator[bytes, None]) -> None:
    """Read to the end of the body, so that the connection can be used again. A server that keeps
    the stream open after its last word is not waited for."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                continue
