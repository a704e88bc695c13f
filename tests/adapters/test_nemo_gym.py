"""What NeMo Gym demands of an agent that is used for training, of `run_agent.AIAgent`.

NeMo Gym runs `AIAgent` in a process of its own, with a home for each rollout, and records tokens
at its model server. It cannot be installed here, so these tests stand for it: they use only the
documented names and settings, in a fresh Python. Its demands are: use the given endpoint, carry
token ids through, send sampling as given, and never rewrite history.
"""

import asyncio
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hermes.core.messages import Text, Thinking, ToolCall
from hermes.core.testing import ModelServer
from hermes.envs import CaptureServer, Trace
from tests.adapters.environments import python_with_hermes
from tests.made_once import made_once
from tests.unit.envs.token_server import TokenServer

RUNNER = Path(__file__).with_name("programs") / "nemo_gym_runner.py"
SAMPLING = {"temperature": 0.6, "top_p": 0.95, "chat_template_kwargs": {"enable_thinking": True}}
SETTINGS = """\
agent: {wrap_up: false}
approvals: {mode: off}
compression: {enabled: false}
auxiliary: {title_generation: {enabled: false}}
skills: {review: off}
"""
"""Of the home of a rollout; see docs/guide/evaluation-frameworks.md."""


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = made_once(
        tmp_path_factory, "nemo-gym", lambda folder: python_with_hermes(folder / "venv")
    )
    return str(folder / "venv" / "bin" / "python")


class Gym:
    """The agent server: starts a runner for each rollout."""

    def __init__(self, python: str, home: Path, work: Path) -> None:
        self._python, self._home, self._work = python, home, work

    async def run(self, base_url: str, prompt: str = "Copy it.", **more: Any) -> dict[str, Any]:
        agent = {
            "base_url": base_url,
            "model": "lab-model",
            "max_iterations": 30,
            "enabled_toolsets": ["terminal", "file"],
            "request_overrides": SAMPLING,
            **more,
        }
        turn = {"user_message": prompt, "system_message": "Be quick."}
        process = await asyncio.create_subprocess_exec(
            *(self._python, str(RUNNER)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "HERMES_HOME": str(self._home)},
            cwd=self._work,
        )
        rollout = json.dumps({"agent": agent, "turn": turn}).encode()
        out, err = await process.communicate(rollout)
        assert process.returncode == 0, err.decode()
        return json.loads(out)


@pytest.fixture
def gym(python, hermes_home, tmp_path) -> Gym:
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text(SETTINGS)
    (tmp_path / "note.txt").write_text("hello\n")
    (tmp_path / "AGENTS.md").write_text("Files of the project must not reach the prompt.\n")
    return Gym(python, hermes_home, tmp_path)


def shell(number: int, command: str) -> ToolCall:
    return ToolCall(f"c{number}", "terminal", json.dumps({"command": command}))


STEPS = [
    [Thinking("Read it first."), Text("I look."), shell(1, "cat note.txt")],
    [Thinking("A mistake."), shell(2, "cat missing"), shell(3, "echo two")],
    [ToolCall("c4", "terminal", '{"command": ')],  # invalid JSON
    [ToolCall("c5", "no_such_tool", "{}")],
    [Thinking("Copy."), shell(6, "cp note.txt made.txt")],
    [Thinking("Done."), Text("Made.")],
]


async def test_each_request_repeats_the_one_before_and_adds_to_it(gym, tmp_path) -> None:
    with ModelServer(STEPS) as server:
        result = await gym.run(f"{server.url}/v1")
    assert (result["final_response"], result["completed"]) == ("Made.", True)
    assert (tmp_path / "made.txt").read_text() == "hello\n"
    assert len(server.requests) == len(STEPS), "no auxiliary call, no list of models"
    raw = [call.raw for call in server.calls]
    messages = [data[data.index(b'"messages":[') : data.index(b'],"tools":')] for data in raw]
    assert all(new.startswith(old) for old, new in pairwise(messages))
    bodies = [call.body for call in server.calls]
    assert all(body["tools"] == bodies[0]["tools"] for body in bodies)
    assert b"Files of the project" not in raw[0]
    thoughts = [
        message.get("reasoning_content")
        for message in bodies[-1]["messages"]
        if message["role"] == "assistant"
    ]
    assert thoughts == ["Read it first.", "A mistake.", None, None, "Copy."]


async def test_sampling_is_sent_as_given_and_nothing_else(gym) -> None:
    with ModelServer(["Made."]) as server:
        await gym.run(f"{server.url}/v1")
    (call,) = server.calls
    assert call.headers["authorization"] == "Bearer gym"
    body = dict(call.body)
    for name in ("messages", "tools", "stream", "stream_options"):
        body.pop(name)
    assert body == {"model": "lab-model", **SAMPLING}


async def test_limit_of_model_calls_adds_no_call(gym) -> None:
    with ModelServer([shell(1, "true"), shell(2, "true")]) as server:
        result = await gym.run(f"{server.url}/v1", max_iterations=2)
    assert len(server.calls) == 2
    assert not result["completed"]


@pytest.mark.parametrize("kind", ["vllm", "llama.cpp"])
async def test_token_ids_of_all_calls_form_one_exact_branch(gym, kind) -> None:
    """The recorded ids are those that the model read and wrote, with its reasoning."""
    call = json.dumps({"name": "terminal", "arguments": {"command": "cp note.txt made.txt"}})
    replies = [f"<think>\nCopy.\n</think>\n\n<tool_call>\n{call}\n</tool_call>", "Made."]
    sampling = {"temperature": 0.6, "top_p": 0.95}
    with TokenServer(replies) as tokens:
        async with CaptureServer(tokens.url, kind, model="lab-model", parser="hermes") as capture:
            result = await gym.run(capture.url("rollout-1"), request_overrides=sampling)
            recorder = capture.take("rollout-1")
    assert result["final_response"] == "Made."
    trace = Trace("rollout-1", "copy", "", "lab-model", nodes=recorder.nodes)
    assert trace.token_exact
    (branch,) = trace.branches()
    assert [node.sampled for node in recorder.nodes].count(True) == len(replies)
    assert list(branch.token_ids[: len(tokens.prompts[1])]) == tokens.prompts[1]
    assert sum(branch.mask) == len(replies[0]) + len(replies[1]) + 2  # with the end tokens
    sent = [each.body for each in tokens.requests if "generate" in each.path]
    sent += [each.body for each in tokens.requests if each.path == "/completion"]
    for body in sent:
        given = body.get("sampling_params", body)
        assert {name: given[name] for name in sampling} == sampling
