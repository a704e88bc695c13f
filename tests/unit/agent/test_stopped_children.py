"""Subagents whose parent is stopped: those that listen, and those that do not."""

import asyncio
from collections.abc import AsyncGenerator

import msgspec
import pytest

from hermes.agent import subagents
from hermes.agent.subagents import Child
from hermes.core.events import (
    Event,
    SubagentFinished,
    SubagentStarted,
    TextFinished,
)
from hermes.core.hooks import NoHooks
from hermes.core.messages import Text, ToolCall
from hermes.core.ports import ChildTask
from hermes.core.testing import Stall, Step
from hermes.tools.builtin.delegate_task import DelegationOptions, delegate_task_tool
from tests.unit.agent.conftest import events_of
from tests.unit.agent.workers import (
    Closing,
    Scene,
    Worker,
    deaf,
    end,
    playing,
    stopped,
    until_stopped,
)


@pytest.fixture
async def scene() -> Scene:
    return Scene()


async def test_a_stop_brings_back_what_every_subagent_has(scene):
    done, busy = Worker(playing(end("ok"))), Worker(until_stopped(TextFinished("half")))
    group = scene.children(done, busy)
    results = await stopped(scene, group, busy.running.wait(), 2)
    assert [(each.status, each.summary) for each in results] == [
        ("completed", "ok"),
        ("interrupted", "half"),
    ]
    assert results[1].error == "the delegation was stopped"
    assert done.closed
    assert busy.closed


async def test_a_stop_reaches_those_that_wait_or_are_being_started(scene):
    starting = asyncio.Event()

    async def start(_task: ChildTask, _place: int) -> Child:
        starting.set()
        await asyncio.Event().wait()
        raise AssertionError("never")

    results = await stopped(scene, scene.over(start, most=1), starting.wait(), 2)
    assert [result.status for result in results] == ["interrupted", "interrupted"]
    assert scene.all(SubagentStarted) == []


@pytest.mark.parametrize("steps", range(1, 8))
async def test_a_stop_may_come_at_any_moment(scene, steps):
    worker = Worker(until_stopped())
    made: list[Worker] = []

    async def start(_task: ChildTask, _place: int) -> Child:
        await asyncio.sleep(0)
        made.append(worker)
        return worker

    async def moments() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)

    [result] = await stopped(scene, scene.over(start), moments(), 1)
    assert result.status == "interrupted"
    assert worker.closed is bool(made)


async def test_a_subagent_that_will_not_stop_is_left_behind_then_cut_off(scene, monkeypatch):
    monkeypatch.setattr(subagents, "PATIENCE", 0.02)
    monkeypatch.setattr(subagents, "LINGER", 0.02)
    worker = Worker(deaf)
    group = scene.children(worker)
    [result] = await stopped(scene, group, worker.running.wait(), 1)
    assert (result.status, result.summary) == ("interrupted", "I hear nothing")
    assert not worker.closed
    told = len(scene.events)
    await group.close()
    assert worker.closed
    assert len(scene.events) == told


async def test_a_late_event_of_one_left_behind_is_not_told(scene, monkeypatch):
    monkeypatch.setattr(subagents, "PATIENCE", 0.02)
    go_on = asyncio.Event()

    async def slow_to_end(_worker: Worker) -> AsyncGenerator[Event, None]:
        await go_on.wait()
        yield TextFinished("too late")
        yield end("too late")

    worker = Worker(slow_to_end)
    group = scene.children(worker)
    [result] = await stopped(scene, group, worker.running.wait(), 1)
    assert (result.status, result.summary) == ("interrupted", "")
    go_on.set()
    await group.close()
    assert worker.closed
    assert isinstance(scene.events[-1], SubagentFinished)


async def test_closing_goes_on_after_a_stop(scene, monkeypatch):
    monkeypatch.setattr(subagents, "PATIENCE", 0.02)
    may_close, closing = asyncio.Event(), asyncio.Event()

    class Slow(Worker):
        def interrupt(self, _reason: str) -> bool:
            return False  # its turn is over

        async def close(self) -> None:
            closing.set()
            await may_close.wait()
            await super().close()

    worker = Slow(playing(end("ok")))
    group = scene.children(worker)
    [result] = await stopped(scene, group, closing.wait(), 1)
    assert result.status == "completed"
    assert not worker.closed
    may_close.set()
    await group.close()
    assert worker.closed


async def test_a_slow_hook_does_not_hold_up_a_stop(scene):
    scene.hooks.slow = asyncio.Event()
    worker = Worker(until_stopped())
    group = scene.children(worker)
    [result] = await stopped(scene, group, worker.running.wait(), 1)
    assert result.status == "interrupted"
    scene.hooks.slow.set()
    await group.close()


async def test_a_second_stop_ends_the_call_and_still_closes_the_subagent(scene, monkeypatch):
    monkeypatch.setattr(subagents, "LINGER", 0.02)
    worker = Worker(deaf)
    group = scene.children(worker)
    work = asyncio.ensure_future(group.run([ChildTask("x")], scene.call))
    await worker.running.wait()
    work.cancel()
    await worker.told_to_stop.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await group.close()
    assert worker.closed


async def test_a_real_agent_is_stopped_in_the_middle_of_a_reply(scene, script, make_agent):
    model = script([Step((Text("I found three things"),), faults=(Stall(after=1, seconds=60),))])
    child = Closing(make_agent(model))
    [result] = await stopped(scene, scene.children(child), child.speaks.wait(), 1)
    assert (result.status, result.error) == ("interrupted", "the delegation was stopped")
    assert result.summary.startswith("I")
    assert child.closed


async def test_stopping_the_parent_keeps_what_the_subagent_had(scene, script, make_agent, log):
    worker = Worker(until_stopped(TextFinished("two of three are fine")))
    group = scene.children(worker)
    tool = delegate_task_tool(group, DelegationOptions())
    call = ToolCall("c1", "delegate_task", '{"goal": "check three things"}')
    parent = make_agent(script([call]), tool, hooks=NoHooks())

    async def stop() -> None:
        await worker.running.wait()
        parent.interrupt("stopped by the user")

    events, _ = await asyncio.gather(events_of(parent), stop())
    assert events[-1].exit_reason == "interrupted"
    assert SubagentStarted("c1", 0, "child", "check three things") in events
    stored = (await log.messages("s1"))[-1].text
    [result] = msgspec.json.decode(stored)["results"]
    assert (result["status"], result["summary"]) == ("interrupted", "two of three are fine")
    assert worker.closed
