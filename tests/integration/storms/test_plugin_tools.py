"""Failing tools of plugins: the model gets the error and the turn continues."""

import asyncio

import pytest

from hermes.app.sessions import SessionRequest
from hermes.core.events import ToolFinished, TurnFinished
from hermes.core.messages import ToolCall, User
from hermes.core.testing import ModelServer
from hermes.tools.registry import registry
from tests.integration.storms.histories import check_request
from tests.integration.storms.scene import TOOLSET, endpoint, started, write_home

ERRORS = (
    ValueError("no such thing"), StopIteration(), StopAsyncIteration(), RecursionError("too deep"),
    MemoryError(), asyncio.CancelledError("it gave up"), SystemExit(3),
)  # fmt: skip


@pytest.mark.parametrize("is_async", [False, True], ids=["in a thread", "async"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_any_exception_of_a_tool_is_reported_to_the_model(
    hermes_home, tmp_path, error, is_async
):
    def blocking(_arguments, **_details) -> str:
        raise error

    async def waiting(_arguments, **_details) -> str:
        raise error

    handler = waiting if is_async else blocking
    schema = {"type": "object", "properties": {}}
    registry.register("storm_plugin", TOOLSET, schema, handler, is_async=is_async)
    try:
        with ModelServer([ToolCall("c1", "storm_plugin", "{}"), "Never mind."]) as server:
            home = write_home(
                hermes_home,
                model={"provider": "custom:main", "default": "lab-model"},
                custom_providers=[
                    endpoint(server, "main", "chat_completions", "lab-model", 20_000)
                ],
                approvals={"mode": "off"},
                sessions={"auto_title": False},
            )
            async with started(home) as app, asyncio.timeout(100):
                agent = await app.agent(SessionRequest(tmp_path, toolsets=(TOOLSET,)))
                events = [event async for event in agent.run(User.say("go"))]
            for request in server.calls:
                check_request(request)
    finally:
        registry.remove("storm_plugin")
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.failed
    end = events[-1]
    assert isinstance(end, TurnFinished)
    assert (end.exit_reason, end.text) == ("answered", "Never mind.")
