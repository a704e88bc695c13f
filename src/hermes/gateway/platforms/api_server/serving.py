"""uvicorn in our own event loop: no signal handlers, no log set-up, no patience for idlers."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import h11
import msgspec
import uvicorn

from hermes.gateway.platforms.api_server.door import SAFE
from hermes.gateway.platforms.api_server.exchange import CLOSE, JSON
from hermes.gateway.platforms.api_server.options import Options
from hermes.gateway.platforms.api_server.refusals import invalid
from hermes.gateway.platforms.base import NotConnected
from hermes.gateway.platforms.impatient import Impatient

KEEP_ALIVE_SECONDS = 75
BACKLOG = 2048
MOST_HEAD_BYTES = 65536
LAST_SECONDS = 10
"""After what was to be drained is: connections that are still open are cut then."""


class _Protocol(Impatient):
    def send_400_response(self, _msg: str) -> None:
        """What is no HTTP gets an answer of the usual form."""
        said = invalid("this is no valid HTTP request", code="invalid_http").answer
        body = msgspec.json.encode(said)
        headers = [("Content-Type", JSON), ("Content-Length", str(len(body))), *SAFE, *CLOSE]
        with contextlib.suppress(h11.LocalProtocolError):  # an answer is under way
            head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._leaving = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # they are the gateway's

    async def main_loop(self) -> None:
        """Wakes once a second, for the date in the headers, instead of ten times."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._leaving.wait()

    def leave(self) -> None:
        self.should_exit = True
        self._leaving.set()


class Serving:
    """A server at work."""

    def __init__(self, server: _Server, task: "asyncio.Task[None]", port: int) -> None:
        self._server, self._task, self.port = server, task, port

    @property
    def alive(self) -> bool:
        return self._server.started and not self._task.done()

    def stop_accepting(self) -> None:
        self._server.leave()

    async def close(self) -> None:
        """Answers under way get `LAST_SECONDS`."""
        self._server.leave()
        _done, pending = await asyncio.wait([self._task], timeout=LAST_SECONDS)
        if pending:
            self._server.force_exit = True
            state = self._server.server_state
            for connection in tuple(state.connections):
                connection.transport.abort()
            for task in tuple(state.tasks):
                task.cancel()
            await asyncio.wait([self._task])


async def serve(application: Any, options: Options) -> Serving:
    """Returns when requests are answered. Raises `NotConnected` when the address is taken."""
    sock = _listening(options)
    config = uvicorn.Config(
        application,
        http=type(
            "Protocol",
            (_Protocol,),
            {"head_seconds": options.head_seconds, "send_seconds": options.send_seconds},
        ),
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
    )
    server = _Server(config)
    task = asyncio.ensure_future(server.serve(sockets=[sock]))
    while not server.started:
        if task.done():
            sock.close()
            raise NotConnected("the server did not start") from task.exception()
        await asyncio.sleep(0)
    return Serving(server, task, sock.getsockname()[1])


def _listening(options: Options) -> socket.socket:
    host = "127.0.0.1" if options.host.lower() == "localhost" else options.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, options.port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise NotConnected(
            f"cannot listen on {options.host}:{options.port}: {reason}",
            hint="another program may use the port; API_SERVER_PORT takes another one",
        ) from error
    sock.setblocking(False)
    return sock
