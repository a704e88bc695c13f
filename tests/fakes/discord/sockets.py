"""Discord's gateway: sessions over WebSockets, with a stream of compressed JSON."""

import json
import secrets
import zlib
from typing import Any

from aiohttp import WSMsgType, web

from tests.fakes.discord.world import Json, World
from tests.fakes.serving import Wire, Wires

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
MESSAGE_CONTENT = 1 << 15


class Session:
    def __init__(self) -> None:
        self.id = secrets.token_hex(8)
        self.sequence = 0
        self.sent: list[Json] = []  #: Dispatched events, for clients that resume.
        self.wire: Wire | None = None

    async def dispatch(self, event: str, data: Any) -> None:
        self.sequence += 1
        frame = {"op": DISPATCH, "t": event, "s": self.sequence, "d": data}
        self.sent.append(frame)
        if self.wire:
            await self.wire.send(frame)


class Compressed(Wire):
    def __init__(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        super().__init__(request, socket)
        self._zlib = zlib.compressobj()

    async def put(self, frame: Json) -> None:
        data = self._zlib.compress(json.dumps(frame).encode()) + self._zlib.flush(zlib.Z_SYNC_FLUSH)
        await self.socket.send_bytes(data)


class Gateway:
    def __init__(self, world: World, token: str) -> None:
        self.world, self.token = world, token
        self.url = ""
        self.sessions: dict[str, Session] = {}
        self.wires = Wires(Compressed)
        self.intents_allowed = True
        self.identified = self.resumed = self.heartbeats = 0
        self.intents = 0

    async def dispatch(self, event: str, data: Any) -> None:
        for session in list(self.sessions.values()):
            await session.dispatch(event, data)

    async def close(self, code: int) -> None:
        for wire in list(self.wires):
            await wire.socket.close(code=code)

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        assert request.query.get("v") == "10"
        assert request.query.get("encoding") == "json"
        assert request.query.get("compress") == "zlib-stream"
        session: Session | None = None
        async with self.wires.opened(request) as wire:
            try:
                await wire.send({"op": HELLO, "d": {"heartbeat_interval": 41250}})
                async for message in wire.socket:
                    if message.type is WSMsgType.TEXT:
                        session = await self._take(wire, json.loads(message.data)) or session
            finally:
                if session and session.wire is wire:
                    session.wire = None
                    if wire.socket.close_code in (1000, 1001):  # a proper goodbye ends it
                        self.sessions.pop(session.id, None)
        return wire.socket

    async def _take(self, wire: Wire, frame: Json) -> Session | None:
        data = frame["d"]
        if frame["op"] == HEARTBEAT:
            self.heartbeats += 1
            await wire.send({"op": ACK, "d": None})
            return None
        if data.get("token") != self.token:
            await wire.socket.close(code=4004)
            return None
        if frame["op"] == IDENTIFY:
            return await self._identify(wire, data)
        if frame["op"] == RESUME:
            return await self._resume(wire, data)
        return None

    async def _identify(self, wire: Wire, data: Json) -> Session | None:
        self.intents = data["intents"]
        if not self.intents_allowed and self.intents & MESSAGE_CONTENT:
            await wire.socket.close(code=4014)
            return None
        self.identified += 1
        session = Session()
        session.wire = wire
        self.sessions[session.id] = session
        servers = list(self.world.servers)
        ready = {
            "v": 10,
            "user": self.world.me,
            "guilds": [{"id": str(server), "unavailable": True} for server in servers],
            "session_id": session.id,
            "resume_gateway_url": self.url,
            "application": {"id": str(self.world.application), "flags": 0},
        }
        await session.dispatch("READY", ready)
        for server in servers:
            await session.dispatch("GUILD_CREATE", self.world.guild_create(server))
        return session

    async def _resume(self, wire: Wire, data: Json) -> Session | None:
        session = self.sessions.get(data["session_id"])
        if session is None:
            await wire.send({"op": INVALID, "d": False})
            return None
        self.resumed += 1
        for frame in [each for each in session.sent if each["s"] > data["seq"]]:
            await wire.send(frame)
        session.wire = wire
        await session.dispatch("RESUMED", {"_trace": []})
        return session
