"""Subagents that finish, fail, ask, report, or take too long."""

import asyncio
from collections.abc import AsyncGenerator

import msgspec
import pytest

from hermes.agent import Subagent, subagents
from hermes.core.errors import ConfigError, ToolError
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    ModelCalled,
    QuestionAsked,
    SubagentFinished,
    SubagentProgress,
    SubagentStarted,
    TextFinished,
    ToolFinished,
)
from hermes.core.messages import Text, ToolCall
from hermes.core.model import Retrying, TextDelta
from hermes.core.ports import ChildResult, ChildTask, NoHooks
from hermes.core.testing import Stall, Step
from hermes.core.tool import Tool
from tests.unit.agent.conftest import events_of
from tests.unit.agent.workers import (
    Closing,
    Harness,
    Worker,
    called,
    deaf,
    end,
    finished,
    playing,
    stopped,
    until_stopped,
)
from tests.workspace import make_tool


@pytest.fixture
async def harness() -> Harness:
    return Harness()


async def test_finished_subagent_is_announced_and_its_answer_returned(harness):
    worker = Worker(playing(ModelCalled(1), TextFinished("all is well"), end("all is well")))
    task = ChildTask("look around", "the house is red", role="orchestrator")
    results = await harness.subagents(worker).run([task], harness.call)
    assert results == [ChildResult("completed", "all is well", "child", 2, 0.0)]
    assert worker.asked.startswith("look around\n\nContext:\nthe house is red\n\nYou work alone")
    assert "summary" in worker.asked
    assert worker.closed
    assert harness.events == [
        SubagentStarted("c1", 0, "child", "look around"),
        SubagentProgress("c1", 0, "all is well"),
        SubagentFinished("c1", 0, "completed", 0.0, 2),
    ]
    assert harness.hooks.heard == [
        {
            "parent_session_id": "parent",
            "child_role": "orchestrator",
            "child_summary": "all is well",
            "child_status": "completed",
            "duration_ms": 0,
        }
    ]


async def test_subagents_run_concurrently_and_results_keep_order(harness):
    both = asyncio.Barrier(2)
    second_is_done = asyncio.Event()

    async def first(_worker: Worker) -> AsyncGenerator[Event, None]:
        await both.wait()
        await second_is_done.wait()
        yield end("one")

    async def second(_worker: Worker) -> AsyncGenerator[Event, None]:
        await both.wait()
        second_is_done.set()
        yield end("two")

    results = await harness.run(Worker(first), Worker(second))
    assert [result.summary for result in results] == ["one", "two"]
    assert sorted(event.child for event in harness.all(SubagentFinished)) == [0, 1]


async def test_concurrency_limit_holds_across_calls(harness):
    at_work: set[Worker] = set()
    most = 0

    async def play(worker: Worker) -> AsyncGenerator[Event, None]:
        nonlocal most
        at_work.add(worker)
        most = max(most, len(at_work))
        for _ in range(5):
            await asyncio.sleep(0)
        yield end("done")
        at_work.discard(worker)

    async def start(_task: ChildTask, _place: int) -> Subagent:
        return Worker(play)

    group = harness.over(start, most=2)
    tasks = [ChildTask("a"), ChildTask("b"), ChildTask("c")]
    calls = await asyncio.gather(group.run(tasks, harness.call), group.run(tasks, harness.call))
    assert [result.status for results in calls for result in results] == ["completed"] * 6
    assert most == 2


async def test_each_tool_call_is_one_progress_line(harness):
    await harness.one(
        playing(
            called("terminal", '{"timeout": 3, "command": "make\\n  test"}'),
            called("write_file", msgspec.json.encode({"path": "x" * 300}).decode()),
            called("todo", "not json"),
            TextFinished("first line\nsecond line"),
            end("ok"),
        )
    )
    assert harness.lines[0] == "terminal make test"
    assert harness.lines[1].startswith("write_file xxx")
    assert len(harness.lines[1]) == 100
    assert harness.lines[2:] == ["todo", "first line second line"]


async def test_progress_lines_are_rate_limited(harness):
    async def play(_worker: Worker) -> AsyncGenerator[Event, None]:
        for number in range(20):
            yield called("read_file", f'{{"path": "{number}"}}')
        harness.clock.time += 1
        yield called("read_file", '{"path": "later"}')
        yield end("ok")

    await harness.one(play)
    assert harness.lines == [*(f"read_file {number}" for number in range(5)), "read_file later"]


