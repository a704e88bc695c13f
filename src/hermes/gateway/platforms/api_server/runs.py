"""POST /v1/runs: a turn that goes on by itself, and its events for whoever wants to see them."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hermes.core.events import to_json
from hermes.gateway.platforms.api_server.exchange import SSE, Reply, Request, answered, event_bytes
from hermes.gateway.platforms.api_server.forms import joined
from hermes.gateway.platforms.api_server.live import session_key
from hermes.gateway.platforms.api_server.reading import Conversation, conversation
from hermes.gateway.platforms.api_server.recording import Recording
from hermes.gateway.platforms.api_server.refusals import invalid, missing
from hermes.gateway.platforms.api_server.responses.reading import input_messages
from hermes.gateway.platforms.api_server.responses.wire import InputItem
from hermes.gateway.platforms.api_server.turns import Ask, Running, Turns

MOST_KEPT_BYTES = 64_000_000
MOST_KEPT = 256


class RunRequest(msgspec.Struct, frozen=True):
    input: str | Annotated[list[InputItem], Meta(min_length=1)]
    instructions: str | None = None
    session_id: str | None = None
    """Goes on with a session of the API."""
    model: str | None = None
    """Ignored: the model is that of the settings."""


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
        """All events from the first on, or those behind the one the client has seen."""
        run = self._found(request)
        seen = request.headers.get("last-event-id", "")
        if seen and not (seen.isascii() and seen.isdigit() and len(seen) < 10):
            raise invalid("Last-Event-ID is the number of an event", param="Last-Event-ID")
        start = int(seen) + 1 if seen else 0
        request.on_gone(lambda: None)  # a silent stream shows that it is alive
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
        """The oldest that are over, beyond what is kept."""
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
