"""A conversation with plugins that misbehave: it continues, with one report to the user."""

from collections.abc import Callable
from typing import Any

import pytest

from hermes.core.events import ToolFinished, TurnFinished
from hermes.core.messages import ToolCall
from hermes.core.ports import HookName
from hermes.core.testing import ScriptedModel
from hermes.core.tool import Tool
from tests.unit.agent.conftest import MakeAgent, events_of
from tests.unit.plugins.stage import Stage

EVENTS = [str(name) for name in HookName]


def look_tool(ran: list[str]) -> Tool:
    async def look(what: str) -> str:
        """Look at something."""
        ran.append(what)
        return f"saw {what}"

    return Tool.from_function(look)


async def talk(stage, make_agent, model):
    """What the tool answered, what the agent said last, and which calls really ran."""
    ran: list[str] = []
    events = await events_of(make_agent(model, look_tool(ran), hooks=stage.hooks))
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    (end,) = [event for event in events if isinstance(event, TurnFinished)]
    return finished.result, end.text, ran


@pytest.fixture
def model(script: Callable[..., ScriptedModel]) -> ScriptedModel:
    return script([ToolCall("c1", "look", '{"what": "the sea"}'), "done"])


async def test_a_plugin_that_raises_in_every_hook_but_the_veto_changes_nothing(
    stage: Stage, make_agent: MakeAgent, model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    others = [name for name in EVENTS if name != HookName.PRE_TOOL_CALL]
    stage.load_with(
        f"""
        def fail(**kwargs):
            raise RuntimeError("always")

        def register(ctx):
            for event in {others!r}:
                ctx.register_hook(event, fail)
        """
    )
    assert await talk(stage, make_agent, model) == ("saw the sea", "done", ["the sea"])
    assert stage.told
    assert len(set(stage.told)) == len(stage.told)
    assert "other arguments than documented" not in caplog.text


async def test_failing_check_blocks_the_call_and_the_turn_continues(stage, make_agent, model):
    stage.load_with(
        "def fail(**kw): raise RuntimeError('always')\n"
        "def register(ctx): ctx.register_hook('pre_tool_call', fail)\n",
        name="guard",
    )
    result, text, ran = await talk(stage, make_agent, model)
    assert "blocked: plugin guard: its hook pre_tool_call failed: RuntimeError: always" in result
    assert (text, ran) == ("done", [])
    assert len(stage.told) == 1


async def test_a_veto_tells_the_model_why(stage, make_agent, model):
    stage.load_with(
        """
        def check(tool_name, args, task_id):
            if args["what"] == "the sea":
                return {"action": "block", "message": f"{tool_name} not there, says {task_id}"}

        def register(ctx):
            ctx.register_hook("pre_tool_call", check)
        """
    )
    result, _, ran = await talk(stage, make_agent, model)
    assert ("look not there, says s1" in result, ran) == (True, [])


async def test_result_can_be_changed_and_is_passed_on(stage, make_agent, model):
    heard: list[Any] = []
    stage.load_with(
        """
        def change(result, **kwargs):
            return result.upper()

        def register(ctx):
            ctx.register_hook("transform_tool_result", change)
        """
    )
    stage.hooks.add("ear", HookName.POST_TOOL_CALL, lambda **kw: heard.append(kw))
    result, _, _ = await talk(stage, make_agent, model)
    assert result == "SAW THE SEA"
    assert heard == [
        {"tool_name": "look", "args": {"what": "the sea"}, "task_id": "s1", "result": "saw the sea"}
    ]
