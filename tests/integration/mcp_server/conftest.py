"""`hermes mcp serve` as a process, over both transports, and clients of both eras."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import msgspec
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from hermes.config.home import Home
from hermes.core.messages import Assistant, Text, User
from hermes.sdk.platforms import SessionSource
from hermes.store import open_store
from tests.screens.chat import HERMES

TOKEN = "a-token-of-the-tests-1234567890"
KEY = "agent:main:local:dm:anna"
ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}  #: Modes of the client, and their versions.


class HttpServe(NamedTuple):
    url: str
    token: str
    notes: list[str]  #: What the process said before it was ready.

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@pytest.fixture
def home(hermes_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Home:
    """A home with a chat of two messages, on the local platform."""
    hermes_home.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("LOCAL_SOCKET", str(tmp_path / "s"))
    monkeypatch.setenv("LOCAL_ALLOWED_USERS", "anna")
    return Home(hermes_home)


@pytest.fixture
async def chat(home: Home) -> str:
    store = open_store("", home.state_db)
    await store.create("s1", source="local", model="m", system_prompt="")
    await store.append("s1", User.say("is there soup?"))
    await store.append("s1", Assistant((Text("yes, there is"),)))
    origin = SessionSource("local", "anna", "dm", "anna", "Anna")
    await store.chats.bind(KEY, "s1", msgspec.json.encode(origin), 1_000.0)
    store.close()
    return KEY


@asynccontextmanager
async def serve_http(*words: str, address: str = "0") -> AsyncIterator[HttpServe]:
    process = await asyncio.create_subprocess_exec(
        *(*HERMES, "mcp", "serve", "--http", address, *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    assert process.stdout is not None
    try:
        notes: list[str] = []
        while not (found := re.search(r"at (http://\S+)", notes[-1] if notes else "")):
            line = await process.stderr.readline()
            assert line, notes
            notes.append(line.decode().rstrip())
        made = re.search(r"MCP_SERVER_TOKEN: (\S+)", "\n".join(notes))
        yield HttpServe(found[1], made[1] if made else TOKEN, notes)
    finally:
        process.terminate()
        assert await process.wait() == 0
        assert await process.stdout.read() == b""


def stdio_parameters(*words: str) -> StdioServerParameters:
    command = [*HERMES, "mcp", "serve", *words]
    return StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))


Connect = Callable[..., Any]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Starts the server and a client of the SDK: `client = await connect("http", "auto")`."""
    async with AsyncExitStack() as stack:

        async def start(transport: str, mode: str = "auto", *words: str, **options: Any) -> Client:
            if transport == "stdio":
                place: Any = stdio_client(stdio_parameters(*words))
            else:
                server = await stack.enter_async_context(serve_http(*words))
                http = httpx2.AsyncClient(headers=server.headers, timeout=60)
                await stack.enter_async_context(http)
                place = streamable_http_client(server.url, http_client=http)
            return await stack.enter_async_context(Client(place, mode=mode, **options))

        yield start
