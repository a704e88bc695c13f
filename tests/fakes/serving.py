"""What the fakes share: a server on a port of this machine, and lines that can be cut."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from aiohttp import web

Json = dict[str, Any]


class Site:
    """An HTTP server, from `serve` to `stop`."""

    port = 0
    _runner: web.AppRunner | None = None

    async def serve(
        self,
        routes: Iterable[web.AbstractRouteDef],
        *,
        middlewares: Iterable[Any] = (),
        **options: Any,
    ) -> None:
        app = web.Application(middlewares=tuple(middlewares), client_max_size=200_000_000)
        app.add_routes(routes)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05, **options)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def drop(self) -> None:
        """Cut every connection."""
        server = self._runner.server if self._runner else None
        for connection in list(server.connections if server else ()):
            if connection.transport is not None:
                connection.transport.abort()

    async def stop(self) -> None:
        self.drop()
        runner, self._runner = self._runner, None
        if runner:
            await runner.cleanup()

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(100):
            while not true():
                await asyncio.sleep(0.005)


def cut(request: web.Request) -> web.Response:
    """The caller never gets an answer."""
    if request.transport:
        request.transport.abort()
    return web.Response()


class Wire:
    """One WebSocket."""

    def __init__(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        self.request, self.socket = request, socket

    async def send(self, frame: Json) -> None:
        with contextlib.suppress(ConnectionError):  # it was cut
            if not self.socket.closed:
                await self.put(frame)

    async def put(self, frame: Json) -> None:
        await self.socket.send_str(json.dumps(frame))

    def cut(self) -> None:
        cut(self.request)


class Wires(list[Wire]):
    """Those that are open."""

    def __init__(self, kind: type[Wire] = Wire) -> None:
        super().__init__()
        self._kind = kind

    @contextlib.asynccontextmanager
    async def opened(self, request: web.Request) -> AsyncIterator[Wire]:
        socket = web.WebSocketResponse(timeout=0.1)
        await socket.prepare(request)
        wire = self._kind(request, socket)
        self.append(wire)
        try:
            yield wire
        finally:
            self.remove(wire)

    async def send(self, frame: Json) -> None:
        for wire in list(self):
            await wire.send(frame)

    def cut(self) -> None:
        for wire in list(self):
            wire.cut()
