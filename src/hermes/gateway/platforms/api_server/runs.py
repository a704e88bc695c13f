"""/v1/runs: turns that continue without a client; /api/jobs: the scheduled jobs."""

import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from hermes.core.errors import UsageError
from hermes.core.events import to_json
from hermes.core.ports import Scheduler
from hermes.gateway.platforms.api_server.app import EVENT_HEADER, TURN, operation
from hermes.gateway.platforms.api_server.chat import join_texts, split_conversation
from hermes.gateway.platforms.api_server.http import (
    EVENT_STREAM,
    KEY_HEADER,
    ApiError,
    ApiRequest,
    EventStream,
    Recording,
    bad_request,
    json_response,
    not_found,
    sse_event,
)
from hermes.gateway.platforms.api_server.responses import InputItem, input_messages
from hermes.gateway.platforms.api_server.turns import ApiTurn, ApiTurns, TurnRequest, session_key
from hermes.sdk.platforms import TaskSet
from hermes.tools import HARMLESS_FIELDS

MAX_BYTES = 64_000_000
MAX_RUNS = 256


class RunRequest(msgspec.Struct, frozen=True):
    input: str | Annotated[list[InputItem], Meta(min_length=1)]
    instructions: str | None = None
    session_id: str | None = None  #: The session of the API to continue.
    model: str | None = None  #: Ignored: the settings choose the model.


class RunStarted(msgspec.Struct, frozen=True):
    run_id: str
    session_id: str
    status: Literal["started"] = "started"


class RunStopped(msgspec.Struct, frozen=True):
    run_id: str
    status: Literal["stopping", "finished"]


class _Run:
    def __init__(self, turn: ApiTurn) -> None:
        self.turn, self.recording = turn, Recording()


class RunsEndpoint:
    def __init__(self, turns: ApiTurns) -> None:
        self._turns = turns
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._tasks = TaskSet()

    @operation("POST /v1/runs", RunStarted, RunRequest, (KEY_HEADER,), status=202, **TURN)
    async def create(self, request: ApiRequest) -> Response:
        wanted = request.decode(RunRequest)
        talk = split_conversation(input_messages(wanted.input), "input")
        session_id = wanted.session_id or ""
        if session_id and talk.history:
            raise bad_request("a session has its own history; give one message", param="input")
        if session_id:
            await self._turns.check_session(session_id)
        instructions = join_texts(wanted.instructions, talk.instructions)
        turn = await self._turns.begin(
            TurnRequest(talk.message, instructions, "", session_id, talk.history)
        )
        run_id = f"run_{secrets.token_hex(12)}"
        self._evict()
        run = self._runs[run_id] = _Run(turn)
        turn.keep_as(session_key(turn.session_id))
        self._tasks.start(run.recording.record(_event_stream(turn)))
        return json_response(RunStarted(run_id, turn.session_id), 202)

    @operation("GET /v1/runs/{run_id}/events", None, None, (EVENT_HEADER,), media_type=EVENT_STREAM)
    async def events(self, request: ApiRequest) -> Response:
        """Stream all events, or those after the last one that the client has seen."""
        run = self._run(request)
        seen = request.headers.get(EVENT_HEADER, "")
        if seen and not (seen.isascii() and seen.isdigit() and len(seen) < 10):
            raise bad_request(f"{EVENT_HEADER} is the number of an event", param=EVENT_HEADER)
        start = int(seen) + 1 if seen else 0
        return EventStream(request, run.recording.play(start))

    @operation("POST /v1/runs/{run_id}/stop", RunStopped)
    async def stop(self, request: ApiRequest) -> Response:
        run = self._run(request)
        if run.recording.is_complete:
            return json_response(RunStopped(request.path_params["run_id"], "finished"))
        run.turn.stop("stopped by the client")
        return json_response(RunStopped(request.path_params["run_id"], "stopping"))

    def _run(self, request: ApiRequest) -> _Run:
        run = self._runs.get(request.path_params["run_id"])
        if run is None:
            raise not_found("there is no such run, or it was forgotten", "run_not_found")
        return run

    def _evict(self) -> None:
        """Remove the oldest finished runs beyond the limits."""
        size = sum(run.recording.size for run in self._runs.values())
        for run_id, run in tuple(self._runs.items()):
            if size <= MAX_BYTES and len(self._runs) < MAX_RUNS:
                return
            if run.recording.is_complete:
                size -= run.recording.size
                del self._runs[run_id]


