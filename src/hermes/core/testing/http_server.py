"""An HTTP/1.1 server on loopback, in a thread of its own, that can misbehave on purpose."""

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from http import HTTPStatus
from typing import Any

import msgspec


class Stop(Enum):
    CUT = "close the connection with the body unfinished"
    END = "leave out the rest and finish the body properly"


Action = bytes | float | Stop  #: Bytes are sent, a number is a pause in seconds.


class RecordedRequest(msgspec.Struct, frozen=True):
    method: str
    path: str
    headers: dict[str, str]  #: Names in lower case.
    raw: bytes
    body: Any  #: The JSON of the body; None when it is not JSON.


class Outgoing(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    actions: Sequence[Action]
    chunked: bool = False
    split: int = 0  #: Bytes for each write; 0 sends each action whole.


class LoopbackServer:
    """Calls `respond` for each request, in the thread of the server; connections stay open."""

    def __init__(self, respond: Callable[[RecordedRequest], Outgoing], port: int = 0) -> None:
        self._respond = respond
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port: int = self._socket.getsockname()[1]
        self.connections = 0  #: Connections taken so far.
        self.hangups = 0  #: Clients that left before their reply was complete.
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="loopback-server", daemon=True
        )
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        """End every connection and the thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, sock=self._socket)
        self._ready.set()
        await self._stopping.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        # asyncio sets it only where the socket names its protocol, which this one does not.
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = asyncio.ensure_future(self._converse(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return False when the connection is over."""
        request = await _read(reader)
        outgoing = self._respond(request)
        try:
            complete = await _write(reader, writer, outgoing)
        except ConnectionError:
            self.hangups += 1
            raise
        return complete and request.headers.get("connection", "").lower() != "close"


async def _read(reader: asyncio.StreamReader) -> RecordedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _version = first.split(" ", 2)
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    try:
        body = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        body = None
    return RecordedRequest(method, path, headers, raw, body)


async def _write(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, outgoing: Outgoing
) -> bool:
    """Return False when the body was cut. Raises `ConnectionError` when the client left."""
    writer.write(_head(outgoing))
    for action in outgoing.actions:
        match action:
            case bytes():
                size = outgoing.split or len(action) or 1
                for start in range(0, len(action), size):
                    piece = action[start : start + size]
                    chunk = b"%x\r\n%s\r\n" % (len(piece), piece)
                    writer.write(chunk if outgoing.chunked else piece)
                    await writer.drain()
            case float():
                # A waiting client sends nothing, so anything read means that it left.
                with suppress(TimeoutError):
                    async with asyncio.timeout(action):
                        await reader.read(1)
                        raise ConnectionResetError("the client left")
            case Stop.CUT:
                return False
            case Stop.END:
                break
    writer.write(b"0\r\n\r\n" if outgoing.chunked else b"")
    await writer.drain()
    return True


def _head(outgoing: Outgoing) -> bytes:
    length = sum(len(action) for action in outgoing.actions if isinstance(action, bytes))
    known = outgoing.status in HTTPStatus.__members__.values()
    phrase = HTTPStatus(outgoing.status).phrase if known else "Overloaded"
    size = ("Transfer-Encoding", "chunked") if outgoing.chunked else ("Content-Length", str(length))
    fields = [f"{name}: {value}" for name, value in (*outgoing.headers.items(), size)]
    return "\r\n".join([f"HTTP/1.1 {outgoing.status} {phrase}", *fields, "", ""]).encode("latin-1")