async def test_approvals_and_questions_are_forwarded_unchanged(harness):
    asked = (
        ApprovalAsked("t1", "terminal", "rm -r x", "deletes"),
        ApprovalAnswered("t1", "once"),
        QuestionAsked("t2", "Which?"),
    )
    await harness.one(playing(*asked, end("ok")))
    assert harness.events[1:-1] == list(asked)


async def test_progress_of_nested_subagents_is_shown(harness):
    await harness.one(playing(SubagentProgress("inner", 4, "terminal ls"), end("ok")))
    assert harness.all(SubagentProgress) == [SubagentProgress("c1", 0, "terminal ls")]


@pytest.mark.parametrize(
    ("last", "status", "summary", "error"),
    [
        (end("half", "failed", error="no key", hint="set one"), "failed", "so far", "no key (set"),
        (end("here it stands", "max_iterations"), "failed", "here it stands", "max_iterations"),
        (end("(empty)", "empty"), "failed", "so far", "empty"),
        (end("", "interrupted", error="by the user"), "interrupted", "so far", "by the user"),
    ],
)
async def test_end_without_answer_reports_the_reason(harness, last, status, summary, error):
    result = await harness.one(playing(TextFinished("so far"), last))
    assert (result.status, result.summary) == (status, summary)
    assert error in result.error
    assert harness.hooks.heard[0]["child_status"] == status


async def test_failure_of_one_subagent_does_not_affect_others(harness, caplog):
    async def broken(_worker: Worker) -> AsyncGenerator[Event, None]:
        yield called("terminal", '{"command": "ls"}')
        yield finished("terminal")
        raise ValueError("a bug")

    breaks, fine = Worker(broken), Worker(playing(end("ok")))
    no_start = ConfigError("no such toolset: magic", hint="hermes tools lists them")
    results = await harness.run(no_start, breaks, fine)
    assert [result.status for result in results] == ["failed", "failed", "completed"]
    assert results[0].error == "no such toolset: magic (hermes tools lists them)"
    assert results[0].session_id == ""
    assert results[1].error == "ValueError: a bug"
    assert results[1].summary.startswith("Finished calls (1):\n- terminal ls\n\n")
    assert breaks.closed
    assert fine.closed
    assert "a bug" in caplog.text
    assert len(harness.all(SubagentFinished)) == 3


async def test_failing_close_does_not_lose_the_answer(harness, caplog):
    class Sticky(Worker):
        async def close(self) -> None:
            raise OSError("stuck")

    [result] = await harness.run(Sticky(playing(end("ok"))))
    assert (result.status, result.summary, result.error) == ("completed", "ok", "")
    assert "stuck" in caplog.text


async def test_timeout_returns_a_partial_result(harness):
    play = until_stopped(
        ModelCalled(1),
        TextFinished("I look at two files."),
        called("read_file", '{"path": "a.py"}', "1"),
        called("read_file", '{"path": "b.py"}', "2"),
        called("terminal", '{"command": "make"}', "3"),
        finished("read_file", "2", failed=True),
        finished("read_file", "1"),
        ModelCalled(2),
        TextDelta("lost in a "),
        Retrying("cut", 1, 0.0),
        TextDelta("So far a.py "),
        TextDelta("is fine"),
    )
    result = await harness.one(play, timeout=0.01)
    assert result.status == "timeout"
    assert result.summary == (
        "I look at two files.\n\nSo far a.py is fine\n\n"
        "Finished calls (2):\n- read_file b.py (failed)\n- read_file a.py\n\n"
        "The last results begin so:\n[read_file a.py]\n  result"
    )
    assert "time" in result.error
    assert harness.all(SubagentFinished)[0].status == "timeout"
    assert harness.hooks.heard[0]["child_status"] == "interrupted"


async def test_stopped_subagent_reports_parts_of_its_last_results(harness):
    results = [
        event
        for number in range(7)
        for event in (
            called("look", f'{{"at": "{number}"}}', str(number)),
            ToolFinished(str(number), "look", f"found {number}\n" * 100, number == 6, 0.1),
        )
    ]
    result = await harness.one(until_stopped(*results), timeout=0.01)
    quoted = result.summary.partition("The last results begin so:\n")[2]
    assert quoted.startswith("[look 1]\n  found 1\n  found 1\n")
    assert "[look 5]" in quoted, "the failed call 6 is not quoted"
    assert quoted.count("  …\n") + quoted.endswith("  …") == 5
    assert len(quoted) < 5 * 200


