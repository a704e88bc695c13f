"""A request with an `Idempotency-Key` runs once: who sends it again gets the same answer.

The work goes on when the client leaves, since that is when it will ask again.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec

from hermes.core.ports import Clock
from hermes.gateway.platforms.api_server.exchange import Reply, Request
from hermes.gateway.platforms.api_server.recording import Recording
from hermes.gateway.platforms.api_server.refusals import Refused, invalid

KEEP_SECONDS = 300.0
"""After the answer is complete: a client may wait longer than that for it, and ask again then."""
MOST_KEPT = 1000
MOST_KEPT_BYTES = 64_000_000
LONGEST_KEY = 255
REPLAYED = (("Idempotent-Replayed", "true"),)

Handler = Callable[[Request], Awaitable[Reply]]


class _Kept:
    def __init__(self, print_: bytes, work: "asyncio.Task[Reply]") -> None:
        self.print, self.work = print_, work
        self.recording: Recording | None = None
        self.ended: float | None = None
        """When the answer was complete."""

    @property
    def size(self) -> int:
        if self.recording is not None:
            return self.recording.size
        return len(self.work.result().body) if self.ended is not None else 0

    async def reply(self) -> Reply:
        reply = await asyncio.shield(self.work)
        if self.recording is None:
            return reply
        return msgspec.structs.replace(reply, stream=self.recording.play(), close=None)


class Idempotency:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._pumps: set[asyncio.Task[None]] = set()

    async def once(self, request: Request, handler: Handler) -> Reply:
        """What `handler` answers, or what it answered to the same request. Raises `Refused` for
        another request with the same key."""
        key = request.headers.get("idempotency-key")
        if key is None:
            return await handler(request)
        if not key or len(key) > LONGEST_KEY:
            raise invalid(f"Idempotency-Key has 1 to {LONGEST_KEY} characters")
        self._forget_old()
        place = request.path, key
        session = request.headers.get("x-hermes-session-id", "")
        print_ = hashlib.sha256(session.encode() + b"\0" + request.body).digest()
        kept = self._kept.get(place)
        if kept is None:
            return await self._begin(place, print_, request, handler)
        if kept.print != print_:
            raise Refused(
                422,
                "this Idempotency-Key was used for another request",
                code="idempotency_key_reused",
            )
        reply = await kept.reply()
        return msgspec.structs.replace(reply, headers=(*reply.headers, *REPLAYED))

    async def _begin(
        self, place: tuple[str, str], print_: bytes, request: Request, handler: Handler
    ) -> Reply:
        alone = Request(request.method, request.path, request.headers, request.body)
        alone.places = request.places
        work = asyncio.ensure_future(handler(alone))
        kept = self._kept[place] = _Kept(print_, work)
        work.add_done_callback(lambda _work: self._worked(place, kept))
        return await kept.reply()

    def _worked(self, place: tuple[str, str], kept: _Kept) -> None:
        """A stream is recorded from now on. A failure is not kept: it can be tried again."""
        work = kept.work
        if work.cancelled() or work.exception() is not None or work.result().status >= 500:
            self._drop(place, kept)
            return
        stream = work.result().stream
        if stream is None:
            kept.ended = self._clock.monotonic()
            return
        recording = kept.recording = Recording()
        pump = asyncio.ensure_future(recording.take(stream))
        self._pumps.add(pump)
        pump.add_done_callback(lambda pump: self._recorded(kept, pump))

    def _recorded(self, kept: _Kept, pump: "asyncio.Task[None]") -> None:
        self._pumps.discard(pump)
        kept.ended = self._clock.monotonic()

    def _drop(self, place: tuple[str, str], kept: _Kept) -> None:
        if self._kept.get(place) is kept:
            del self._kept[place]

    def _forget_old(self) -> None:
        """Those whose time is over, and the oldest beyond what is kept."""
        oldest = self._clock.monotonic() - KEEP_SECONDS
        size = sum(kept.size for kept in self._kept.values())
        for place, kept in tuple(self._kept.items()):
            if kept.ended is None:
                continue
            if kept.ended < oldest or len(self._kept) >= MOST_KEPT or size > MOST_KEPT_BYTES:
                size -= kept.size
                del self._kept[place]

    async def close(self) -> None:
        works = [kept.work for kept in self._kept.values() if not kept.work.done()]
        tasks: list[asyncio.Task[Reply] | asyncio.Task[None]] = [*works, *self._pumps]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._kept.clear()
