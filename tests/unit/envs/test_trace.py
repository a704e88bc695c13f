"""Tasks and traces without an agent."""

import msgspec
import pytest

from hermes.core.errors import (
    BackendUnavailable,
    CredentialRefused,
    HermesError,
    ProviderError,
    RateLimited,
    RequestRefused,
    StoreError,
    StreamCut,
    ToolError,
    UsageError,
)
from hermes.core.model import Usage
from hermes.envs import (
    Failure,
    RecordedCall,
    Task,
    TaskError,
    Trace,
    TraceNode,
    TraceRecorder,
    metric,
    read_traces,
    reward,
    write_traces,
)

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "1 + 2?"}
TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}},
}
CALLING = {
    "role": "assistant",
    "content": "I add.",
    "reasoning_content": "Easy.",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "3"}
ANSWER = {"role": "assistant", "content": "It is 3."}


def example() -> Trace:
    recorder = TraceRecorder()
    recorder.add(
        RecordedCall(
            messages=[SYSTEM, USER],
            tools=[TOOL],
            reply=CALLING,
            finish_reason="tool_calls",
            prompt_ids=[1, 2, 3],
            completion_ids=[4, 5],
            logprobs=[-0.5, -0.25],
            usage=Usage(3, 2),
            cost_usd=0.5,
        )
    )
    recorder.add(
        RecordedCall(
            messages=[SYSTEM, USER, CALLING, RESULT],
            tools=[TOOL],
            reply=ANSWER,
            prompt_ids=[1, 2, 3, 4, 5, 6],
            completion_ids=[7],
            logprobs=[-0.125],
            usage=Usage(6, 1),
            cost_usd=0.25,
        )
    )
    return Trace("r", "sum", "f00", "lab", recorder.nodes, recorder.tools)


def test_nodes_hold_what_they_add_and_a_branch_joins_them() -> None:
    trace = example()
    assert [node.token_ids for node in trace.nodes] == [(), (1, 2, 3), (4, 5), (6,), (7,)]
    (branch,) = trace.branches()
    assert branch.token_ids == (1, 2, 3, 4, 5, 6, 7)
    assert branch.mask == (0, 0, 0, 1, 1, 0, 1)
    assert branch.logprobs == (0, 0, 0, -0.5, -0.25, 0, -0.125)
    assert (trace.usage.prompt, trace.usage.output, trace.cost_usd) == (9, 3, 0.75)


def test_reply_without_its_reasoning_and_with_other_spacing_is_continued() -> None:
    recorder = TraceRecorder()
    first = RecordedCall(messages=[USER], tools=[TOOL], reply=CALLING)
    recorder.add(first)
    spaced = {"name": "add", "arguments": '{ "a": 1 }'}
    sent_back = {
        "role": "assistant",
        "content": [{"type": "text", "text": " I add.\n"}],
        "tool_calls": [{"id": "c1", "type": "function", "function": spaced}],
    }
    recorder.add(RecordedCall(messages=[USER, sent_back, RESULT], tools=[TOOL], reply=ANSWER))
    assert [node.parent for node in recorder.nodes] == [-1, 0, 1, 2]


def test_lists_of_a_node_have_one_length() -> None:
    with pytest.raises(ValueError, match="length"):
        TraceNode(USER, token_ids=(1,))


def test_traces_survive_a_file(tmp_path) -> None:
    trace, file = example(), tmp_path / "traces.jsonl"
    trace.rewards, trace.retried = {"right": 1.0}, [Failure("sandbox", "E", "gone", True)]
    write_traces(file, [trace])
    write_traces(file, [trace])
    assert list(read_traces(file)) == [trace, trace]


def test_line_that_is_not_a_trace_is_named(tmp_path) -> None:
    file = tmp_path / "traces.jsonl"
    write_traces(file, [example()])
    with file.open("ab") as out:
        out.write(b'{"id": "r2", "task_k')
    with pytest.raises(UsageError, match=r"traces\.jsonl:2"):
        list(read_traces(file))


def test_failure_has_no_reward() -> None:
    trace = example()
    assert trace.reward is None
    trace.rewards, trace.weights = {"right": 1.0, "short": 0.5}, {"short": 2.0}
    assert trace.reward == 2.0
    trace.failure = Failure("provider", "StreamCut", "cut")
    assert trace.reward is None


