"""POST /v1/runs: turns that continue without a client, whose events can be read at any time."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from hermes.core.events import to_json
from hermes.gateway.platforms.api_server.app import EVENT_HEADER, TURN_ERRORS, operation
from hermes.gateway.platforms.api_server.chat import join_texts, split_conversation
from hermes.gateway.platforms.api_server.http import (
    EVENT_STREAM,
    ApiRequest,
    EventStream,
    bad_request,
    json_response,
    not_found,
    sse_event,
)
from hermes.gateway.platforms.api_server.idempotency import KEY_HEADER, Recording
from hermes.gateway.platforms.api_server.responses import InputItem, input_messages
from hermes.gateway.platforms.api_server.turns import (
    ApiTurn,
    ApiTurns,
    TurnRequest,
    session_key,
)

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
        self._tasks: set[asyncio.Task[None]] = set()

    @operation(
        "POST /v1/runs",
        "run",
        "Start a turn that continues without the client",
        result=RunStarted,
        status=202,
        errors=TURN_ERRORS,
        body=RunRequest,
        headers=(KEY_HEADER,),
    )
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
        task = asyncio.ensure_future(run.recording.record(_event_stream(turn)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return json_response(RunStarted(run_id, turn.session_id), 202)

    @operation(
        "GET /v1/runs/{run_id}/events",
        "run_events",
        "All events of a run, from the beginning to its end",
        media_type=EVENT_STREAM,
        headers=(EVENT_HEADER,),
    )
    async def events(self, request: ApiRequest) -> Response:
        """Stream all events, or those after the last one that the client has seen."""
        run = self._run(request)
        seen = request.headers.get(EVENT_HEADER, "")
        if seen and not (seen.isascii() and seen.isdigit() and len(seen) < 10):
            raise bad_request(f"{EVENT_HEADER} is the number of an event", param=EVENT_HEADER)
        start = int(seen) + 1 if seen else 0
        return EventStream(request, run.recording.play(start))

    @operation("POST /v1/runs/{run_id}/stop", "stop_run", "Stop it", result=RunStopped)
    async def stop(self, request: ApiRequest) -> Response:
        run = self._run(request)
        is_complete = run.recording.is_complete
        if not is_complete:
            run.turn.stop("stopped by the client")
        status: Literal["finished", "stopping"] = "finished" if is_complete else "stopping"
        return json_response(RunStopped(request.path_params["run_id"], status))

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
