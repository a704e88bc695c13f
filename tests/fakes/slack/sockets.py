"""Socket Mode: envelopes over WebSockets, sent again when they are not acknowledged."""

import asyncio
import itertools
import json
import uuid
from typing import Any

from aiohttp import WSMsgType, web

from tests.fakes.serving import Wires
from tests.fakes.slack.world import Json, World

MOST_RETRIES = 3


class Sockets:
    def __init__(self, world: World) -> None:
        self.world = world
        self.url = ""
        self.wires = Wires()
        self.acknowledged: list[str] = []
        self.delivered: list[Json] = []
        self.opened = 0
        self.patience = 0.4
        """Seconds until what is not acknowledged comes again; three of the real one."""
        self._tickets = itertools.count(1)
        self._valid: set[str] = set()
        self._open: dict[str, Json] = {}  #: Events that wait to be acknowledged, by envelope.
        self._tasks: set[asyncio.Task[None]] = set()

    def ticket(self) -> str:
        """An address that is good for one connection."""
        ticket = f"ticket-{next(self._tickets)}"
        self._valid.add(ticket)
        return f"{self.url}?ticket={ticket}&app_id={self.world.app}"

    async def dispatch(self, kind: str, payload: Json, **more: Any) -> str:
        """The envelope. Slack gives each to one of the connections; what happens while there is
        none is not delivered."""
        envelope = str(uuid.uuid4())
        if self.wires:
            await self._deliver(envelope, kind, payload, more)
        return envelope

    async def disconnect(self, reason: str) -> None:
        frame = {"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-1"}}
        await self.wires.send(frame)

    async def close(self) -> None:
        self.wires.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._valid:
            return web.Response(status=401)
        self._valid.remove(ticket)
        async with self.wires.opened(request) as wire:
            self.opened += 1
            hello = {"type": "hello", "num_connections": len(self.wires)}
            await wire.send({**hello, "connection_info": {"app_id": self.world.app}})
            async for message in wire.socket:
                if message.type is WSMsgType.TEXT:
                    envelope = json.loads(message.data)["envelope_id"]
                    self._open.pop(envelope, None)
                    self.acknowledged.append(envelope)
        return wire.socket

    async def _deliver(self, envelope: str, kind: str, payload: Json, more: Json) -> None:
        frame = {"envelope_id": envelope, "type": kind, "payload": payload}
        frame["accepts_response_payload"] = kind != "events_api"
        frame |= more
        self.delivered.append(frame)
        if kind == "events_api":
            self._open[envelope] = frame
            task = asyncio.create_task(self._again(envelope))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await self.wires[-1].send(frame)

    async def _again(self, envelope: str) -> None:
        await asyncio.sleep(self.patience)
        frame = self._open.get(envelope)
        while frame and not self.wires:
            await asyncio.sleep(0.02)
        attempt = (frame or {}).get("retry_attempt", 0) + 1
        if self._open.pop(envelope, None) is None or frame is None or attempt > MOST_RETRIES:
            return
        retry = {"retry_attempt": attempt, "retry_reason": "timeout"}
        await self._deliver(str(uuid.uuid4()), frame["type"], frame["payload"], retry)
