"""Rollouts of our own agent with a scripted model, real tools and a real shell."""

import asyncio
import json
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hermes.core.errors import BackendUnavailable
from hermes.core.messages import Text, Thinking, ToolCall
from hermes.core.testing import ModelServer, Refuse, ScriptedModel, Step
from hermes.envs import (
    CaptureServer,
    ModelEndpoint,
    RolloutOptions,
    RolloutRunner,
    Task,
    metric,
    reward,
    rollout,
)
from hermes.envs.runner import RolloutPlan
from hermes.terminal import LocalFiles, docker
from tests.unit.envs.token_server import TokenServer

SAMPLING = {"temperature": 0.6, "top_p": 0.95, "seed": 3}


class MakeFile(Task, frozen=True):
    async def setup(self, ctx) -> None:
        await ctx.write_file("note.txt", "hello")

    @reward
    async def is_made(self, trace, ctx) -> float:
        return float((await ctx.read_file("made.txt"))["content"] == "hello\n")

    @metric
    async def files(self, trace, ctx) -> float:
        return int((await ctx.terminal("ls | wc -l"))["output"])


TASK = MakeFile(name="copy", prompt="Copy note.txt to made.txt.", system_prompt="Be quick.")


def shell(number: int, command: str) -> ToolCall:
    return ToolCall(f"c{number}", "terminal", json.dumps({"command": command}))


def at(server: ModelServer, **more: Any) -> ModelEndpoint:
    return ModelEndpoint(base_url=f"{server.url}/v1", model="lab-model", sampling=SAMPLING, **more)


async def test_each_request_extends_the_one_before_exactly() -> None:
    script = [
        [Thinking("Read it first."), Text("I look."), shell(1, "cat note.txt")],
        [Thinking("A mistake."), shell(2, "cat missing"), shell(3, "echo two")],
        [ToolCall("c4", "terminal", '{"command": ')],  # invalid JSON
        [ToolCall("c5", "no_such_tool", "{}")],
        [Thinking("Copy."), shell(6, "cat note.txt > made.txt; echo >> made.txt")],
        "",  # an empty reply, which is requested again
        Thinking("Hm."),  # an answer without text, which the agent asks the model to correct
        [Thinking("Done."), Text("Made.")],
    ]
    with ModelServer(script) as server:
        trace = await rollout(TASK, at(server))
    assert len(server.requests) == len(server.calls) == len(script), "no auxiliary call"
    bodies = [call.body for call in server.calls]
    for before, after in pairwise(bodies):
        # Without the closing bracket, the JSON of the messages is a prefix byte by byte.
        old, new = (json.dumps(body["messages"], ensure_ascii=False) for body in (before, after))
        assert new.startswith(old[:-1])
        others = [{k: v for k, v in body.items() if k != "messages"} for body in (before, after)]
        assert others[0] == others[1]
    assert {key: bodies[0][key] for key in SAMPLING} == SAMPLING
    raw = [call.raw for call in server.calls]
    messages = [data[data.index(b'"messages":[') : data.index(b'],"tools":')] for data in raw]
    assert all(new.startswith(old) for old, new in pairwise(messages))
    assert set(bodies[0]) == {"model", "messages", "tools", *SAMPLING}
    thoughts = [
        m.get("reasoning_content") for m in bodies[-1]["messages"] if m["role"] == "assistant"
    ]
    assert thoughts[:2] == ["Read it first.", "A mistake."]

    assert trace.failure is None
    assert (trace.reward, trace.metrics, trace.exit_reason) == (1.0, {"files": 2.0}, "answered")
    (branch,) = trace.branches()
    assert not branch.token_exact
    assert branch.messages[-1]["content"] == "Made."


async def test_turn_that_reaches_the_limit_ends_without_a_summary() -> None:
    with ModelServer([shell(1, "echo 1"), shell(2, "echo 2")]) as server:
        trace = await rollout(TASK, at(server), RolloutOptions(max_turns=2))
    assert len(server.calls) == 2
    assert trace.exit_reason == "max_iterations"
    assert trace.failure is not None
    assert trace.failure.boundary == "task", "made.txt does not exist, so the reward raised"


class Anything(Task, frozen=True):
    @reward
    def half(self, trace, ctx) -> float:
        return 0.5


async def test_conversation_that_is_too_long_ends_without_compaction_and_is_judged() -> None:
    overflow = Step((), faults=(Refuse("context_length"),))
    with ModelServer(
        [*(shell(number, f"echo {number}") for number in range(8)), overflow]
    ) as server:
        trace = await rollout(Anything(prompt="Go."), at(server))
    assert len(server.calls) == 9
    assert (trace.exit_reason, trace.failure, trace.reward) == ("context_length", None, 0.5)


