"""Subagents that finish, fail, ask, report, or take too long."""

import asyncio
from collections.abc import AsyncGenerator

import msgspec
import pytest

from hermes.agent.subagents import Child
from hermes.core.errors import ConfigError
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
)
from hermes.core.messages import ToolCall
from hermes.core.model import Retrying, TextDelta
from hermes.core.ports import ChildResult, ChildTask
from hermes.core.tool import Tool
from tests.unit.agent.workers import (
    Closing,
    Scene,
    Worker,
    called,
    end,
    finished,
    playing,
    until_stopped,
)


@pytest.fixture
async def scene() -> Scene:
    return Scene()


async def test_a_finished_subagent_is_told_of_and_its_last_words_come_back(scene):
    worker = Worker(playing(ModelCalled(1), TextFinished("all is well"), end("all is well")))
    task = ChildTask("look around", "the house is red", role="orchestrator")
    results = await scene.children(worker).run([task], scene.call)
    assert results == [ChildResult("completed", "all is well", "child", 2, 0.0)]
    assert worker.asked.startswith("look around\n\nContext:\nthe house is red\n\nYou work alone")
    assert "summary" in worker.asked
    assert worker.closed
    assert scene.events == [
        SubagentStarted("c1", 0, "child", "look around"),
        SubagentProgress("c1", 0, "all is well"),
        SubagentFinished("c1", 0, "completed", 0.0, 2),
    ]
    assert scene.hooks.heard == [
        {
            "parent_session_id": "parent",
            "child_role": "orchestrator",
            "child_summary": "all is well",
            "child_status": "completed",
            "duration_ms": 0,
        }
    ]


async def test_subagents_work_side_by_side_and_results_keep_the_order(scene):
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

    results = await scene.run(Worker(first), Worker(second))
    assert [result.summary for result in results] == ["one", "two"]
    assert sorted(event.child for event in scene.all(SubagentFinished)) == [0, 1]


async def test_no_more_than_allowed_work_at_the_same_time_over_all_calls(scene):
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

    async def start(_task: ChildTask, _place: int) -> Child:
        return Worker(play)

    group = scene.over(start, most=2)
    tasks = [ChildTask("a"), ChildTask("b"), ChildTask("c")]
    calls = await asyncio.gather(group.run(tasks, scene.call), group.run(tasks, scene.call))
    assert [result.status for results in calls for result in results] == ["completed"] * 6
    assert most == 2


async def test_each_call_of_a_tool_is_one_short_line(scene):
    await scene.one(
        playing(
            called("terminal", '{"timeout": 3, "command": "make\\n  test"}'),
            called("write_file", msgspec.json.encode({"path": "x" * 300}).decode()),
            called("todo", "not json"),
            TextFinished("first line\nsecond line"),
            end("ok"),
        )
    )
    assert scene.lines[0] == "terminal make test"
    assert scene.lines[1].startswith("write_file xxx")
    assert len(scene.lines[1]) == 100
    assert scene.lines[2:] == ["todo", "first line second line"]


async def test_a_busy_subagent_does_not_flood_the_screen(scene):
    async def play(_worker: Worker) -> AsyncGenerator[Event, None]:
        for number in range(20):
            yield called("read_file", f'{{"path": "{number}"}}')
        scene.clock.time += 1
        yield called("read_file", '{"path": "later"}')
        yield end("ok")

    await scene.one(play)
    assert scene.lines == [*(f"read_file {number}" for number in range(5)), "read_file later"]


async def test_questions_to_a_person_are_passed_on_as_they_are(scene):
    asked = (
        ApprovalAsked("t1", "terminal", "rm -r x", "deletes"),
        ApprovalAnswered("t1", "once"),
        QuestionAsked("t2", "Which?"),
    )
    await scene.one(playing(*asked, end("ok")))
    assert scene.events[1:-1] == list(asked)


async def test_progress_of_a_subagents_own_subagents_is_seen(scene):
    await scene.one(playing(SubagentProgress("inner", 4, "terminal ls"), end("ok")))
    assert scene.all(SubagentProgress) == [SubagentProgress("c1", 0, "terminal ls")]


