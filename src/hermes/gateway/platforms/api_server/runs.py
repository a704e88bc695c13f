"""POST /v1/runs, /api/jobs, and requests with an `Idempotency-Key`."""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hermes.core.errors import UsageError
from hermes.core.events import to_json
from hermes.core.ports import Clock, Scheduler
from hermes.gateway.platforms.api_server.http import (
    SSE,
    Refused,
    Reply,
    Request,
    answered,
    event_bytes,
    invalid,
    joined,
    missing,
)
from hermes.gateway.platforms.api_server.reading import Conversation, Recording, conversation
from hermes.gateway.platforms.api_server.responses import InputItem, input_messages
from hermes.gateway.platforms.api_server.turns import Ask, Running, Turns, session_key
from hermes.tools.builtin.cronjob import HARMLESS_FIELDS

MOST_KEPT_BYTES = 64_000_000
MOST_KEPT = 256


class RunRequest(msgspec.Struct, frozen=True):
    input: str | Annotated[list[InputItem], Meta(min_length=1)]
    instructions: str | None = None
    session_id: str | None = None
    """The session of the API to continue."""
    model: str | None = None
    """Ignored: the settings choose the model."""


class RunBegun(msgspec.Struct, frozen=True):
    run_id: str
    session_id: str
    status: Literal["started"] = "started"


class RunStopped(msgspec.Struct, frozen=True):
    run_id: str
    status: Literal["stopping", "finished"]


class _Run:
    def __init__(self, running: Running) -> None:
        self.running, self.recording = running, Recording()


