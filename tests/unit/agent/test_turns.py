"""What comes out of a turn, whatever the model and the tools do."""

import asyncio
from typing import Any

import pytest

from hermes.core.errors import CredentialRefused, ToolDenied, ToolError, UsageError
from hermes.core.events import ToolFinished, ToolOutput, ToolStarted, TurnFinished, TurnStarted
from hermes.core.hooks import HookName, NoHooks
from hermes.core.messages import Assistant, Text, ToolCall, ToolResult, User
from hermes.core.model import TextDelta
from hermes.core.testing import Stall, Step
from hermes.core.tool import Effect, Tool, ToolContext
from hermes.core.usage import Price, Usage
from tests.unit.agent.conftest import events_of


def call(name: str, call_id: str = "c1", arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def tool_that(answer: Any, name: str = "look", **fields: Any) -> Tool:
    async def run() -> str:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    run.__name__ = name
    return Tool.from_function(run, **fields)


def end_of(events: list) -> TurnFinished:
    assert isinstance(events[0], TurnStarted)
    assert [event for event in events if isinstance(event, TurnFinished)] == [events[-1]]
    return events[-1]


async def test_a_text_ends_the_turn(script, make_agent, log):
    events = await events_of(make_agent(script(["hello there"])), "hi")
    end = end_of(events)
    assert (end.exit_reason, end.text, end.api_calls, end.exit_code) == (
        "answered",
        "hello there",
        1,
        0,
    )
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "hello there"
    assert await log.messages("s1") == (User.say("hi"), Assistant((Text("hello there"),)))


async def test_a_tools_result_goes_back_to_the_model(script, make_agent, log):
    model = script([call("look"), "seen"])
    events = await events_of(make_agent(model, tool_that("42 things")))
    assert end_of(events).text == "seen"
    assert model.requests[1].messages[-1] == ToolResult("c1", "look", "42 things")
    assert [m.role for m in await log.messages("s1")] == ["user", "assistant", "tool", "assistant"]


async def test_everything_is_stored_before_the_next_model_call(script, make_agent, log):
    counts: list[int] = []

    class Watching:
        name, provider = "scripted", "testing"

        def __init__(self, inner):
            self.inner = inner

        async def stream(self, request):
            counts.append(len(await log.messages("s1")))
            async for event in self.inner.stream(request):
                yield event

    await events_of(make_agent(Watching(script([call("look"), "done"])), tool_that("x")))
    assert counts == [1, 3]


async def test_independent_calls_run_side_by_side_and_keep_their_order(script, make_agent):
    both_run = asyncio.Barrier(2)

    async def meet(who: str) -> str:
        await both_run.wait()
        return who

    calls = [call("meet", "a", '{"who":"first"}'), call("meet", "b", '{"who":"second"}')]
    model = script([calls, "ok"])
    end_of(await events_of(make_agent(model, Tool.from_function(meet))))
    assert [m.text for m in model.requests[1].messages[-2:]] == ["first", "second"]


async def test_a_serial_tool_runs_alone_and_in_order(script, make_agent):
    running, seen = 0, []

    async def change(n: int) -> str:
        nonlocal running
        running += 1
        seen.append((n, running))
        await asyncio.sleep(0)
        running -= 1
        return "ok"

    calls = [call("change", f"c{n}", f'{{"n":{n}}}') for n in range(3)]
    model = script([calls, "ok"])
    await events_of(make_agent(model, Tool.from_function(change, serial=True)))
    assert seen == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (call("lok"), "there is no tool 'lok'"),
        (call("look", arguments="{not json"), "JSON"),
        (call("look", arguments="[1]"), "object"),
    ],
)
async def test_a_wrong_call_is_explained_to_the_model(script, make_agent, wrong, told):
    model = script([wrong, "sorry"])
    events = await events_of(make_agent(model, tool_that("never")))
    assert end_of(events).exit_reason == "answered"
    result = model.requests[1].messages[-1]
    assert told in result.text
    assert result.failed


async def test_a_bug_in_a_tool_is_a_result_not_a_crash(script, make_agent):
    model = script([call("look"), "hm"])
    events = await events_of(make_agent(model, tool_that(ZeroDivisionError("by zero"))))
    assert end_of(events).exit_reason == "answered"
    assert "ZeroDivisionError: by zero" in model.requests[1].messages[-1].text


async def test_a_denied_call_does_not_run(script, make_agent):
    class DenyAll:
        async def permit(self, tool: Tool, *_rest: Any) -> None:
            raise ToolDenied(f"{tool.name} was refused")

    model = script([call("look"), "ok"])
    agent = make_agent(model, tool_that(AssertionError("it ran")), policy=DenyAll())
    await events_of(agent)
    assert "look was refused" in model.requests[1].messages[-1].text


async def test_a_hook_can_veto_a_call(script, make_agent):
    fired: list[tuple[HookName, str]] = []

    class Veto:
        async def fire(self, name: HookName, **details: Any) -> list[Any]:
            fired.append((name, details["tool_name"]))
            return [{"action": "block", "message": "not today"}]

    model = script([call("look"), "ok"])
    await events_of(make_agent(model, tool_that("never"), hooks=Veto()))
    assert "not today" in model.requests[1].messages[-1].text
    assert fired == [(HookName.PRE_TOOL_CALL, "look")]