async def _event_stream(turn: ApiTurn) -> AsyncGenerator[bytes, None]:
    number = 0
    async with aclosing(turn.events()) as events:
        async for event in events:
            yield sse_event(to_json(event), str(event.__struct_config__.tag), number)
            number += 1


Text = str | UnsetType | None
Names = str | list[str] | UnsetType | None
Record = dict[str, Any]


class JobChanges(msgspec.Struct, frozen=True):
    """The fields of a job. null clears a field."""

    schedule: Text = UNSET  #: `every 2h`, `30m`, `0 9 * * *`, or a time.
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


class JobsEndpoint:
    def __init__(self, scheduler: Scheduler | None, backend: str = "") -> None:
        """`backend` is where commands of clients run; their jobs may not use another one."""
        self._given_scheduler = scheduler
        self._limits = {"by": {"backend": backend}} if backend else {}

    @property
    def _scheduler(self) -> Scheduler:
        if self._given_scheduler is None:
            raise ApiError(503, "jobs are not scheduled here", code="no_scheduler")
        return self._given_scheduler

    @operation("GET /api/jobs", JobList, errors=(503,))
    async def list(self, _request: ApiRequest) -> Response:
        return json_response(JobList(await self._scheduler.list()))

    @operation("POST /api/jobs", JobRecord, JobChanges, (KEY_HEADER,), status=201, errors=(503,))
    async def create(self, request: ApiRequest) -> Response:
        fields = msgspec.to_builtins(request.decode(JobChanges))
        return json_response(JobRecord(await self._scheduler.create(fields | self._limits)), 201)

    @operation("GET /api/jobs/{job_id}", JobRecord, errors=(503,))
    async def get(self, request: ApiRequest) -> Response:
        return json_response(JobRecord(await self._job(request)))

    @operation("PATCH /api/jobs/{job_id}", JobRecord, JobChanges, errors=(503,))
    async def update(self, request: ApiRequest) -> Response:
        changes = msgspec.to_builtins(request.decode(JobChanges))
        job = await self._job(request)
        limits = self._limits if changes.keys() - set(HARMLESS_FIELDS) else {}
        return json_response(JobRecord(await self._scheduler.update(job["id"], changes | limits)))

    @operation("DELETE /api/jobs/{job_id}", JobRecord, errors=(503,))
    async def remove(self, request: ApiRequest) -> Response:
        return await self._do(request, self._scheduler.remove)

    @operation("POST /api/jobs/{job_id}/pause", JobRecord, errors=(503,))
    async def pause(self, request: ApiRequest) -> Response:
        return await self._do(request, self._scheduler.pause)

    @operation("POST /api/jobs/{job_id}/resume", JobRecord, errors=(503,))
    async def resume(self, request: ApiRequest) -> Response:
        return await self._do(request, self._scheduler.resume)

    @operation("POST /api/jobs/{job_id}/run", JobRecord, errors=(503,))
    async def run(self, request: ApiRequest) -> Response:
        return await self._do(request, self._scheduler.run)

    async def _do(
        self, request: ApiRequest, action: Callable[[str], Awaitable[Record]]
    ) -> Response:
        job = await self._job(request)
        return json_response(JobRecord(await action(job["id"])))

    async def _job(self, request: ApiRequest) -> Record:
        try:
            return await self._scheduler.get(request.path_params["job_id"])
        except UsageError as error:
            text = f"{error}; {error.hint}" if error.hint else str(error)
            raise not_found(text, "job_not_found") from error