async def test_only_the_last_of_many_calls_are_listed(harness):
    calls = [
        event
        for number in range(50)
        for event in (called("look", f'{{"at": "{number}"}}'), finished("look"))
    ]
    result = await harness.one(until_stopped(*calls), timeout=0.01)
    first, *lines = result.summary.partition("\n\n")[0].splitlines()
    assert first == "Finished calls (50, the last 40):"
    assert (lines[0], lines[-1], len(lines)) == ("- look 10", "- look 49", 40)


async def test_answer_at_the_deadline_counts(harness):
    async def play(worker: Worker) -> AsyncGenerator[Event, None]:
        await worker.told_to_stop.wait()
        yield end("just made it")

    result = await harness.one(play, timeout=0.01)
    assert (result.status, result.summary) == ("completed", "just made it")


async def test_real_agent_completes_a_task(harness, script, make_agent):
    async def look(at: str) -> str:
        """Look."""
        return f"{at} is blue"

    call = ToolCall("t1", "look", '{"at": "sky"}')
    model = script([call, "The sky is blue."])
    child = Closing(make_agent(model, Tool.from_function(look)))
    [result] = await harness.run(child)
    assert (result.status, result.summary) == ("completed", "The sky is blue.")
    assert (result.api_calls, result.session_id) == (2, "s1")
    assert harness.lines == ["look sky", "The sky is blue."]
    assert "You work alone" in model.requests[0].messages[-1].text
    assert child.closed


async def test_stop_returns_partial_results_of_all_subagents(harness):
    done, busy = Worker(playing(end("ok"))), Worker(until_stopped(TextFinished("half")))
    group = harness.subagents(done, busy)
    results = await stopped(harness, group, busy.running.wait(), 2)
    assert [(each.status, each.summary) for each in results] == [
        ("completed", "ok"),
        ("interrupted", "half"),
    ]
    assert results[1].error == "the delegation was stopped"
    assert done.closed
    assert busy.closed


async def test_stop_reaches_waiting_and_starting_subagents(harness):
    starting = asyncio.Event()

    async def start(_task: ChildTask, _place: int) -> Subagent:
        starting.set()
        await asyncio.Event().wait()
        raise AssertionError("never")

    results = await stopped(harness, harness.over(start, most=1), starting.wait(), 2)
    assert [result.status for result in results] == ["interrupted", "interrupted"]
    assert harness.all(SubagentStarted) == []


@pytest.mark.parametrize("steps", range(1, 8))
async def test_stop_is_safe_at_any_moment(harness, steps):
    worker = Worker(until_stopped())
    made: list[Worker] = []

    async def start(_task: ChildTask, _place: int) -> Subagent:
        await asyncio.sleep(0)
        made.append(worker)
        return worker

    async def moments() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)

    [result] = await stopped(harness, harness.over(start), moments(), 1)
    assert result.status == "interrupted"
    assert worker.closed is bool(made)


async def test_subagent_that_ignores_a_stop_is_cancelled_later(harness, monkeypatch):
    monkeypatch.setattr(subagents, "STOP_GRACE_SECONDS", 0.02)
    monkeypatch.setattr(subagents, "CLEANUP_SECONDS", 0.02)
    worker = Worker(deaf)
    group = harness.subagents(worker)
    [result] = await stopped(harness, group, worker.running.wait(), 1)
    assert (result.status, result.summary) == ("interrupted", "I hear nothing")
    assert not worker.closed
    count = len(harness.events)
    await group.close()
    assert worker.closed
    assert len(harness.events) == count


async def test_late_event_of_a_stopped_subagent_is_ignored(harness, monkeypatch):
    monkeypatch.setattr(subagents, "STOP_GRACE_SECONDS", 0.02)
    go_on = asyncio.Event()

    async def slow_to_end(_worker: Worker) -> AsyncGenerator[Event, None]:
        await go_on.wait()
        yield TextFinished("too late")
        yield end("too late")

    worker = Worker(slow_to_end)
    group = harness.subagents(worker)
    [result] = await stopped(harness, group, worker.running.wait(), 1)
    assert (result.status, result.summary) == ("interrupted", "")
    go_on.set()
    await group.close()
    assert worker.closed
    assert isinstance(harness.events[-1], SubagentFinished)


