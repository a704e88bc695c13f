"""One model call over HTTP: headers, stall timer, server-sent events. Dialects do the rest."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, assert_never

from hermes.core.errors import CredentialRefused, StreamStalled, UnicodeRefused
from hermes.core.model import EmitModelEvent, ModelEvent, ModelRequest, Reply
from hermes.providers.endpoints import Credential, Target
from hermes.providers.failures import http_errors, refused, unreachable

if TYPE_CHECKING:
    from hermes.providers.transport import ModelHttpClient, StreamedResponse


# What a dialect provides: the URL, the request body and a reader of the reply.


class ReplyReader(Protocol):
    """Reads one reply. Every method raises a `ProviderError` for an invalid one."""

    @property
    def is_done(self) -> bool:
        """True once the endpoint has reported the end of the reply."""
        ...

    def feed(self, data: bytes) -> Sequence[ModelEvent] | None:
        """Take one stream event. Returns its deltas; None when it contains nothing new."""
        ...

    def feed_body(self, data: bytes) -> None:
        """Take a reply that was not streamed."""
        ...

    def reply(self) -> Reply:
        """Return the whole reply, after the last event or the body."""
        ...


class Dialect(ABC):
    """Base of the dialects."""

    headers: ClassVar[Mapping[str, str]] = {}
    path: ClassVar[str] = ""  #: After the base URL.

    def __init__(self, target: Target) -> None:
        self._target = target

    def url(self, base_url: str) -> str:
        return join_url(base_url, self.path)

    @abstractmethod
    def body(self, request: ModelRequest, stream: bool) -> bytes: ...

    @abstractmethod
    def reader(self) -> ReplyReader: ...


def dialect_for(target: Target) -> Dialect:
    """Return the dialect for the API of `target`."""
    # Imported here so that a process loads only the dialect it uses.
    match target.api_mode:
        case "chat_completions":
            from hermes.providers.wire.chat_completions import ChatCompletionsDialect

            return ChatCompletionsDialect(target)
        case "anthropic_messages":
            from hermes.providers.wire.anthropic import AnthropicDialect

            return AnthropicDialect(target)
        case "codex_responses":
            from hermes.providers.wire.responses import ResponsesDialect

            return ResponsesDialect(target)
        case "code_assist":
            from hermes.providers.wire.code_assist import CodeAssistDialect

            return CodeAssistDialect(target)
        case "acp":
            raise ValueError("an ACP agent is not called over HTTP; see hermes.providers.acp")
        case _:
            assert_never(target.api_mode)


# URL and headers.

ANTHROPIC_OAUTH_BETA = "oauth-2025-04-20"
_BETA_HEADER = "anthropic-beta"
"""The only header whose values are joined; any other is replaced by the later one."""


def join_url(base_url: str, path: str) -> str:
    """Append `path` to `base_url`; a query stays at the end."""
    base, mark, query = base_url.partition("?")
    return f"{base.rstrip('/')}{path}{mark}{query}"


def request_headers(
    target: Target, credential: Credential | None, own: Mapping[str, str], stream: bool
) -> dict[str, str]:
    """Return all headers except an AWS signature. `own` are those of the dialect."""
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream" if stream else "application/json",
        **own,
    }
    if not target.profile.keep_alive:
        headers["connection"] = "close"
    if credential is not None and target.auth != "aws":
        _merge_headers(headers, _authorization(target, credential))
    _merge_headers(headers, target.headers)
    if credential is not None:
        _merge_headers(headers, credential.headers)
    return headers


def _authorization(target: Target, credential: Credential) -> dict[str, str]:
    secret = credential.secret.strip()
    if not secret:
        return {}
    if not (secret.isascii() and secret.isprintable()):
        # The HTTP library refuses it too, but would show it in its error.
        raise CredentialRefused(
            f"the key for {target.provider} contains invalid characters",
            provider=target.provider,
            hint=f"copy it again ({credential.source or credential.id})",
        )
    if target.auth == "x-api-key" and credential.kind != "oauth":
        return {"x-api-key": secret}
    headers = {"authorization": f"Bearer {secret}"}
    if credential.kind == "oauth" and target.api_mode == "anthropic_messages":
        headers[_BETA_HEADER] = ANTHROPIC_OAUTH_BETA
    return headers


def _merge_headers(headers: dict[str, str], more: Mapping[str, str]) -> None:
    for name, value in more.items():
        name = name.lower()
        if name == _BETA_HEADER and headers.get(name):
            value = f"{headers[name]},{value}"
        headers[name] = value


# Time limits of a call.


class StallTimer:
    """Raises `StreamStalled` in the task that waits for a reply which takes too long.

    One timer serves the whole call instead of one per chunk: when it fires, it checks whether the
    time is really up.
    """

    def __init__(self, provider: str, total: float, stale: float) -> None:
        """Allow `total` seconds for the call and `stale` seconds without progress."""
        self._provider, self._total, self._stale = provider, total, stale
        self._message = ""

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        self._progress_at = self._loop.time()
        self._end = self._progress_at + self._total
        self._timer = self._loop.call_at(self._due(), self._fire)
        return self

    def progress(self) -> None:
        """Note that something new has arrived."""
        self._progress_at = self._loop.time()

    def _due(self) -> float:
        return min(self._end, self._progress_at + self._stale)

    def _fire(self) -> None:
        if self._task is None:
            return
        if self._loop.time() < (due := self._due()):
            self._timer = self._loop.call_at(due, self._fire)
            return
        late = self._loop.time() >= self._end
        self._message = (
            f"{self._provider} did not finish its reply within {self._total:g} s"
            if late
            else f"{self._provider} sent nothing new for {self._stale:g} s"
        )
        self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if not self._message or self._task is None:
            return
        ours = self._task.uncancel() <= self._cancelling
        if ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            hint = "try again; `timeouts` in config.yaml holds the limits"
            raise StreamStalled(self._message, provider=self._provider, hint=hint) from error


# Server-sent events. Only the data of an event is kept: in all dialects the JSON states its own
# type.


class SseSplitter:
    """Splits chunks of any size into the data of complete events.

    Comments and events without data are dropped.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of every event that `chunk` completes."""
        if self._rest:
            self._rest.append(chunk)
            if b"\n" not in chunk:
                return []
            chunk = b"".join(self._rest)
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n")
        *blocks, rest = chunk.split(b"\n\n")
        self._rest = [rest] if rest else []
        return [data for block in blocks if (data := _event_data(block))]

    def end(self) -> bytes:
        """Return the unprocessed rest at the end of the stream."""
        return b"".join(self._rest)


def looks_like_sse(body: bytes) -> bool:
    return body.lstrip()[:6].startswith((b"data:", b"event:", b"id:", b":", b"retry:"))


def split_sse(body: bytes) -> list[bytes]:
    """Return the data of all events in a body; the last one may lack its blank line."""
    return SseSplitter().feed(body + b"\n\n")


def _event_data(block: bytes) -> bytes:
    if block.startswith(b"data:") and b"\n" not in block:
        return block[5:].lstrip()
    name, mark, data = block.partition(b"\ndata:")
    if mark and b"\n" not in data and name.startswith(b"event:"):
        return data.lstrip()
    lines = [line[5:].lstrip() for line in block.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)


DRAIN_SECONDS = 0.2


class WireModel:
    """A `Model` behind an HTTP endpoint. The owner of the shared client closes it.

    Without `credential` the first one of the target is sent.
    """

    def __init__(
        self, target: Target, client: "ModelHttpClient", credential: Credential | None = None
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

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        mode = self._target.profile.streaming
        streamed = request.stream if mode == "both" else mode == "always"
        if not request.stream:
            emit = _ignore
        reader, limits = self._dialect.reader(), self._target.timeouts
        stale = limits.stale if streamed else limits.request
        with StallTimer(self.provider, limits.request, stale) as timer:
            try:
                async with self._open_stream(request, streamed) as response:
                    if response.status_code >= 300:
                        body = await response.aread()
                        raise refused(
                            self.provider,
                            response.status_code,
                            response.headers,
                            body,
                            secret=self._secret,
                        )
                    await _read_reply(response, reader, timer, emit)
            except http_errors() as error:
                raise unreachable(self.provider, self._url, error) from error
        return reader.reply()

    def _open_stream(
        self, request: ModelRequest, streamed: bool
    ) -> "AbstractAsyncContextManager[StreamedResponse]":
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
            from hermes.providers.aws import sign_request  # only Bedrock needs it

            headers = sign_request(
                "POST", self._url, headers, body, region=target.region, credential=self._credential
            )
        # Waiting for a free connection counts toward the whole call, not toward its silence.
        silence = limits.read if streamed else limits.silence
        timeout = (limits.connect, silence, silence, limits.request)
        return self._client.stream(
            "POST",
            self._url,
            content=body,
            headers=headers,
            timeout=timeout,
        )

    @property
    def _secret(self) -> str:
        return self._credential.secret if self._credential else ""


def _ignore(_event: ModelEvent) -> None:
    """Take an event that the caller did not ask for."""


async def _read_reply(
    response: "StreamedResponse",
    reader: ReplyReader,
    timer: StallTimer,
    emit: EmitModelEvent,
) -> None:
    """Feed `reader` with `response`, whose content type says how to read it."""
    if response.headers.get("content-type", "").startswith("application/json"):
        _feed_body(await response.aread(), reader)
        return
    # Raw bytes save one layer per chunk when there is nothing to decompress.
    packed = "content-encoding" in response.headers
    splitter = SseSplitter()
    async with aclosing(response.aiter_bytes() if packed else response.aiter_raw()) as chunks:
        async for chunk in chunks:
            for data in splitter.feed(chunk):
                deltas = reader.feed(data)
                if deltas is None:
                    continue
                timer.progress()
                for delta in deltas:
                    emit(delta)
            if reader.is_done:
                await _drain(chunks)
                return
    if rest := splitter.end().strip():
        _feed_body(rest, reader)


def _feed_body(body: bytes, reader: ReplyReader) -> None:
    """Read a reply in one piece: one object, or all events at once."""
    if not looks_like_sse(body):
        reader.feed_body(body)
        return
    for data in split_sse(body):
        reader.feed(data)


async def _drain(chunks: AsyncGenerator[bytes, None]) -> None:
    """Read to the end of the body, so that the connection can be reused.

    A server that keeps the stream open after its last event is not waited for.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                continue