@pytest.mark.parametrize(
    ("last", "status", "summary", "error"),
    [
        (end("half", "failed", error="no key", hint="set one"), "failed", "so far", "no key (set"),
        (end("here it stands", "max_iterations"), "failed", "here it stands", "max_iterations"),
        (end("(empty)", "empty"), "failed", "so far", "empty"),
        (end("", "interrupted", error="by the user"), "interrupted", "so far", "by the user"),
    ],
)
async def test_an_end_that_is_no_answer_says_why(scene, last, status, summary, error):
    result = await scene.one(playing(TextFinished("so far"), last))
    assert (result.status, result.summary) == (status, summary)
    assert error in result.error
    assert scene.hooks.heard[0]["child_status"] == status


async def test_what_fails_in_one_subagent_does_not_touch_the_others(scene, caplog):
    async def broken(_worker: Worker) -> AsyncGenerator[Event, None]:
        yield called("terminal", '{"command": "ls"}')
        yield finished("terminal")
        raise ValueError("a bug")

    breaks, fine = Worker(broken), Worker(playing(end("ok")))
    no_start = ConfigError("no such toolset: magic", hint="hermes tools lists them")
    results = await scene.run(no_start, breaks, fine)
    assert [result.status for result in results] == ["failed", "failed", "completed"]
    assert results[0].error == "no such toolset: magic (hermes tools lists them)"
    assert results[0].session_id == ""
    assert results[1].error == "ValueError: a bug"
    assert results[1].summary == "Finished calls (1):\n- terminal ls"
    assert breaks.closed
    assert fine.closed
    assert "a bug" in caplog.text
    assert len(scene.all(SubagentFinished)) == 3


async def test_a_failure_to_close_does_not_spoil_the_answer(scene, caplog):
    class Sticky(Worker):
        async def close(self) -> None:
            raise OSError("stuck")

    [result] = await scene.run(Sticky(playing(end("ok"))))
    assert (result.status, result.summary, result.error) == ("completed", "ok", "")
    assert "stuck" in caplog.text


async def test_too_much_time_gives_what_there_is_by_then(scene):
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
    result = await scene.one(play, timeout=0.01)
    assert result.status == "timeout"
    assert result.summary == (
        "I look at two files.\n\nSo far a.py is fine\n\n"
        "Finished calls (2):\n- read_file b.py (failed)\n- read_file a.py"
    )
    assert "time" in result.error
    assert scene.all(SubagentFinished)[0].status == "timeout"
    assert scene.hooks.heard[0]["child_status"] == "interrupted"


async def test_of_very_many_calls_the_last_are_listed(scene):
    calls = [
        event
        for number in range(50)
        for event in (called("look", f'{{"at": "{number}"}}'), finished("look"))
    ]
    result = await scene.one(until_stopped(*calls), timeout=0.01)
    first, *lines = result.summary.splitlines()
    assert first == "Finished calls (50, the last 40):"
    assert (lines[0], lines[-1], len(lines)) == ("- look 10", "- look 49", 40)


async def test_an_answer_in_the_last_moment_counts(scene):
    async def play(worker: Worker) -> AsyncGenerator[Event, None]:
        await worker.told_to_stop.wait()
        yield end("just made it")

    result = await scene.one(play, timeout=0.01)
    assert (result.status, result.summary) == ("completed", "just made it")


async def test_a_real_agent_does_the_work(scene, script, make_agent):
    async def look(at: str) -> str:
        """Look."""
        return f"{at} is blue"

    call = ToolCall("t1", "look", '{"at": "sky"}')
    model = script([call, "The sky is blue."])
    child = Closing(make_agent(model, Tool.from_function(look)))
    [result] = await scene.run(child)
    assert (result.status, result.summary, result.api_calls, result.session_id) == (
        "completed",
        "The sky is blue.",
        2,
        "s1",
    )
    assert scene.lines == ["look sky", "The sky is blue."]
    assert "You work alone" in model.requests[0].messages[-1].text
    assert child.closed
