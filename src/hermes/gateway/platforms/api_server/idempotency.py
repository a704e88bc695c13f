"""Requests with an `Idempotency-Key`: a repeated one gets the stored response."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from starlette.responses import Response

from hermes.core.ports import Clock
from hermes.gateway.platforms.api_server.http import (
    SESSION_HEADER,
    ApiError,
    ApiRequest,
    EventStream,
    bad_request,
    with_error_event,
)

Handler = Callable[[ApiRequest], Awaitable[Response]]

KEY_HEADER = "Idempotency-Key"
MAX_KEY_CHARS = 255
KEEP_SECONDS = 300.0
"""After the response is complete: a client may have waited that long before it retries."""
MAX_REPLIES = 1000
MAX_BYTES = 64_000_000
REPLAYED = "Idempotent-Replayed"


class Recording:
    """Pieces of a stream, which several readers can follow from any position."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._waiting: set[asyncio.Future[None]] = set()
        self.is_complete = False
        self.size = 0

    async def record(self, pieces: AsyncGenerator[bytes, None]) -> None:
        """Record all of `pieces`, and an error event if they fail."""
        try:
            async with aclosing(with_error_event(pieces)) as whole:
                async for piece in whole:
                    self._pieces.append(piece)
                    self.size += len(piece)
                    self._wake()
        finally:
            self.is_complete = True
            self._wake()

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    async def play(self, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the pieces from number `start` on, until the end."""
        while True:
            while start < len(self._pieces):
                yield self._pieces[start]
                start += 1
            if self.is_complete:
                return
            future = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)


class _CachedReply:
    def __init__(self, digest: bytes, work: "asyncio.Task[Response]") -> None:
        self.digest, self.work = digest, work
        """The digest of the request, and the task of its handler."""
        self.recording: Recording | None = None
        self.completed_at: float | None = None

    @property
    def size(self) -> int:
        if self.recording is not None:
            return self.recording.size
        return len(self.work.result().body) if self.completed_at is not None else 0

    async def reply(self, request: ApiRequest) -> Response:
        """Return a response of its own for `request`."""
        done = await asyncio.shield(self.work)
        if self.recording is not None:
            reply: Response = EventStream(request, self.recording.play())
        else:
            reply = Response(done.body, done.status_code)
        reply.raw_headers = list(done.raw_headers)
        return reply


class IdempotencyCache:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._replies: OrderedDict[tuple[str, str], _CachedReply] = OrderedDict()
        """By path and key."""
        self._recorders: set[asyncio.Task[None]] = set()

    async def run_once(self, request: ApiRequest, handler: Handler) -> Response:
        """Return the response of `handler`, or its stored response to the same request.

        The work continues when the client leaves, because the client will retry then. Raises
        `ApiError` for a different request with the same key.
        """
        key = request.headers.get(KEY_HEADER)
        if key is None:
            return await handler(request)
        if not key or len(key) > MAX_KEY_CHARS:
            raise bad_request(f"{KEY_HEADER} has 1 to {MAX_KEY_CHARS} characters")
        self._evict()
        session = request.headers.get(SESSION_HEADER, "")
        digest = hashlib.sha256(session.encode() + b"\0" + request.content).digest()
        name = request.scope["path"], key
        cached = self._replies.get(name)
        if cached is None:
            return await self._start(name, digest, handler(request.detach())).reply(request)
        if cached.digest != digest:
            raise ApiError(
                422,
                "this Idempotency-Key was used for another request",
                code="idempotency_key_reused",
            )
        reply = await cached.reply(request)
        reply.headers[REPLAYED] = "true"
        return reply

    def _start(
        self, name: tuple[str, str], digest: bytes, work: Awaitable[Response]
    ) -> _CachedReply:
        cached = self._replies[name] = _CachedReply(digest, asyncio.ensure_future(work))
        cached.work.add_done_callback(lambda _work: self._replied(name, cached))
        return cached

    def _replied(self, name: tuple[str, str], cached: _CachedReply) -> None:
        """Record the stream. A failure is not kept, so that it can be retried."""
        work = cached.work
        if work.cancelled() or work.exception() is not None or work.result().status_code >= 500:
            if self._replies.get(name) is cached:
                del self._replies[name]
            return
        response = work.result()
        if not isinstance(response, EventStream):
            cached.completed_at = self._clock.monotonic()
            return
        cached.recording = Recording()
        recorder = asyncio.ensure_future(cached.recording.record(response.pieces))
        self._recorders.add(recorder)

        def recorded(recorder: "asyncio.Task[None]") -> None:
            self._recorders.discard(recorder)
            cached.completed_at = self._clock.monotonic()

        recorder.add_done_callback(recorded)

    def _evict(self) -> None:
        """Remove expired responses, and the oldest ones beyond the limits."""
        oldest = self._clock.monotonic() - KEEP_SECONDS
        size = sum(cached.size for cached in self._replies.values())
        for name, cached in tuple(self._replies.items()):
            if cached.completed_at is None:
                continue
            full = len(self._replies) >= MAX_REPLIES or size > MAX_BYTES
            if full or cached.completed_at < oldest:
                size -= cached.size
                del self._replies[name]

    async def close(self) -> None:
        works = [cached.work for cached in self._replies.values() if not cached.work.done()]
        tasks: list[asyncio.Task[Response] | asyncio.Task[None]] = [*works, *self._recorders]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._replies.clear()