class Runs:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    async def create(self, request: Request) -> Reply:
        wanted = request.decoded(RunRequest)
        talk = _talk(wanted)
        session_id = wanted.session_id or ""
        if session_id:
            await self._turns.check_session(session_id)
        ask = Ask(talk.message, talk.manner, "", session_id, talk.history)
        running = await self._turns.begin(ask, lambda _stop: None)
        name = f"run_{secrets.token_hex(12)}"
        self._forget()
        run = self._runs[name] = _Run(running)
        running.keep_as(session_key(running.session_id))
        task = asyncio.ensure_future(run.recording.take(_told(running)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return answered(RunBegun(name, running.session_id), 202)

    async def events(self, request: Request) -> Reply:
        """Stream all events, or those after the last one that the client has seen."""
        run = self._found(request)
        seen = request.headers.get("last-event-id", "")
        if seen and not (seen.isascii() and seen.isdigit() and len(seen) < 10):
            raise invalid("Last-Event-ID is the number of an event", param="Last-Event-ID")
        start = int(seen) + 1 if seen else 0
        request.on_gone(lambda: None)  # so that a silent stream sends keep-alive comments
        return Reply(kind=SSE, stream=run.recording.play(start))

    async def stop(self, request: Request) -> Reply:
        run = self._found(request)
        over = run.recording.complete
        if not over:
            run.running.stop("stopped by the client")
        return answered(RunStopped(request.places["run_id"], "finished" if over else "stopping"))

    def _found(self, request: Request) -> _Run:
        run = self._runs.get(request.places["run_id"])
        if run is None:
            raise missing("there is no such run, or it was forgotten", "run_not_found")
        return run

    def _forget(self) -> None:
        """Forget the oldest finished runs beyond the limits."""
        size = sum(run.recording.size for run in self._runs.values())
        for name, run in tuple(self._runs.items()):
            if size <= MOST_KEPT_BYTES and len(self._runs) < MOST_KEPT:
                return
            if run.recording.complete:
                size -= run.recording.size
                del self._runs[name]


def _talk(wanted: RunRequest) -> Conversation:
    talk = conversation(input_messages(wanted.input), "input")
    if wanted.session_id and talk.history:
        raise invalid("a session has its own history; give one message", param="input")
    return msgspec.structs.replace(talk, manner=joined(wanted.instructions, talk.manner))


async def _told(running: Running) -> AsyncGenerator[bytes, None]:
    number = 0
    async with aclosing(running.events()) as events:
        async for event in events:
            name = event.__struct_config__.tag
            yield event_bytes(to_json(event), str(name), number)
            number += 1


Text = str | UnsetType | None
Names = str | list[str] | UnsetType | None
Record = dict[str, Any]


class JobWanted(msgspec.Struct, frozen=True):
    """The fields of a job. null clears a field."""

    schedule: Text = UNSET
    """`every 2h`, `30m`, `0 9 * * *`, or a time."""
    prompt: Text = UNSET
    name: Text = UNSET
    repeat: Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType | None = UNSET
    deliver: Names = UNSET
    skills: Names = UNSET
    model: Text = UNSET
    provider: Text = UNSET
    base_url: Text = UNSET
    script: Text = UNSET
    workdir: Text = UNSET
    context_from: Names = UNSET
    enabled_toolsets: Names = UNSET
    budget_usd: Annotated[float, Meta(ge=0)] | UnsetType | None = UNSET


class JobRecord(msgspec.Struct, frozen=True):
    job: Record


class JobList(msgspec.Struct, frozen=True):
    jobs: list[Record]


class Jobs:
    def __init__(self, scheduler: Scheduler | None, backend: str = "") -> None:
        """`backend` is where commands of clients run; their jobs may not use another one."""
        self._held = scheduler
        self._limits = {"by": {"backend": backend}} if backend else {}

    @property
    def _scheduler(self) -> Scheduler:
        if self._held is None:
            raise Refused(503, "jobs are not scheduled here", code="no_scheduler")
        return self._held

    async def listed(self, _request: Request) -> Reply:
        return answered(JobList(await self._scheduler.list()))

    async def create(self, request: Request) -> Reply:
        wanted = msgspec.to_builtins(request.decoded(JobWanted))
        return answered(JobRecord(await self._scheduler.create(wanted | self._limits)), 201)

    async def get(self, request: Request) -> Reply:
        return answered(JobRecord(await self._found(request)))

    async def update(self, request: Request) -> Reply:
        changes = msgspec.to_builtins(request.decoded(JobWanted))
        job = await self._found(request)
        limits = self._limits if changes.keys() - set(HARMLESS_FIELDS) else {}
        return answered(JobRecord(await self._scheduler.update(job["id"], changes | limits)))

    async def remove(self, request: Request) -> Reply:
        return await self._done(request, lambda scheduler: scheduler.remove)

    async def pause(self, request: Request) -> Reply:
        return await self._done(request, lambda scheduler: scheduler.pause)

    async def resume(self, request: Request) -> Reply:
        return await self._done(request, lambda scheduler: scheduler.resume)

    async def run(self, request: Request) -> Reply:
        return await self._done(request, lambda scheduler: scheduler.run)

    async def _done(
        self, request: Request, verb: Callable[[Scheduler], Callable[[str], Awaitable[Record]]]
    ) -> Reply:
        job = await self._found(request)
        return answered(JobRecord(await verb(self._scheduler)(job["id"])))

    async def _found(self, request: Request) -> Record:
        try:
            return await self._scheduler.get(request.places["job_id"])
        except UsageError as error:
            told = f"{error}; {error.hint}" if error.hint else str(error)
            raise missing(told, "job_not_found") from error


KEEP_SECONDS = 300.0
"""Seconds after the response is complete: a client may have waited that long before it retries."""
IDEMPOTENCY_MOST_KEPT = 1000
LONGEST_KEY = 255
REPLAYED = (("Idempotent-Replayed", "true"),)

Handler = Callable[[Request], Awaitable[Reply]]


class _Kept:
    def __init__(self, print_: bytes, work: "asyncio.Task[Reply]") -> None:
        self.print, self.work = print_, work
        self.recording: Recording | None = None
        self.ended: float | None = None
        """When the response was complete."""

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
        """Return the response of `handler`, or its stored response to the same request.

        The work continues when the client leaves, because the client will retry then. Raises
        `Refused` for a different request with the same key.
        """
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
        """Record the stream. A failure is not kept, so that it can be retried."""
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
        """Forget expired responses, and the oldest ones beyond the limits."""
        oldest = self._clock.monotonic() - KEEP_SECONDS
        size = sum(kept.size for kept in self._kept.values())
        for place, kept in tuple(self._kept.items()):
            if kept.ended is None:
                continue
            if (
                kept.ended < oldest
                or len(self._kept) >= IDEMPOTENCY_MOST_KEPT
                or size > MOST_KEPT_BYTES
            ):
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
