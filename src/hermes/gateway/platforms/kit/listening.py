"""An HTTP server for platforms that call us."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from hermes.gateway.platforms.base import NotConnected
from hermes.gateway.platforms.impatient import Impatient
from hermes.gateway.platforms.kit.connection import Connection

MOST_CONNECTIONS = 200
"""More are told to come back later."""
DRAIN_SECONDS = 5
"""For calls under way, at the end."""


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


async def listen(connection: Connection, app: Any, host: str, port: int, *, hint: str) -> int:
    """Calls are answered by an ASGI application until the connection ends. Returns the port, which
    is chosen when it is 0. Raises `NotConnected` with the hint when it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise NotConnected(
            f"{connection.label} cannot listen on {host} port {port}: {error.strerror}", hint=hint
        ) from None
    config = uvicorn.Config(
        app,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        http=Impatient,
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    server = _Quiet(config)

    async def serve() -> None:
        with listening:
            await server.serve(sockets=[listening])

    serving = connection.flow(serve())

    async def leave() -> None:
        server.should_exit = True
        await asyncio.wait([serving])

    connection.ends.push_async_callback(leave)
    await connection.until(server.listening)
    return int(listening.getsockname()[1])
