"""A hub over scripted servers, and calls of its tools as a turn makes them."""

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from hermes.config.settings import McpServer, McpTools
from hermes.core.cancel import CancelToken
from hermes.core.events import Event
from hermes.core.ports import Clock
from hermes.core.tool import Tool, ToolContext
from hermes.mcp import Caller, McpHub, McpOptions
from hermes.mcp.session import NO_CALLER
from hermes.util.concurrency import SystemClock

PROGRAM = str(Path(__file__).with_name("program.py"))


def program(scene: str = "plain", **fields: Any) -> McpServer:
    return McpServer(command=sys.executable, args=(PROGRAM, scene), **fields)


def only(*names: str, **fields: Any) -> McpTools:
    return McpTools(include=names, **fields)


class ManualClock:
    """A clock that stands still; every sleep returns at once."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Stage:
    """Hubs that end with the test, what they reported the user, and calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notices: list[str] = []
        self.shown: list[str] = []
        self.events: list[Event] = []
        self.clock: Clock = SystemClock()
        self._hubs: list[McpHub] = []

    def hub(self, servers, options=None, **fields):
        named = {"srv": servers} if isinstance(servers, McpServer) else servers
        chosen = McpOptions(
            cache=self.folder / "cache", **{"start_seconds": 30.0, **(options or {})}
        )
        hub = McpHub(named, chosen, tell=self.notices.append, **{"clock": self.clock, **fields})
        self._hubs.append(hub)
        return hub

    async def tools(self, hub: McpHub, caller: Caller = NO_CALLER) -> dict[str, Tool]:
        return {tool.name: tool for tool in await hub.tools(caller)}

    def context(self, session: str = "s", cancel: CancelToken | None = None) -> ToolContext:
        return ToolContext(
            session, "call", cancel or CancelToken(), self.shown.append, self.events.append
        )

    async def run(self, tool: Tool, context: ToolContext | None = None, **arguments: Any) -> str:
        return await tool.handler(context or self.context(), arguments)

    async def act(self, hub: McpHub, text: str, caller: Caller = NO_CALLER) -> str:
        """Has the server do `text`; the answer without its fence."""
        tools = await self.tools(hub, caller)
        return inside(await self.run(tools["mcp_srv_act"], text=text))

    async def close(self) -> None:
        for hub in self._hubs:
            await hub.close()


def inside(result: str) -> str:
    """What stands between the two marks."""
    _head, begin, *lines, end = result.split("\n")
    assert begin.removeprefix("<<<") == end.removesuffix(">>>")
    return "\n".join(lines)


def heard(path: Path) -> list[dict[str, Any]]:
    """What a program with $HEARD was reported."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def methods(path: Path) -> list[str]:
    return [message["method"] for message in heard(path) if "method" in message]


def changed(settings: McpServer, **fields: Any) -> McpServer:
    return msgspec.structs.replace(settings, **fields)