@pytest.mark.parametrize(
    ("error", "boundary", "retryable"),
    [
        (StreamCut("cut"), "provider", True),
        (RateLimited("slow down"), "provider", True),
        (CredentialRefused("401"), "provider", False),
        (RequestRefused("400"), "provider", False),
        (ProviderError("odd"), "provider", False),
        (BackendUnavailable("no docker"), "sandbox", True),
        (ToolError("bug"), "tool", False),
        (TaskError("reward"), "task", False),
        (StoreError("disk"), "harness", False),
        (HermesError("other"), "harness", False),
        (ZeroDivisionError("bug"), "harness", False),
    ],
)
def test_error_is_attributed_to_one_boundary(error, boundary, retryable) -> None:
    failure = Failure.of(error)
    assert (failure.boundary, failure.retryable) == (boundary, retryable)


def test_sharegpt_export_describes_the_tools_and_keeps_reasoning() -> None:
    (turns,) = example().to_sharegpt()
    assert [turn["from"] for turn in turns] == ["system", "human", "gpt", "tool", "gpt"]
    assert '"add"' in turns[0]["value"]
    assert turns[2]["value"].startswith("<think>\nEasy.\n</think>\nI add.\n<tool_call>\n")


def test_atif_export_has_steps_with_calls_observations_and_tokens() -> None:
    atif = example().to_atif(version="1")
    assert atif["schema_version"] == "ATIF-v1.7"
    steps = atif["steps"]
    assert [step["source"] for step in steps] == ["system", "user", "agent", "agent"]
    assert [step["step_id"] for step in steps] == [1, 2, 3, 4]
    call = {"tool_call_id": "c1", "function_name": "add", "arguments": {"a": 1}}
    assert steps[2]["tool_calls"] == [call]
    assert steps[2]["reasoning_content"] == "Easy."
    assert steps[2]["observation"]["results"] == [{"content": "3", "source_call_id": "c1"}]
    assert steps[3]["metrics"]["prompt_token_ids"] == [1, 2, 3, 4, 5, 6]
    assert steps[3]["metrics"]["completion_token_ids"] == [7]
    assert steps[3]["metrics"]["logprobs"] == [-0.125]
    assert atif["final_metrics"] == {
        "total_prompt_tokens": 9,
        "total_completion_tokens": 3,
        "total_cached_tokens": 0,
        "total_steps": 4,
        "total_cost_usd": 0.75,
    }
    msgspec.json.encode(atif)


class Sum(Task, frozen=True):
    @reward
    def right(self, trace, ctx) -> float:
        return float(trace.nodes[-1].message["content"] == self.data["answer"])

    @reward(weight=0.5)
    async def short(self, trace, ctx) -> bool:
        return True

    @metric
    def length(self, trace, ctx) -> float:
        return len(trace.nodes)


class Unfinished(Task, frozen=True):
    @reward
    def nothing(self, trace, ctx) -> None:
        return None


async def test_rewards_and_metrics_are_stored_with_their_weights() -> None:
    trace = example()
    await Sum(prompt="1 + 2?", data={"answer": "It is 3."}).score(trace, None)
    assert trace.rewards == {"right": 1.0, "short": 1.0}
    assert (trace.reward, trace.metrics) == (1.5, {"length": 5.0})


@pytest.mark.parametrize("task", [Sum(prompt="?"), Unfinished(prompt="?")])
async def test_error_in_a_reward_is_an_error_of_the_task(task) -> None:
    with pytest.raises(TaskError, match=r"right: KeyError|nothing returned None"):
        await task.score(example(), None)


def test_hash_follows_the_content_and_key_the_name() -> None:
    one, same = Sum(prompt="?", data={"a": 1, "b": 2}), Sum(prompt="?", data={"b": 2, "a": 1})
    other = Sum(prompt="?", data={"a": 2, "b": 2})
    assert one.hash == same.hash != other.hash
    assert one.hash != Task(prompt="?", data={"a": 1, "b": 2}).hash
    assert one.key == one.hash[:16]
    assert Sum(name="n", prompt="?").key == Sum(name="n", prompt="!").key == "n"
