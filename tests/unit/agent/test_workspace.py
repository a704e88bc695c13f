"""Files are kept before a turn changes them."""

import asyncio

from hermes.core.errors import ToolDenied
from hermes.core.events import Notice, TurnFinished
from hermes.core.testing import Stall
from hermes.core.tool import Effect, Tool
from tests.unit.agent.conftest import events_of
from tests.unit.agent.test_turns import call, tool_that


class Kept:
    """A workspace that notes what it is told."""

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


async def test_only_what_may_change_files_is_preceded_by_a_checkpoint(script, make_agent):
    kept = Kept("a note")
    model = script([call("read", "c1"), call("write", "c2"), "ok"])
    events = await events_of(make_agent(model, reading(), writing(), workspace=kept), "tidy up")
    assert kept.heard == ["start s1: tidy up", "before c2", "end", "end"]
    assert [type(event) for event in events[-2:]] == [Notice, TurnFinished]


async def test_a_tool_may_know_better_than_its_effect(script, make_agent):
    kept = Kept()
    model = script([call("write", "c1"), "ok"])
    await events_of(make_agent(model, writing(changes=lambda _: False), workspace=kept))
    assert "before c1" not in kept.heard


async def test_a_denied_call_changes_nothing(script, make_agent):
    class Never:
        async def permit(self, *_details):
            raise ToolDenied("no")

        async def consent(self, *_details):
            raise ToolDenied("no")

    kept = Kept()
    model = script([call("write", "c1"), "ok"])
    await events_of(make_agent(model, writing(), workspace=kept, policy=Never()))
    assert kept.heard == ["start s1: go", "end", "end"]


async def test_a_stopped_turn_ends_too(script, make_agent):
    kept = Kept()
    agent = make_agent(script([Stall()]), workspace=kept)
    turn = asyncio.ensure_future(events_of(agent))
    while not kept.heard:
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    agent.interrupt()
    await turn
    assert kept.heard[-1] == "end"
