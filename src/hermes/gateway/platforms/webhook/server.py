"""The HTTP server that calls come to."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermes.gateway.platforms.base import NotConnected
from hermes.gateway.platforms.impatient import Impatient

MOST_CONNECTIONS = 200
"""More are told to come back later."""
DRAIN_SECONDS = 5

Answer = Callable[[Request], Awaitable[Response]]


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok", "platform": "webhook"})


async def _refused(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    return JSONResponse({"error": "no such route" if status == 404 else "not allowed"}, status)


def application(answer: Answer) -> Starlette:
    app = Starlette(
        routes=[
            Route("/health", _health, methods=["GET"]),
            Route("/webhooks/{route}", answer, methods=["POST"]),
        ],
        exception_handlers={404: _refused, 405: _refused},
    )
    app.router.redirect_slashes = False
    return app


class _Quiet(uvicorn.Server):
    """Says when it listens. Signals are the gateway's."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Server:
    """Listens from `start` to `stop`."""

    protocol: type[Impatient] = Impatient

    def __init__(self, answer: Answer, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._answer = answer
        self._task: asyncio.Task[None] | None = None
        self._server: _Quiet | None = None

    async def start(self) -> None:
        """Raises `NotConnected` when the port is taken."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            listening = socket.create_server((self.host, self.port), family=family, backlog=128)
        except OSError as error:
            raise NotConnected(
                f"Webhook cannot listen on {self.host} port {self.port}: {error.strerror}",
                hint="another program has it, or the address is not ours: change WEBHOOK_PORT",
            ) from None
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            application(self._answer),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            http=self.protocol,
            ws="none",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )
        self._server = _Quiet(config)
        self._task = asyncio.create_task(self._serve(self._server, listening), name="webhook")
        await self._server.listening.wait()

    async def _serve(self, server: _Quiet, listening: socket.socket) -> None:
        with listening:
            await server.serve(sockets=[listening])

    async def stop(self) -> None:
        """Calls under way are answered first, for a few seconds."""
        task, self._task = self._task, None
        if task is None or self._server is None:
            return
        self._server.should_exit = True
        await asyncio.wait([task])

    async def probe(self) -> None:
        """Ask ourselves. Raises `NotConnected`."""
        if self._task is None or self._task.done():
            raise NotConnected("Webhook does not listen")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        try:
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection(host, self.port)
                try:
                    writer.write(b"GET /health HTTP/1.0\r\n\r\n")
                    line = await reader.readline()
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            line = b""
        if b" 200 " not in line:
            raise NotConnected(f"Webhook does not answer on port {self.port}")
