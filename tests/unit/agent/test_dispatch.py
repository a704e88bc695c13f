"""A model that does the same again and again."""

import asyncio
import threading

import pytest

from hermes.core.errors import ToolDenied, ToolError
from hermes.core.events import Notice, TurnFinished
from hermes.core.messages import NOT_THE_USER, Image, ToolCall, ToolResult, User
from hermes.core.testing import Stall
from hermes.core.tool import Effect, Tool, ToolContext
from hermes.util.concurrency import in_thread
from tests.unit.agent.conftest import events_of
from tests.unit.agent.test_loop import call, end_of, tool_that


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


async def test_repeated_failing_call_is_blocked_then_ends_the_turn(script, make_agent):
    tool, runs = counting("read", fails)
    again = [call("read", f"c{n}", '{"path": "x"}') for n in range(5)]
    model = script([*again, "I give up: there is no file x."])
    events = await events_of(make_agent(model, tool))
    end = end_of(events)
    assert len(runs) == 2
    assert "not run again: this exact call failed 2 times" in model.requests[3].messages[-1].text
    assert (end.exit_reason, end.text) == ("repeating", "I give up: there is no file x.")
    assert model.requests[-1].tools == ()


@pytest.mark.parametrize(
    ("arguments", "ran"),
    [
        (['{"path":"x"}', '{"path": "x"}', '{ "path" : "x" }'], 2),
        ([f'{{"path": "{number}"}}' for number in range(5)], 5),
    ],
    ids=["other white space", "other values"],
)
async def test_only_the_same_call_is_blocked(script, make_agent, arguments, ran):
    tool, runs = counting("read", fails)
    model = script([*(call("read", f"c{n}", text) for n, text in enumerate(arguments)), "no"])
    await events_of(make_agent(model, tool))
    assert len(runs) == ran


async def test_failed_call_may_be_retried_after_a_change(script, make_agent):
    read, reads = counting("read", lambda run: fails(run) if run < 3 else "text")
    write, _ = counting("write", lambda _: "created x", effect=Effect.WRITE)
    model = script([call("read"), call("read"), call("write"), call("read"), "done"])
    end = end_of(await events_of(make_agent(model, read, write)))
    assert (len(reads), end.exit_reason) == (3, "answered")


async def test_repeated_identical_change_does_not_reset_failures(script, make_agent):
    read, reads = counting("read", fails)
    write, _ = counting("write", lambda _: "created x", effect=Effect.WRITE)
    pair = [call("write"), call("read")]
    model = script([*pair, *pair, *pair, "no"])
    await events_of(make_agent(model, read, write))
    assert len(reads) == 2


async def test_repeated_identical_result_is_blocked(script, make_agent):
    tool, runs = counting("look", lambda _: "nothing new")
    model = script([*(call("look", f"c{n}") for n in range(6)), "no"])
    await events_of(make_agent(model, tool))
    assert len(runs) == 4
    assert "the same result 4 times" in model.requests[5].messages[-1].text


async def test_repeatable_tool_is_not_blocked(script, make_agent):
    tool, runs = counting("look", lambda _: "still running", repeatable=True)
    model = script([*(call("look", f"c{n}") for n in range(9)), "done"])
    await events_of(make_agent(model, tool))
    assert len(runs) == 9


async def test_tool_that_ignores_a_stop_is_left_running(script, make_agent, log):
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


async def test_nested_tool_call_passes_the_same_policy(script, make_agent):
    inner, _ = counting("inner", lambda _: "from inside")

    async def outer(context: ToolContext) -> str:
        """Calls another."""
        return "outer got: " + await context.invoke("inner", {"path": "a"})

    model = script([ToolCall("c1", "outer", "{}"), "done"])
    await events_of(make_agent(model, Tool.from_function(outer), inner))
    assert model.requests[1].messages[-1].text == "outer got: from inside"