class Slow(Anything, frozen=True):
    @reward
    async def late(self, trace, ctx) -> float:
        return (await ctx.terminal("sleep 60"))["exit_code"]


async def test_reward_that_takes_too_long_is_an_error_of_the_task() -> None:
    with ModelServer(["Done."]) as server:
        trace = await rollout(Slow(prompt="Go."), at(server), RolloutOptions(timeout=3))
    assert trace.failure is not None
    assert trace.failure.boundary == "task"
    assert trace.failure.message.startswith("scoring took longer")


async def test_refused_key_is_a_failure_of_the_provider_without_a_reward() -> None:
    with ModelServer(lambda _request: Step((), faults=(Refuse("unauthorized"),))) as server:
        refused = await rollout(TASK, at(server, api_key="wrong"))
    assert refused.failure is not None
    assert (refused.failure.boundary, refused.failure.retryable) == ("provider", False)
    assert (refused.reward, refused.rewards, refused.retried) == (None, {}, [])


async def test_tools_have_no_auxiliary_model() -> None:
    endpoint = ModelEndpoint(base_url="http://127.0.0.1:9/v1", model="m")
    async with RolloutRunner() as runner, AsyncExitStack() as stack:
        assert runner._app is not None
        plan = RolloutPlan(TASK, endpoint, runner.options.toolsets)
        agent = await runner._app.agent(runner._request(plan, endpoint, stack))
        assert runner._app.session(agent).session_tools.deps.auxiliary is None
        await runner._app.leave(agent)


async def test_task_chooses_its_container_image(monkeypatch) -> None:
    images: list[str] = []

    def make_host(options: Any, _tell: Any) -> Any:
        images.append(options.image)
        raise BackendUnavailable("no docker here")

    monkeypatch.setattr(docker, "DockerHost", make_host)
    with ModelServer([shell(1, "ls"), "I could not."]) as server:
        task = Task(prompt="List the files.", image="registry.test/box:1")
        await rollout(task, at(server), RolloutOptions(backend="docker", attempts=1))
    assert set(images) == {"registry.test/box:1"}


class Unlucky(Task, frozen=True):
    async def setup(self, ctx) -> None:
        counter = Path(self.data["counter"])
        tries = len(counter.read_text()) if counter.exists() else 0
        counter.write_text("x" * (tries + 1))
        if tries < 2:
            raise BackendUnavailable("the container is gone")

    @reward
    def one(self, trace, ctx) -> float:
        return 1.0


async def test_sandbox_failure_is_repeated_until_the_attempts_are_used(tmp_path) -> None:
    task = Unlucky(prompt="Go.", data={"counter": str(tmp_path / "tries")})
    with ModelServer(["Done."]) as server:
        trace = await rollout(task, at(server))
    assert trace.reward == 1.0
    assert [failure.boundary for failure in trace.retried] == ["sandbox", "sandbox"]
    (tmp_path / "tries").unlink()
    with ModelServer([]) as server:
        trace = await rollout(task, at(server), RolloutOptions(attempts=2))
    assert trace.failure is not None
    assert (trace.failure.boundary, trace.reward, len(trace.retried)) == ("sandbox", None, 1)


class WrongSetup(Task, frozen=True):
    async def setup(self, ctx) -> None:
        raise RuntimeError("no data")


async def test_error_in_setup_is_an_error_of_the_task() -> None:
    with ModelServer([]) as server:
        trace = await rollout(WrongSetup(prompt="Go."), at(server))
    assert trace.failure is not None
    assert (trace.failure.boundary, trace.failure.message) == (
        "task",
        "setup: RuntimeError: no data",
    )


