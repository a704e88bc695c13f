"""An MCP server over HTTP, in the event loop of the test."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

TOOL = {"name": "act", "description": "Act", "inputSchema": {"type": "object"}}
INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "web", "version": "1"},
}


class Request(msgspec.Struct):
    method: str
    path: str
    headers: dict[str, str]
    message: Any


class Reply:
    """One answer, after which the connection ends."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def status(self, status: int, body: str = "", **headers: str) -> None:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        fields |= {"Content-Length": str(len(body.encode())), "Connection": "close"}
        await self._head(status, fields)
        self._writer.write(body.encode())
        await self._writer.drain()

    async def json(self, message: dict[str, Any], **headers: str) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message})
        await self.status(200, body, Content_Type="application/json", **headers)

    async def begin_events(self, **headers: str) -> None:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        await self._head(
            200, {"Content-Type": "text/event-stream", "Connection": "close", **fields}
        )

    async def event(self, message: Any = None, **fields: Any) -> None:
        """A message, or whatever the fields say."""
        if isinstance(message, dict):
            fields["data"] = json.dumps({"jsonrpc": "2.0", **message})
        lines = [f"{name}: {value}\n" for name, value in fields.items()]
        self._writer.write(("".join(lines) + "\n").encode())
        await self._writer.drain()

    async def _head(self, status: int, fields: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in fields.items())]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await self._writer.drain()


Handler = Callable[[Request, Reply], Awaitable[None]]


class Site:
    """Answers on a free port. Without more it is a server that speaks streamable HTTP."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.handlers: dict[str, Handler] = {"GET": self.get, "POST": self.post}
        self.act: Handler = self.echo
        self.session = "session-1"
        self.answers: dict[Any, asyncio.Future[Any]] = {}
        """What the client answered to requests of ours."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Site":
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def seen(self, method: str) -> list[Request]:
        """Requests by HTTP method, or by the method of their message."""
        return [
            each
            for each in self.requests
            if method in (each.method, each.message and each.message.get("method"))
        ]

    async def until(self, check: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not check():
                await asyncio.sleep(0.01)

    async def ask(self, reply: Reply, method: str, params: dict[str, Any]) -> Any:
        """A request of ours in a stream; the client answers with a POST."""
        self.answers["q"] = asyncio.get_running_loop().create_future()
        await reply.event({"id": "q", "method": method, "params": params})
        return await self.answers["q"]

    async def get(self, _request: Request, reply: Reply) -> None:
        await reply.status(405)

    async def post(self, request: Request, reply: Reply) -> None:
        message = request.message
        match message.get("method"):
            case "initialize":
                await reply.json(
                    {"id": message["id"], "result": INITIALIZED}, MCP_Session_Id=self.session
                )
            case "tools/list":
                await reply.json({"id": message["id"], "result": {"tools": [TOOL]}})
            case "tools/call":
                await self.act(request, reply)
            case None:
                self.answers[message["id"]].set_result(message.get("result"))
                await reply.status(202)
            case _:
                await reply.status(202)

    async def echo(self, request: Request, reply: Reply) -> None:
        await reply.json(result(request))

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                request = await _read(reader)
                self.requests.append(request)
                handler = self.handlers.get(request.method)
                reply = Reply(writer)
                await (handler(request, reply) if handler else reply.status(405))
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


def answering(status: int, body: str = "", **headers: str) -> Handler:
    """Return a handler that gives this answer to every request."""
    return lambda _request, reply: reply.status(status, body, **headers)


def result(request: Request, text: str = "done") -> dict[str, Any]:
    return {"id": request.message["id"], "result": {"content": [{"type": "text", "text": text}]}}


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, path, headers, json.loads(body) if body else None)