async def test_closing_completes_after_a_stop(harness, monkeypatch):
    monkeypatch.setattr(subagents, "STOP_GRACE_SECONDS", 0.02)
    may_close, closing = asyncio.Event(), asyncio.Event()

    class Slow(Worker):
        def interrupt(self, _reason: str) -> bool:
            return False  # its turn is over

        async def close(self) -> None:
            closing.set()
            await may_close.wait()
            await super().close()

    worker = Slow(playing(end("ok")))
    group = harness.subagents(worker)
    [result] = await stopped(harness, group, closing.wait(), 1)
    assert result.status == "completed"
    assert not worker.closed
    may_close.set()
    await group.close()
    assert worker.closed


async def test_slow_hook_does_not_delay_a_stop(harness):
    harness.hooks.slow = asyncio.Event()
    worker = Worker(until_stopped())
    group = harness.subagents(worker)
    [result] = await stopped(harness, group, worker.running.wait(), 1)
    assert result.status == "interrupted"
    harness.hooks.slow.set()
    await group.close()


async def test_second_stop_raises_and_still_closes_the_subagent(harness, monkeypatch):
    monkeypatch.setattr(subagents, "CLEANUP_SECONDS", 0.02)
    worker = Worker(deaf)
    group = harness.subagents(worker)
    work = asyncio.ensure_future(group.run([ChildTask("x")], harness.call))
    await worker.running.wait()
    work.cancel()
    await worker.told_to_stop.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await group.close()
    assert worker.closed


async def test_real_agent_is_stopped_within_a_reply(harness, script, make_agent):
    model = script([Step((Text("I found three things"),), faults=(Stall(after=1, seconds=60),))])
    child = Closing(make_agent(model))
    [result] = await stopped(harness, harness.subagents(child), child.speaks.wait(), 1)
    assert (result.status, result.error) == ("interrupted", "the delegation was stopped")
    assert result.summary.startswith("I")
    assert child.closed


async def test_stopping_the_parent_keeps_the_subagents_partial_result(
    harness, script, make_agent, log
):
    worker = Worker(until_stopped(TextFinished("two of three are fine")))
    group = harness.subagents(worker)
    tool = make_tool("delegate_task", spawner=group)
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


async def test_background_subagent_reports_when_it_is_done(harness):
    may_end = asyncio.Event()

    async def play(_worker: Worker) -> AsyncGenerator[Event, None]:
        await may_end.wait()
        yield end("found it")

    worker = Worker(play)
    group = harness.subagents(worker)
    (run_id,) = group.start([ChildTask("look around")], harness.call)
    assert [(name, goal) for name, goal, _age in group.background()] == [(run_id, "look around")]
    assert harness.reports.empty()
    may_end.set()
    name, goal, result = await asyncio.wait_for(harness.reports.get(), 20)
    assert (name, goal, result.status, result.summary) == (
        run_id,
        "look around",
        "completed",
        "found it",
    )
    assert (group.background(), worker.closed, harness.events) == ([], True, [])


async def test_background_subagents_count_against_the_limit(harness):
    group = harness.subagents(Worker(until_stopped()), Worker(until_stopped()), most=2)
    group.start([ChildTask("a"), ChildTask("b")], harness.call)
    with pytest.raises(ToolError, match="2 subagents work in the background, and the limit is 2"):
        group.start([ChildTask("c")], harness.call)
    await group.close()


async def test_background_subagent_survives_the_call_and_stops_at_request(harness):
    worker = Worker(until_stopped(TextFinished("half of it")))
    group = harness.subagents(worker)
    group.start([ChildTask("a")], harness.call)
    harness.call.cancel.cancel("the user stopped the turn")
    await worker.running.wait()
    assert not worker.told_to_stop.is_set()
    assert group.stop_background() == 1
    *_, result = await asyncio.wait_for(harness.reports.get(), 20)
    assert (result.status, result.summary) == ("interrupted", "half of it")
    assert group.stop_background() == 0


async def test_background_subagent_ends_at_its_timeout(harness):
    group = harness.subagents(Worker(until_stopped()), timeout=0.01)
    group.start([ChildTask("a")], harness.call)
    *_, result = await asyncio.wait_for(harness.reports.get(), 20)
    assert result.status == "timeout"


async def test_close_stops_background_subagents(harness):
    worker = Worker(until_stopped())
    group = harness.subagents(worker)
    group.start([ChildTask("a")], harness.call)
    await worker.running.wait()
    await group.close()
    assert worker.closed
