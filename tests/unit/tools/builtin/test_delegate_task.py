"""delegate_task: what a model may ask for, what it gets back, and what subagents may use."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from hermes.core.errors import ToolError
from hermes.core.messages import ToolResult, User
from hermes.core.ports import ChildResult, ChildTask
from hermes.core.tool import Tool, ToolContext
from hermes.tools.approval import ApprovalRules, Approvals
from hermes.tools.builtin.delegate_task import (
    MAX_SUMMARY_CHARS,
    allowed_tools,
    background_report,
    lost_reports,
)
from hermes.tools.toolbox import LocalResultStore, Toolbox
from tests.cases import cases
from tests.workspace import make_tool

CASES = cases(__file__)


class Workers:
    """Says of each task that it is done, or gives the results it was made with."""

    def __init__(self, *results: ChildResult) -> None:
        self.tasks: list[ChildTask] = []
        self._results = list(results)

    async def run(self, tasks: Sequence[ChildTask], call: ToolContext) -> list[ChildResult]:
        assert call.session_id == "session"
        self.tasks += tasks
        return self._results or [ChildResult("completed", f"{task.goal}: done") for task in tasks]

    def start(self, tasks: Sequence[ChildTask], call: ToolContext) -> list[str]:
        assert call.session_id == "session"
        self.tasks += tasks
        return [f"agent_{number}" for number in range(len(tasks))]


def tool_over(workers: Workers, **options: Any) -> Tool:
    return make_tool("delegate_task", spawner=workers, settings={"delegation": options})


async def test_one_goal_is_one_task(use):
    workers = Workers(ChildResult("completed", "42", "s9", api_calls=3, seconds=1.234))
    answer = await use(
        tool_over(workers), goal=" count ", context="in src", toolsets=["file"], max_iterations=7
    )
    assert answer == (
        '{"results":[{"task":0,"status":"completed","summary":"42","api_calls":3,"seconds":1.2,'
        '"session_id":"s9"}]}'
    )
    assert workers.tasks == [ChildTask("count", "in src", ("file",), "leaf", 7)]


async def test_results_come_in_the_order_of_the_tasks_and_failures_say_why(use):
    workers = Workers(
        ChildResult("completed", "fine"), ChildResult("failed", "half", error="no key")
    )
    answer = await use(tool_over(workers), tasks=[{"goal": "a"}, {"goal": "b"}])
    results = msgspec.json.decode(answer)["results"]
    assert [(each["task"], each["status"]) for each in results] == [(0, "completed"), (1, "failed")]
    assert "error" not in results[0]
    assert results[1]["error"] == "no key"


async def test_common_fields_apply_to_every_task(use):
    workers = Workers()
    tasks = [{"goal": "a"}, {"goal": "b", "context": "only b", "toolsets": ["web"], "role": "leaf"}]
    shared = {"context": "all", "toolsets": ["file"], "role": "orchestrator", "max_iterations": 9}
    await use(tool_over(workers), tasks=tasks, goal="", **shared)
    assert workers.tasks == [
        ChildTask("a", "all", ("file",), "orchestrator", 9),
        ChildTask("b", "all\n\nonly b", ("web",), "leaf", 9),
    ]


@pytest.mark.parametrize(("arguments", "problem"), CASES["invalid"])
async def test_invalid_tasks_are_refused_with_a_hint(use, arguments, problem):
    workers = Workers()
    with pytest.raises(ToolError, match=problem) as caught:
        await use(tool_over(workers), **arguments)
    assert caught.value.hint
    assert workers.tasks == []


async def test_orchestrators_can_be_turned_off(use):
    workers = Workers()
    tool = tool_over(workers, orchestrator_enabled=False)
    with pytest.raises(ToolError, match="orchestrators are turned off") as caught:
        await use(tool, goal="a", role="orchestrator")
    assert "leaf" in caught.value.hint
    await use(tool, goal="a")
    assert len(workers.tasks) == 1


async def test_long_summaries_share_the_room_and_say_what_is_missing(use):
    workers = Workers(*[ChildResult("completed", "x" * MAX_SUMMARY_CHARS) for _ in range(2)])
    answer = await use(tool_over(workers), tasks=[{"goal": "a"}, {"goal": "b"}])
    assert len(answer) < MAX_SUMMARY_CHARS + 1_000
    for result in msgspec.json.decode(answer)["results"]:
        assert "10,000 characters left out" in result["summary"]


async def test_arguments_as_models_write_them(tmp_path):
    tool = tool_over(Workers())
    box = Toolbox([tool], LocalResultStore(tmp_path).save)
    written = '{"tasks": "[{\\"goal\\": \\"a\\", \\"context\\": null}]", "max_iterations": "5"}'
    assert box.decode(tool, written) == {"tasks": [{"goal": "a"}], "max_iterations": 5}
    for wrong in ('{"goal": "a", "role": "boss"}', '{"tasks": [{}]}', '{"max_iterations": 0}'):
        with pytest.raises(ToolError):
            box.decode(tool, wrong)


async def test_delegation_needs_no_approval_and_runs_in_parallel():
    tool = tool_over(Workers())

    async def remember(_kind): ...

    approvals = Approvals(ApprovalRules(mode="deny"), None, (), remember)
    await approvals.permit(tool, {"goal": "a"}, "c1", lambda _event: None)


PARENT = ["terminal", "delegate_task", "clarify", "memory", "send_message", "execute_code", "todo"]


@pytest.mark.parametrize(("role", "depth", "max_depth", "enabled", "delegates"), CASES["subagents"])
def test_subagents_lack_tools_of_the_main_agent(role, depth, max_depth, enabled, delegates):
    tools = allowed_tools(PARENT, role, depth, max_depth, enabled)
    assert tools == ["terminal", "todo", *(["delegate_task"] if delegates else [])]


def test_orchestrator_with_narrow_toolsets_still_delegates():
    tools = allowed_tools(["read_file"], "orchestrator", 1, 2, True)
    assert tools == ["read_file", "delegate_task"]


async def test_tasks_in_the_background_are_started_and_not_awaited(use):
    workers = Workers()
    answer = await use(tool_over(workers), tasks=[{"goal": "a"}, {"goal": "b"}], background=True)
    assert msgspec.json.decode(answer)["started"] == [
        {"id": "agent_0", "goal": "a"},
        {"id": "agent_1", "goal": "b"},
    ]
    assert [task.goal for task in workers.tasks] == ["a", "b"]


async def test_background_tasks_without_a_report_are_lost(use):
    started = await use(tool_over(Workers()), tasks=[{"goal": "a"}, {"goal": "b"}], background=True)
    report = background_report("agent_0", "a", ChildResult("completed", "done", "s1"))
    assert report == "[background subagent agent_0 (a): completed]\nsession s1\ndone"
    history = [User.say("go"), ToolResult("c", "delegate_task", started), User.say(report)]
    (lost,) = lost_reports(history)
    assert lost.startswith("[background subagent agent_1 (b): interrupted]\nIt was at work when")
    assert lost_reports([*history, User.say(lost)]) == []
    others = '{"results":[]}', "plain", '{"error": "x"}'
    assert lost_reports([ToolResult("c", "delegate_task", text) for text in others]) == []