async def test_exception_in_a_tool_is_a_failure_of_the_tool(monkeypatch) -> None:
    async def broken(*_args: Any, **_options: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(LocalFiles, "lines", broken)
    with ModelServer([ToolCall("c1", "read_file", '{"path": "note.txt"}'), "Done."]) as server:
        trace = await rollout(TASK, at(server))
    assert trace.failure is not None
    assert (trace.failure.boundary, trace.reward) == ("tool", None)
    assert "RuntimeError: a bug" in trace.failure.message


async def test_place_that_cannot_be_used_is_a_failure_of_the_sandbox(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # there is no docker
    with ModelServer([shell(1, "ls"), "I could not."]) as server:
        options = RolloutOptions(backend="docker", attempts=1)
        trace = await rollout(Task(prompt="List the files."), at(server), options)
    assert trace.failure is not None
    assert (trace.failure.boundary, trace.failure.retryable) == ("sandbox", True)
    assert len(server.calls) == 2


async def test_rollouts_of_one_runner_have_their_own_folders() -> None:
    def answer(request: Any) -> Any:
        if any(message["role"] == "tool" for message in request.body["messages"]):
            return "Done."
        return shell(1, "cat note.txt > made.txt; echo >> made.txt")

    with ModelServer(answer) as server:
        async with RolloutRunner() as runner:
            traces = await asyncio.gather(*(runner.run(TASK, at(server)) for _ in range(8)))
    assert [(trace.reward, trace.metrics["files"]) for trace in traces] == [(1.0, 2.0)] * 8
    assert len({trace.id for trace in traces}) == 8
    first = {call.raw for call in server.calls if len(call.body["messages"]) == 2}
    assert len(first) == 1, "the same task has the same prompt"


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm"])
async def test_rollout_through_the_capture_endpoint_is_one_exact_branch(kind) -> None:
    command = {"command": "cat note.txt > made.txt; echo >> made.txt"}
    call = json.dumps({"name": "terminal", "arguments": command})
    replies = [f"<think>\nCopy.\n</think>\n\n<tool_call>\n{call}\n</tool_call>", "Made."]
    with TokenServer(replies) as server:
        async with CaptureServer(server.url, kind, parser="hermes") as capture:
            endpoint = ModelEndpoint(base_url="", model="lab", sampling=SAMPLING)
            trace = await rollout(TASK, (capture, endpoint))
    assert trace.failure is None
    assert trace.reward == 1.0
    assert trace.token_exact
    (branch,) = trace.branches()
    assert list(branch.token_ids[: len(server.prompts[1])]) == server.prompts[1]
    assert sum(branch.mask) == len(replies[0]) + len(replies[1]) + 2


async def test_agent_that_exceeds_the_time_of_its_task_is_stopped_and_judged() -> None:
    task = Anything(prompt="Go.", agent_timeout=0.3)
    with ModelServer([shell(1, "sleep 60")]) as server:
        trace = await rollout(task, at(server))
    assert (trace.exit_reason, trace.failure, trace.reward) == ("time_limit", None, 0.5)


async def test_model_in_this_process_answers_with_the_toolsets_of_the_rollout() -> None:
    model = ScriptedModel([shell(1, "echo 1"), "Done."])

    class Source:
        name, provider = "scripted", "testing"

        def for_turn(self) -> ScriptedModel:
            return model

    wrapped: list[Any] = []

    def wrap(inner: Any) -> Any:
        wrapped.append(inner)
        return inner

    endpoint = (Source(), ModelEndpoint(base_url="http://127.0.0.1:9/v1", model="m"))
    async with RolloutRunner() as runner:
        trace = await runner.run(Anything(prompt="Go."), endpoint, toolsets=["terminal"], wrap=wrap)
    assert (trace.failure, trace.reward, wrapped) == (None, 0.5, [model])
    assert {spec.name for spec in model.requests[0].tools} == {"terminal", "process"}


async def test_named_rollout_sees_the_same_path_each_time_and_none_of_the_old_files(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "one").mkdir(parents=True)
    (workspace / "one" / "old.txt").write_text("of an interrupted rollout")
    seen = []
    async with RolloutRunner(RolloutOptions(workspace=str(workspace))) as runner:
        for _ in range(2):
            with ModelServer([shell(1, "pwd; ls; touch mine.txt"), "Done."]) as server:
                trace = await runner.run(Anything(prompt="Go."), at(server), folder_name="one")
            (result,) = [n.message["content"] for n in trace.nodes if n.message["role"] == "tool"]
            seen.append(result)
    assert seen[0] == seen[1]
    assert str(workspace / "one") in seen[0]
    assert "old.txt" not in seen[0]
    assert not any(workspace.iterdir())


async def test_workspace_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "workspace").symlink_to(tmp_path)
    options = RolloutOptions(workspace=str(tmp_path / "workspace"), attempts=1)
    async with RolloutRunner(options) as runner:
        endpoint = ModelEndpoint(base_url="http://127.0.0.1:9/v1", model="m")
        trace = await runner.run(Anything(prompt="Go."), endpoint, folder_name="one")
    assert trace.failure is not None
    assert trace.failure.boundary == "sandbox"
