"""Call our tools as the agent does for a model, without the store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.tools_worker import Call
from hermes.agent import IterationBudget, ToolDispatcher, Turn
from hermes.app.sessions import SessionRequest
from hermes.app.tools import SessionTools, build_approvals, build_toolbox, find_toolsets
from hermes.app.workspace import make_workspace
from hermes.config.home import Home, ensure_hermes_home
from hermes.config.loader import load
from hermes.core.events import Event, ToolFinished
from hermes.core.messages import Assistant, ToolCall
from hermes.core.model import ModelRequest, Reply, Usage
from hermes.core.ports import NoHooks
from hermes.security import Redactor
from hermes.tools import SessionServices
from hermes.util.concurrency import SystemClock


@asynccontextmanager
async def caller() -> AsyncIterator[Call]:
    home = Home.resolve(None)
    ensure_hermes_home(home)
    loaded = load(home)
    place = make_workspace(loaded, home, Path.cwd(), print)
    request = SessionRequest(Path.cwd())
    session_tools = SessionTools(loaded, home, place, request, SessionServices())
    toolsets = find_toolsets(loaded)
    assembled = toolsets.make(toolsets.names("cli"), session_tools.deps)
    toolbox = build_toolbox(assembled, session_tools.deps, home, Redactor().redact)
    policy = build_approvals(loaded, home, NoHooks())
    dispatcher = ToolDispatcher(toolbox, policy, None, NoHooks(), SystemClock())

    async def call(name: str, arguments: dict[str, Any]) -> str:
        turn = Turn("bench", (), (), ModelRequest(()), IterationBudget(90), 90)
        text = msgspec.json.encode(arguments).decode()
        turn.add_reply(Reply(Assistant((ToolCall("c1", name, text),)), Usage()))
        events: list[Event] = []
        await dispatcher.run(turn, events.append)
        return next(event.result for event in events if isinstance(event, ToolFinished))

    try:
        yield call
    finally:
        await session_tools.close()
