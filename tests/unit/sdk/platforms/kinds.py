"""A small platform, and a connection of each kind there is: we ask it (long polling), it tells us
(WebSocket), it calls us (HTTP), or a program between us speaks to it (a bridge)."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
from aiohttp import web
from starlette.requests import Request
from starlette.responses import Response

from hermes.config.schema import declarations
from hermes.sdk import platforms
from hermes.sdk.platforms import (
    AdapterContext,
    Capabilities,
    ChatTarget,
    ConnectedAdapter,
    Connection,
    CredentialsRefused,
    MessageEvent,
    NotConnected,
    OutgoingMessage,
    PlatformManifest,
    Receive,
    SessionSource,
    deliver_until_accepted,
    serve_http,
    translate_errors,
)
from hermes.sdk.testing.platforms.harness import HastyClock
from tests.fakes.serving import Site, Wires

TOKEN = "right"
REFUSED = 401


class Platform(Site):
    """Delivers messages to the current listener, or queues them until there is one."""

    def __init__(self) -> None:
        self.wires = Wires()
        self.said: asyncio.Queue[str] = asyncio.Queue()
        self.hook = ""

    async def start(self) -> None:
        await self.serve(
            [web.get("/poll", self._poll), web.get("/line", self._line)], handler_cancellation=True
        )

    async def deliver(self) -> None:
        """By a call, until it is taken."""
        text = await self.said.get()
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.post(self.hook, data=text) as answer:
                    if answer.status == 200:
                        return

    async def _poll(self, request: web.Request) -> web.Response:
        if request.query["token"] != TOKEN:
            return web.Response(status=REFUSED)
        waits = "wait" in request.query
        return web.Response(text=await self.said.get() if waits else "")

    async def _line(self, request: web.Request) -> web.StreamResponse:
        if request.query["token"] != TOKEN:
            return web.Response(status=REFUSED)
        async with self.wires.opened(request) as wire:
            while True:
                await wire.socket.send_str(await self.said.get())
        return wire.socket


def of_library(error: Exception) -> NotConnected | CredentialsRefused:
    if getattr(error, "status", 0) == REFUSED:
        return CredentialsRefused("the token is refused")
    return NotConnected(f"not to be reached: {type(error).__name__}")


class Small(Connection):
    """What the kinds share."""

    def __init__(self, context: AdapterContext, receive: Receive) -> None:
        super().__init__(context, receive)
        self.token, self.url = context.variable("TOKEN") or "", context.variable("URL") or ""
        self.identities = (self.token,)

    async def take(self, text: str) -> None:
        source = SessionSource(self.context.manifest.name, "a chat")
        await deliver_until_accepted(
            self.receive, MessageEvent(source, text, text, addressed=True), asyncio.sleep
        )


class Asking(Small):
    async def open(self) -> None:
        self.session = await self.resources.enter_async_context(aiohttp.ClientSession())
        self.run_until_closed(self.retry_forever(self.once, HastyClock().sleep))
        await self.wait_for(self.first_attempt_done)

    async def once(self) -> None:
        wait = "&wait" if self.first_attempt_done.is_set() and not self.trouble else ""
        with translate_errors(of_library, (aiohttp.ClientError,)):
            url = f"{self.url}/poll?token={self.token}{wait}"
            async with self.session.get(url, raise_for_status=True) as answer:
                text = await answer.text()
        self.mark_working()
        if text:
            await self.take(text)


class Listening(Small):
    async def open(self) -> None:
        self.session = await self.resources.enter_async_context(aiohttp.ClientSession())
        self.run_until_closed(self.retry_forever(self.once, HastyClock().sleep))
        await self.wait_for(self.first_attempt_done)

    async def once(self) -> None:
        with translate_errors(of_library, (aiohttp.ClientError,)):
            async with self.session.ws_connect(f"{self.url}/line?token={self.token}") as line:
                self.mark_working()
                async for message in line:
                    await self.take(message.data)
        raise NotConnected("the line broke")


class Called(Small):
    async def open(self) -> None:
        if self.token != TOKEN:
            raise CredentialsRefused("the token is refused")
        server = await serve_http(self, self.answer, "127.0.0.1", 0, hint="take another port")
        self.port = server.port

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        await self.take((await Request(scope, receive).body()).decode())
        await Response()(scope, receive, send)


class Bridged(Small):
    """The program reads lines, of which it says each again; `!` ends it."""

    PROGRAM = """
import sys
if sys.argv[1] != "right":
    sys.exit(3)
print("ready", flush=True)
for line in sys.stdin:
    if line == "!\\n":
        break
    print(line, end="", flush=True)
"""
    process: asyncio.subprocess.Process

    async def open(self) -> None:
        self.run_until_closed(self.retry_forever(self.once, HastyClock().sleep))
        await self.wait_for(self.first_attempt_done)

    async def once(self) -> None:
        async with self.program() as process:
            output = process.stdout
            assert output
            while line := (await output.readline()).decode().strip():
                if line == "ready":
                    self.mark_working()
                else:
                    await self.take(line)
            if await process.wait() == 3:
                raise CredentialsRefused("the token is refused")
        raise NotConnected("the bridge has ended")

    @asynccontextmanager
    async def program(self) -> AsyncIterator[asyncio.subprocess.Process]:
        pipe = asyncio.subprocess.PIPE
        words = (sys.executable, "-c", self.PROGRAM, self.token)
        self.process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe)
        try:
            yield self.process
        finally:
            if self.process.returncode is None:
                self.process.kill()
            await self.process.wait()


class SmallAdapter(ConnectedAdapter[Small]):
    def __init__(self, context: AdapterContext, kind: type[Small]) -> None:
        super().__init__(context)
        self._kind = kind

    def make_connection(self, receive: Receive) -> Small:
        return self._kind(self.context, receive)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        return f"{self.connection.token}:{key}"


MANIFEST = PlatformManifest("small", "Small", "nowhere", Capabilities(max_chars=100))
DIALECTS: dict[str, Any] = {"plain": "plain", "markdown": "markdown"} | {
    manifest.name: manifest.capabilities.dialect for manifest in cast("Any", declarations())
}


def convert(text: str, dialect: str) -> str:
    """Render Markdown in the dialect of a bundled platform, or in one of the general ones."""
    return platforms.convert(text, DIALECTS[dialect])
