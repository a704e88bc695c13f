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
MOST_KEPT = 1000
LONGEST_KEY = 255
REPLAYED = (("Idempotent-Replayed", "true"),)

Handler = Callable[[Request], Awaitable[Reply]]


class _Kept:
    def __init__(self, print_: bytes, began: float, work: "asyncio.Task[Reply]") -> None:
        self.print, self.began, self.work = print_, began, work
        self.recording: Recording | None = None

    @property
    def over(self) -> bool:
        return self.work.done() and (self.recording is None or self.recording.complete)

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
        print_ = hashlib.sha256(request.body).digest()
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
        kept = self._kept[place] = _Kept(print_, self._clock.monotonic(), work)
        work.add_done_callback(lambda _work: self._worked(place, kept))
        return await kept.reply()

    def _worked(self, place: tuple[str, str], kept: _Kept) -> None:
        """A stream is recorded from now on. A failure is not kept: it can be tried again."""
        work = kept.work
        if work.cancelled() or work.exception() is not None or work.result().status >= 500:
            self._drop(place, kept)
            return
        stream = work.result().stream
        if stream is not None:
            recording = kept.recording = Recording()
            pump = asyncio.ensure_future(recording.take(stream))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    def _drop(self, place: tuple[str, str], kept: _Kept) -> None:
        if self._kept.get(place) is kept:
            del self._kept[place]

    def _forget_old(self) -> None:
        oldest = self._clock.monotonic() - KEEP_SECONDS
        over = [place for place, kept in self._kept.items() if kept.over]
        too_many = len(self._kept) - MOST_KEPT
        for number, place in enumerate(over):
            if number < too_many or self._kept[place].began < oldest:
                del self._kept[place]

    async def close(self) -> None:
        works = [kept.work for kept in self._kept.values() if not kept.work.done()]
        tasks: list[asyncio.Task[Reply] | asyncio.Task[None]] = [*works, *self._pumps]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._kept.clear()
