"""A conversation with tools over each wire: stored, resumed, and cached at the endpoint."""

import asyncio
import inspect
import json
import shlex
import sys
import traceback

import pytest

from hermes.app.sessions import SessionRequest
from hermes.core.events import Event, ModelCalled, ToolFinished, TurnFinished
from hermes.core.messages import Text, ToolCall, User
from hermes.core.model import TextDelta, Usage
from hermes.core.testing import ModelServer, Stall, Step
from tests.integration.providers.acp.fake_agent import PROGRAM
from tests.integration.providers.conftest import started
from tests.unit.providers.wire.calling import MODES, THOUGHTS


def lab(server: ModelServer, mode: str) -> dict:
    """A named endpoint that speaks `mode`."""
    own = {
        "name": "lab",
        "base_url": f"{server.url}/v1",
        "api_key": "k",
        "api_mode": mode,
        "models": {"claude-sonnet-5-5": {"price": {"input": 1, "output": 2}}},
    }
    return {
        "custom_providers": [own],
        "model": {"provider": "lab", "default": "claude-sonnet-5-5"},
    }


@pytest.mark.parametrize("mode", MODES)
async def test_a_delta_passes_no_generator_between_the_wire_and_the_surface(mode, home, tmp_path):
    generators: list[list[str]] = []

    def emit(event: Event) -> None:
        if isinstance(event, TextDelta):
            stack = [frame.f_code for frame, _line in traceback.walk_stack(None)]
            flags = inspect.CO_ASYNC_GENERATOR | inspect.CO_GENERATOR
            names = [code.co_qualname for code in stack if code.co_flags & flags]
            generators.append(names)

    with ModelServer(["hello there"]) as server:
        async with started(home(**lab(server, mode), budget={"turn_usd": 100})) as app:
            agent = await app.agent(SessionRequest(working_folder=tmp_path))
            await agent.turn(User.say("hi"), emit)
    assert generators
    assert not any(generators), generators


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_conversation_is_stored_resumed_and_cached(mode, home, ask, tmp_path):
    (tmp_path / "note.txt").write_text("the word is heron\n" + "and more of the same\n" * 400)
    calls = (
        ToolCall("call_1", "read_file", '{"path":"note.txt"}'),
        ToolCall("call_2", "search_files", '{"pattern":"heron"}'),
    )
    script = [Step((THOUGHTS[mode], *calls)), "The word is heron.", "You are welcome."]
    with ModelServer(script) as server:
        config = home(**lab(server, mode))
        first = (await ask(config, "what is the word?"))[-1]
        again = (await ask(config, "thanks", resume=first.session_id))[-1]
        bodies = [json.dumps(call.body) for call in server.calls]
        report = server.session_report()
        assert server.connections <= 2
    assert isinstance(first, TurnFinished)
    assert (first.text, again.text) == ("The word is heron.", "You are welcome.")
    assert first.cost_usd > 0
    # Both results went back, and the thinking as it came, also after the restart.
    assert all("the word is heron" in body for body in bodies[1:])
    mark = {"codex_responses": "gAAAA"}.get(mode, "c2ln")
    assert all(mark in body for body in bodies[1:])
    # Everything said before came from the cache.
    assert report.usage.cache_read > 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("deltas", [0, 1])
async def test_roles_alternate_after_a_stopped_answer(mode, deltas, home, ask, tmp_path):
    stalled = Step((Text("never finished"),), faults=(Stall(deltas),))
    with ModelServer([stalled, "Again.", "And again."]) as server:
        config = home(**lab(server, mode))
        async with started(config) as app:
            agent = await app.agent(SessionRequest(working_folder=tmp_path))
            stop = asyncio.get_running_loop().call_later

            def emit(event: Event) -> None:
                if isinstance(event, TextDelta if deltas else ModelCalled):
                    stop(0.2, agent.interrupt)

            await agent.turn(User.say("begin"), emit)
            [event async for event in agent.run(User.say("go on"))]
            session_id = agent.session_id
        await ask(config, "and once more", resume=session_id)
        sent = [call.body.get("messages") or call.body["input"] for call in server.calls]
    dialogue = [[each for each in body if each["role"] != "system"] for body in sent]
    expected = ["user", "assistant", "user", "assistant", "user"]
    count = 3 if deltas else 1
    assert [[each["role"] for each in body] for body in dialogue] == [
        ["user"],
        expected[:count],
        expected[: count + 2],
    ]
    assert ("[interrupted by the user]" in json.dumps(dialogue[1])) == bool(deltas)
    assert all("begin" in json.dumps(body) for body in dialogue)


@pytest.mark.parametrize("mode", MODES)
async def test_usage_with_cache_and_reasoning_tokens_reaches_the_books(mode, home, ask):
    usage = Usage(input=100, output=50, cache_read=1000, cache_write=0, reasoning=20)
    with ModelServer([Step((Text("hi"),), usage=usage)]) as server:
        end = (await ask(home(**lab(server, mode))))[-1]
    assert (end.usage.input, end.usage.output, end.usage.cache_read) == (100, 50, 1000)
    assert end.usage.reasoning == 20


async def test_an_agent_on_this_machine_answers_and_hermes_runs_the_tools(
    home, ask, tmp_path, monkeypatch
):
    (tmp_path / "note.txt").write_text("the word is heron\n")
    call = '```tool_call\n{"name": "read_file", "arguments": {"path": "note.txt"}}\n```'
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"turns": [[["say", call]], [["say", "It is heron."]]]}))
    command = [sys.executable, "-I", str(PROGRAM), str(plan), str(tmp_path / "agent.log")]
    monkeypatch.setenv("HERMES_COPILOT_ACP_COMMAND", command[0])
    monkeypatch.setenv("HERMES_COPILOT_ACP_ARGS", shlex.join(command[1:]))
    events = await ask(home(model={"provider": "copilot-acp"}), "what is the word?")
    (reported,) = [event for event in events if isinstance(event, ToolFinished)]
    assert "the word is heron" in reported.result
    assert (events[-1].text, events[-1].cost_usd) == ("It is heron.", 0)
