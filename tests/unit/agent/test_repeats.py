"""A model that does the same again and again."""

import asyncio

from hermes.core.errors import ToolError
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.tool import Effect, Tool, ToolContext
from tests.unit.agent.conftest import events_of
from tests.unit.agent.test_turns import call, end_of


def counting(name: str, outcome, **fields) -> tuple[Tool, list[int]]:
    """A tool that notes each run; `outcome` gives its text or raises."""
    runs: list[int] = []

    async def run(path: str = "") -> str:
        runs.append(1)
        return outcome(len(runs))

    run.__name__ = name
    return Tool.from_function(run, **fields), runs


def fails(_run: int) -> str:
    raise ToolError("there is no file x")


async def test_the_same_failing_call_is_stopped_and_then_the_turn_is(script, make_agent):
    tool, runs = counting("read", fails)
    again = [call("read", f"c{n}", '{"path": "x"}') for n in range(5)]
    model = script([*again, "I give up: there is no file x."])
    events = await events_of(make_agent(model, tool))
    end = end_of(events)
    assert len(runs) == 2
    assert "not run again: this very call failed 2 times" in model.requests[3].messages[-1].text
    assert (end.exit_reason, end.text) == ("repeating", "I give up: there is no file x.")
    assert model.requests[-1].tools == ()


async def test_blanks_in_the_arguments_do_not_make_another_call(script, make_agent):
    tool, runs = counting("read", fails)
    spellings = ['{"path":"x"}', '{"path": "x"}', '{ "path" : "x" }']
    model = script([*(call("read", f"c{n}", text) for n, text in enumerate(spellings)), "no"])
    await events_of(make_agent(model, tool))
    assert len(runs) == 2


async def test_another_call_is_not_held_back(script, make_agent):
    tool, runs = counting("read", fails)
    model = script([*(call("read", f"c{n}", f'{{"path": "{n}"}}') for n in range(5)), "no"])
    await events_of(make_agent(model, tool))
    assert len(runs) == 5


async def test_after_a_change_the_failed_call_may_be_tried_again(script, make_agent):
    read, reads = counting("read", lambda run: fails(run) if run < 3 else "text")
    write, _ = counting("write", lambda _: "created x", effect=Effect.WRITE)
    model = script([call("read"), call("read"), call("write"), call("read"), "done"])
    end = end_of(await events_of(make_agent(model, read, write)))
    assert (len(reads), end.exit_reason) == (3, "answered")


async def test_the_same_change_over_and_over_is_no_news(script, make_agent):
    read, reads = counting("read", fails)
    write, _ = counting("write", lambda _: "created x", effect=Effect.WRITE)
    pair = [call("write"), call("read")]
    model = script([*pair, *pair, *pair, "no"])
    await events_of(make_agent(model, read, write))
    assert len(reads) == 2


async def test_the_same_result_again_and_again_is_stopped_too(script, make_agent):
    tool, runs = counting("look", lambda _: "nothing new")
    model = script([*(call("look", f"c{n}") for n in range(6)), "no"])
    await events_of(make_agent(model, tool))
    assert len(runs) == 4
    assert "the same result 4 times" in model.requests[5].messages[-1].text


async def test_a_tool_made_for_looking_again_may_be_called_again(script, make_agent):
    tool, runs = counting("look", lambda _: "still running", repeatable=True)
    model = script([*(call("look", f"c{n}") for n in range(9)), "done"])
    await events_of(make_agent(model, tool))
    assert len(runs) == 9


async def test_a_tool_that_does_not_stop_is_left_behind(script, make_agent, log):
    """Its cleaning up must not hold up `/stop`."""
    going, release = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        """Does not hear."""
        try:
            going.set()
            await asyncio.Event().wait()
        finally:
            await release.wait()
        return ""

    agent = make_agent(script([call("stubborn")]), Tool.from_function(stubborn))
    turn = asyncio.ensure_future(events_of(agent))
    await going.wait()
    agent.interrupt("stopped by the user")
    events = await turn
    assert end_of(events).exit_reason == "interrupted"
    assert (await log.messages("s1"))[-1] == ToolResult(
        "c1", "stubborn", "[interrupted: this call did not finish]", failed=True
    )
    release.set()


async def test_one_tool_can_call_another_under_the_same_policy(script, make_agent):
    inner, _ = counting("inner", lambda _: "from inside")

    async def outer(context: ToolContext) -> str:
        """Calls another."""
        return "outer got: " + await context.invoke("inner", {"path": "a"})

    model = script([ToolCall("c1", "outer", "{}"), "done"])
    await events_of(make_agent(model, Tool.from_function(outer), inner))
    assert model.requests[1].messages[-1].text == "outer got: from inside"
