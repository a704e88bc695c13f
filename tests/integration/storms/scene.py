"""What the storms share: a home, an application with a quick clock, and a few tools."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import yaml

from hermes.app.app import App
from hermes.cli.context import ProgressLine
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import ToolError
from hermes.core.ports import Clock
from hermes.core.testing import ModelServer
from hermes.core.tool import Tool, no_concern
from hermes.tools.registry import ToolEntry, registry
from hermes.util.concurrency import SystemClock

WIRES = ("chat_completions", "anthropic_messages", "codex_responses")
TOOLSET = "storm"
SPEED = 200


class QuickClock(SystemClock):
    """Pauses between attempts, and the time an endpoint is left alone, pass in no time."""

    def monotonic(self) -> float:
        return time.monotonic() * SPEED

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / SPEED)


def endpoint(server: ModelServer, name: str, wire: str, model: str, window: int) -> dict[str, Any]:
    return {
        "name": name,
        "base_url": f"{server.url}/v1" if wire != "anthropic_messages" else server.url,
        "api_key": f"key-of-{name}",
        "api_mode": wire,
        "models": {model: {"context_length": window}},
    }


def write_home(folder: Path, **settings: Any) -> Home:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    return Home(folder)


@asynccontextmanager
async def started(home: Home, clock: Clock | None = None) -> AsyncIterator[App]:
    async with App(home, load(home), ProgressLine(StringIO()), str, clock=clock) as app:
        yield app


RAISED: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("no such thing"),
    "OSError": lambda: OSError(28, "No space left on device"),
    "UnicodeError": lambda: UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"),
    "TimeoutError": TimeoutError,
    "ToolError": lambda: ToolError("it does not work", hint="try something else"),
    "CancelledError": lambda: asyncio.CancelledError("something within gave up"),
}


async def storm_note(text: str) -> str:
    """Note `text`."""
    return f"noted {text}"


async def storm_fail(error: str) -> str:
    """Fail in the way of `error`."""
    wrong = RAISED[error]()
    raise wrong


async def storm_flood(size: int) -> str:
    """A text of `size` characters."""
    line = "a line that goes on for a while, with a half \udc80 and a NUL \0 in it\n"
    return (line * (size // len(line) + 1))[:size]


@contextmanager
def storm_tools() -> Iterator[None]:
    """Registered as a plugin does it, as long as the storm lasts."""
    tools = [
        Tool.from_function(function, examine=no_concern, toolset=TOOLSET)
        for function in (storm_note, storm_fail, storm_flood)
    ]
    for tool in tools:
        registry.add(ToolEntry(tool.name, TOOLSET, lambda _bench, made=tool: made))
    try:
        yield
    finally:
        for tool in tools:
            registry.remove(tool.name)