async def test_listeners_hear_of_a_tool_that_failed_and_may_change_what_is_said_of_it(
    script, make_agent
):
    class Masking(NoHooks):
        async def fire(self, name: HookName, **details: Any) -> list[Any]:
            heard.append((name, details.get("result", "")))
            changes = name is HookName.TRANSFORM_TOOL_RESULT
            return [details["result"].replace("s3cret", "***")] if changes else []

    heard: list[tuple[HookName, str]] = []
    model = script([call("look"), "ok"])
    agent = make_agent(model, tool_that(ToolError("no s3cret there")), hooks=Masking())
    await events_of(agent)
    assert "no *** there" in model.requests[1].messages[-1].text
    assert [name for name, _ in heard] == [
        HookName.PRE_TOOL_CALL, HookName.POST_TOOL_CALL, HookName.TRANSFORM_TOOL_RESULT,
    ]  # fmt: skip
    assert "no s3cret there" in heard[1][1]


async def test_a_hook_that_hangs_does_not_hold_up_a_stop(script, make_agent):
    class Hanging(NoHooks):
        async def fire(self, name: HookName, **_details: Any) -> list[Any]:
            if name is HookName.POST_TOOL_CALL:
                agent.interrupt()
                await asyncio.Event().wait()
            return []

    agent = make_agent(script([call("look")]), tool_that("seen"), hooks=Hanging())
    events = await events_of(agent)
    assert events[-1].exit_reason == "interrupted"
    assert agent.history[-1].text == "seen", "what the tool found is kept"


async def test_output_of_a_running_tool_is_an_event(script, make_agent):
    async def noisy(context: ToolContext) -> str:
        context.output("half way")
        return "done"

    agent = make_agent(script([call("noisy"), "ok"]), Tool.from_function(noisy))
    events = await events_of(agent)
    kinds = [type(e) for e in events if isinstance(e, ToolStarted | ToolOutput | ToolFinished)]
    assert kinds == [ToolStarted, ToolOutput, ToolFinished]


async def test_a_model_error_ends_the_turn_with_its_exit_code(script, make_agent, log):
    refused = CredentialRefused("acme refused the key", hint="set a key")
    end = end_of(await events_of(make_agent(script([refused]))))
    assert (end.exit_reason, end.exit_code, end.hint) == ("failed", 4, "set a key")
    assert [m.role for m in await log.messages("s1")] == ["user"]


async def test_the_step_limit_ends_with_a_summary_without_tools(script, make_agent):
    model = script([call("look", f"c{n}") for n in range(2)] + ["so far: nothing"])
    end = end_of(await events_of(make_agent(model, tool_that("x"), max_iterations=2)))
    assert (end.exit_reason, end.text) == ("max_iterations", "so far: nothing")
    assert model.requests[-1].tools == ()


async def test_usage_and_cost_add_up_over_the_turn(script, make_agent):
    usage = Usage(input=1000, output=100)
    steps = [Step((call("look"),), usage=usage), Step((Text("ok"),), usage=usage)]
    price = Price(input=1.0, output=10.0, cache_read=0.1, cache_write=1.25)
    end = end_of(await events_of(make_agent(script(steps, price=price), tool_that("x"))))
    assert end.usage == Usage(input=2000, output=200)
    assert end.cost_usd == pytest.approx(0.004)


async def test_a_stop_reaches_a_stalled_stream(script, make_agent, log):
    agent = make_agent(script([Step((Text("never finished"),), faults=(Stall(1),))]))
    events = []
    async for event in agent.run(User.say("go")):
        events.append(event)
        if isinstance(event, TextDelta):
            assert agent.interrupt("enough")
    end = end_of(events)
    assert (end.exit_reason, end.error, end.exit_code) == ("interrupted", "enough", 130)
    assert [m.role for m in await log.messages("s1")] == ["user"]


async def test_a_stop_reaches_a_running_tool_and_the_history_stays_valid(script, make_agent, log):
    async def forever() -> str:
        await asyncio.Event().wait()
        return "never"

    agent = make_agent(
        script([[call("forever", "a"), call("look", "b")]]),
        Tool.from_function(forever),
        tool_that("quick"),
    )
    events = []
    async for event in agent.run(User.say("go")):
        events.append(event)
        if isinstance(event, ToolFinished) and event.name == "look":
            agent.interrupt()
    assert end_of(events).exit_reason == "interrupted"
    results = {m.call_id: m.text for m in agent.history if isinstance(m, ToolResult)}
    assert results == {"a": "[interrupted: this call did not finish]", "b": "quick"}
    assert len(await log.messages("s1")) == 4


async def test_the_next_turn_continues_the_conversation(script, make_agent):
    model = script(["one", "two"])
    agent = make_agent(model)
    await events_of(agent, "first")
    await events_of(agent, "second")
    said = [m.text for m in model.requests[1].messages]
    assert said == ["be brief", "first", "one", "second"]


async def test_two_turns_at_once_are_refused(script, make_agent):
    agent = make_agent(script(["one"]))
    running = agent.run(User.say("go"))
    await anext(running)
    with pytest.raises(UsageError, match="already running"):
        await anext(agent.run(User.say("again")))
    assert [e async for e in running][-1].exit_reason == "answered"


def test_the_effect_of_a_tool_is_reading_unless_said():
    assert tool_that("x").effect is Effect.READ


async def test_a_bug_in_the_model_layer_ends_the_turn_too(script, make_agent):
    end = end_of(await events_of(make_agent(script([RuntimeError("oops")]))))
    assert (end.exit_reason, end.error) == ("failed", "internal error: RuntimeError: oops")
    assert end.exit_code == 1


async def test_a_store_that_fails_ends_the_turn_before_anything_is_done(script, make_agent, log):
    agent = make_agent(script([]))
    log.close()
    end = end_of(await events_of(agent))
    assert (end.exit_reason, end.exit_code) == ("failed", 6)
