"""Verifiers runs Hermes through its own harness, over ACP, on tasks with rewards.

The harness starts a Python that has the documented names. Here that is this checkout, in the folder
where the harness would install a release.
"""

import json
import subprocess
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from hermes.core.messages import Text, Thinking, ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, StepLike
from tests.adapters.environments import framework
from tests.adapters.vf_eval import (
    REQUIREMENT,
    WORDS,
    hermes_harness,
    release_of_checkout,
    variables,
    vf_eval,
)

pytestmark = pytest.mark.timeout(1800)  # the first run installs 560 MB; later ones take 10 s


def shell(number: int, command: str) -> ToolCall:
    return ToolCall(f"c{number}", "terminal", json.dumps({"command": command}))


def script(request: RecordedRequest) -> StepLike:
    """Solve `alder` in three steps and `birch` in two; give `cedar` up."""
    messages = request.body["messages"]
    results = sum(message["role"] == "tool" for message in messages)
    word = next(word for word in WORDS if f"Task {word}:" in str(messages))
    copy = shell(results, "cat note.txt > made.txt")
    steps: dict[str, list[StepLike]] = {
        "alder": [
            [Thinking("What is there?"), Text("I look."), shell(0, "ls; cat missing.txt")],
            [Thinking("Now copy."), copy],
            [Thinking("Done."), Text("Made.")],
        ],
        "birch": [[Text("I copy."), copy], "Made."],
        "cedar": [[Thinking("Too hard."), Text("I cannot.")]],
    }
    return steps[word][results]


class Run(NamedTuple):
    episodes: dict[str, Any]  #: By the word of the task.
    requests: list[RecordedRequest]

    def conversation(self, word: str) -> list[dict[str, Any]]:
        found = [each.body for each in self.requests if f"Task {word}:" in str(each.body)]
        return sorted(found, key=lambda body: len(body["messages"]))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    environment = framework(REQUIREMENT)
    folder = tmp_path_factory.mktemp("verifiers")
    with release_of_checkout() as version, ModelServer(script) as server:
        options = (*hermes_harness(version), "--sampling.temperature", "0.7")
        done = subprocess.run(
            vf_eval(environment, server.url, *options),
            env=variables(folder),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
    if "failed to prepare uv script" in done.stdout + done.stderr:
        pytest.skip("uv cannot install the ACP client of verifiers")
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = folder.glob("outputs/*/traces.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return Run({each["task"]["data"]["word"]: each for each in lines}, server.requests)


def test_reward_is_one_for_solved_tasks_and_zero_for_the_other(run) -> None:
    errors = {word: each["errors"] for word, each in run.episodes.items()}
    assert errors == {word: [] for word in WORDS}
    rewards = {
        word: each["traces"][0]["rewards"]["is_copied"]["score"]
        for word, each in run.episodes.items()
    }
    assert rewards == {"alder": 1.0, "birch": 1.0, "cedar": 0.0}


def test_only_the_calls_of_the_conversations_reach_the_endpoint(run) -> None:
    assert {(each.method, each.path) for each in run.requests} == {("POST", "/v1/chat/completions")}
    assert len(run.requests) == 3 + 2 + 1
    assert {each.body["temperature"] for each in run.requests} == {0.7}


@pytest.mark.parametrize("word", ["alder", "birch"])
def test_each_request_extends_the_one_before(run, word) -> None:
    bodies = run.conversation(word)
    assert len(bodies) == {"alder": 3, "birch": 2}[word]
    for before, after in pairwise(bodies):
        count = len(before["messages"])
        assert after["messages"][:count] == before["messages"]
        assert after["tools"] == before["tools"]


def test_trace_is_one_branch_with_the_reasoning_of_each_reply(run) -> None:
    """A reply that came back without its reasoning would start a second branch."""
    for word, episode in run.episodes.items():
        nodes = episode["traces"][0]["nodes"]
        assert [node.get("parent") for node in nodes] == [None, *range(len(nodes) - 1)], word
    thoughts = [
        node["message"].get("reasoning_content")
        for node in run.episodes["alder"]["traces"][0]["nodes"]
        if node["sampled"]
    ]
    assert thoughts == ["What is there?", "Now copy.", "Done."]