class Kept:
    """A workspace that records its calls."""

    def __init__(self, *notices: str) -> None:
        self.heard: list[str] = []
        self._notices = list(notices)

    def turn_started(self, session_id, reason):
        self.heard.append(f"start {session_id}: {reason}")

    async def before_change(self, call):
        self.heard.append(f"before {call.call_id}")

    async def turn_ended(self):
        self.heard.append("end")
        notices, self._notices = self._notices, []
        return notices


def reading(name: str = "read") -> Tool:
    return tool_that("seen", name)


def writing(**fields) -> Tool:
    return tool_that("done", "write", effect=Effect.WRITE, **fields)


async def test_checkpoint_precedes_only_calls_that_may_change_files(script, make_agent):
    kept = Kept("a note")
    model = script([call("read", "c1"), call("write", "c2"), "ok"])
    events = await events_of(make_agent(model, reading(), writing(), workspace=kept), "tidy up")
    assert kept.heard == ["start s1: tidy up", "before c2", "end", "end"]
    assert [type(event) for event in events[-2:]] == [Notice, TurnFinished]


async def test_tool_can_narrow_its_effect_per_call(script, make_agent):
    kept = Kept()
    model = script([call("write", "c1"), "ok"])
    await events_of(make_agent(model, writing(changes=lambda _: False), workspace=kept))
    assert "before c1" not in kept.heard


async def test_denied_call_does_not_run_and_makes_no_checkpoint(script, make_agent):
    class Never:
        async def permit(self, tool, *_details):
            raise ToolDenied(f"{tool.name} was refused")

    kept = Kept()
    model = script([call("write", "c1"), "ok"])
    write = tool_that(AssertionError("it ran"), "write", effect=Effect.WRITE)
    await events_of(make_agent(model, write, workspace=kept, policy=Never()))
    assert "write was refused" in model.requests[1].messages[-1].text
    assert kept.heard == ["start s1: go", "end", "end"]


async def test_stopped_turn_ends_the_workspace_turn(script, make_agent):
    kept = Kept()
    model = script([Stall()])
    agent = make_agent(model, workspace=kept)
    turn = asyncio.ensure_future(events_of(agent))
    while not model.requests:
        await asyncio.sleep(0)
    agent.interrupt()
    await turn
    assert kept.heard[-1] == "end"


@pytest.mark.parametrize("sees_images", [True, False])
async def test_images_of_tools_follow_their_results(script, make_agent, log, sees_images):
    picture = Image("data:image/png;base64,AAAA")
    added: list[bool] = []

    async def draw(call: ToolContext) -> str:
        added.append(call.add_image(picture))
        return "drawn"

    calls = [ToolCall(f"c{number}", "draw", "{}") for number in range(10)]
    model = script([calls, "a picture"])
    agent = make_agent(model, Tool.from_function(draw), sees_images=sees_images)
    await events_of(agent)
    assert sum(added) == (8 if sees_images else 0), "the number of images is limited"
    last = model.requests[1].messages[-1]
    assert isinstance(last, User) == sees_images
    if sees_images:
        assert last.parts[1:] == (picture,) * 8
        assert last.text.startswith(NOT_THE_USER)
        stored = await log.messages("s1")
        assert [message.role for message in stored[-3:]] == ["tool", "user", "assistant"]
        assert stored[-2].parts[1:] == last.parts[1:]


@pytest.mark.parametrize("blocks", [True, False])
async def test_a_tool_that_hangs_ends_with_an_error_and_the_turn_continues(
    script, make_agent, blocks
):
    release = threading.Event()

    async def hang() -> str:
        await (in_thread(release.wait, 30) if blocks else asyncio.Event().wait())
        return "too late"

    model = script([ToolCall("c1", "hang", "{}"), "without it"])
    events = await events_of(make_agent(model, Tool.from_function(hang, timeout=0.05)))
    release.set()
    assert "hang did not end within 0.05 seconds" in model.requests[1].messages[-1].text
    assert end_of(events).text == "without it"
