"""A server that asks the model."""

import asyncio
import json
from typing import Any

import pytest

from hermes.config.settings import McpSampling
from hermes.core.errors import Overloaded
from hermes.core.messages import Assistant, Image, Text, ToolCall, ToolResult, User
from hermes.core.model import ModelRequest, Reply, Usage
from hermes.mcp import Caller
from hermes.mcp.session import NO_CALLER
from tests.integration.mcp.stage import Stage, program

SAY_HI = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
    "maxTokens": 50,
}


class Scripted:
    """Answers with one message, and remembers what it was asked."""

    def __init__(self, *parts: Any, finish_reason: str = "stop") -> None:
        self._message = Assistant(parts or (Text("hello"),), finish_reason)
        self.asked: list[ModelRequest] = []
        self.wishes: list[tuple[str, ...]] = []

    async def ask(self, request: ModelRequest, wishes: tuple[str, ...]) -> Reply:
        self.asked.append(request)
        self.wishes.append(wishes)
        return Reply(self._message, Usage(), model="small-1")


async def sample(stage, caller, params, **settings):
    hub = stage.hub(program(sampling=McpSampling(**settings)))
    text = f"ask sampling/createMessage {json.dumps(params)}"
    answer: dict[str, Any] = json.loads(await stage.act(hub, text, caller))
    return answer


async def test_the_model_of_the_session_answers(stage: Stage) -> None:
    model = Scripted()
    params = {**SAY_HI, "systemPrompt": "Be short.", "temperature": 0.5}
    answer = await sample(stage, Caller(sampler=model), params)
    assert answer == {
        "role": "assistant",
        "content": {"type": "text", "text": "hello"},
        "model": "small-1",
        "stopReason": "endTurn",
    }
    (request,) = model.asked
    assert [message.role for message in request.messages] == ["system", "user"]
    assert (request.max_tokens, request.temperature) == (50, 0.5)


async def test_answers_are_not_longer_than_allowed(stage: Stage) -> None:
    model = Scripted()
    params = {**SAY_HI, "maxTokens": 1_000_000}
    await sample(stage, Caller(sampler=model), params, max_tokens_cap=100)
    assert model.asked[0].max_tokens == 100


async def test_sampling_is_refused_when_off_or_without_a_session(stage: Stage) -> None:
    model = Scripted()
    answer = await sample(stage, Caller(sampler=model), SAY_HI, enabled=False)
    assert answer["message"] == "sampling is switched off"
    assert model.asked == []
    answer = await sample(stage, NO_CALLER, SAY_HI)
    assert answer["message"] == "no session is there to ask a model for"


async def test_a_server_may_ask_only_so_often_in_a_minute(stage: Stage) -> None:
    hub = stage.hub(program(sampling=McpSampling(max_rpm=2)))
    caller = Caller(sampler=Scripted())
    text = f"ask sampling/createMessage {json.dumps(SAY_HI)}"
    answers = [json.loads(await stage.act(hub, text, caller)) for _ in range(3)]
    assert [each.get("message") for each in answers] == [
        None,
        None,
        "more than 2 requests a minute",
    ]


HINTS = {"hints": [{"name": "sonnet"}, {"name": "small"}]}


@pytest.mark.parametrize(
    ("settings", "wishes"),
    [
        ({}, ("sonnet", "small")),
        ({"model": "mine"}, ("mine",)),
        ({"allowed_models": ("big-1", "small-1")}, ("small-1",)),
        ({"allowed_models": ("big-1",)}, ()),
    ],
)
async def test_the_settings_say_which_models_a_server_may_have(stage, settings, wishes):
    model = Scripted()
    params = {**SAY_HI, "modelPreferences": HINTS}
    await sample(stage, Caller(sampler=model), params, **settings)
    assert model.wishes == [wishes]


async def test_a_server_runs_its_own_tools_in_a_bounded_number_of_rounds(stage: Stage) -> None:
    tool = {"name": "add", "description": "Add", "inputSchema": {"type": "object"}}
    use = {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1}}
    got = {"type": "tool_result", "toolUseId": "1", "content": [{"type": "text", "text": "2"}]}
    rounds = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [got]}]
    model = Scripted(ToolCall("2", "add", '{"a":2}'), finish_reason="tool_calls")
    caller = Caller(sampler=model)
    first = {**SAY_HI, "tools": [tool]}
    answer = await sample(stage, caller, first, max_tool_rounds=1)
    assert answer["stopReason"] == "toolUse"
    assert answer["content"] == [{"type": "tool_use", "id": "2", "name": "add", "input": {"a": 2}}]
    assert [spec.name for spec in model.asked[0].tools] == ["add"]
    second = {**first, "messages": [*SAY_HI["messages"], *rounds]}  # type: ignore[misc]
    await sample(stage, caller, second, max_tool_rounds=1)
    assert model.asked[1].tools == ()
    assert model.asked[1].messages[1:] == (
        Assistant((ToolCall("1", "add", '{"a":1}'),), "tool_calls"),
        ToolResult("1", "add", "2"),
    )


async def test_pictures_reach_the_model_and_sounds_are_named(stage: Stage) -> None:
    model = Scripted()
    content = [
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    ]
    params = {"messages": [{"role": "user", "content": content}], "maxTokens": 5}
    await sample(stage, Caller(sampler=model), params)
    assert model.asked[0].messages == (
        User((Image("data:image/png;base64,AAAA"), Text("[audio left out]"))),
    )


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({}, "missing required field"),
        ({"messages": []}, "there is no message"),
        ({"messages": [{"role": "robot", "content": {"type": "text"}}]}, "Invalid enum value"),
        (
            {"messages": [{"role": "user", "content": {"type": "text", "text": "x" * 500_000}}]},
            "400000 are allowed",
        ),
    ],
)
async def test_requests_that_make_no_sense_are_refused(stage, params, reason):
    model = Scripted()
    answer = await sample(stage, Caller(sampler=model), params)
    assert reason in answer["message"]
    assert model.asked == []


class Failing:
    async def ask(self, request: ModelRequest, wishes: tuple[str, ...]) -> Reply:
        raise Overloaded("too many users")


class Hanging:
    async def ask(self, request: ModelRequest, wishes: tuple[str, ...]) -> Reply:
        await asyncio.sleep(60)
        raise AssertionError


async def test_a_model_that_fails_or_hangs_is_an_answer_too(stage: Stage) -> None:
    answer = await sample(stage, Caller(sampler=Failing()), SAY_HI)
    assert answer["message"] == "the model could not be asked: too many users"
    answer = await sample(stage, Caller(sampler=Hanging()), SAY_HI, timeout=0.1)
    assert answer["message"] == "the model did not answer in time"
