"""`hermes eval` as a user runs it: real processes, real tools, and a model server with a script."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hermes.core.messages import Thinking, ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, Refuse, Step, StepLike
from hermes.envs import read_traces
from tests.unit.envs.token_server import TokenServer

HERMES = [sys.executable, "-m", "hermes"]
KEY = "key-that-must-not-be-stored"
TASKS = """
from pathlib import Path

from hermes import envs

print("this text of a task set is not part of the results")
with Path("loads.txt").open("a") as loads:
    loads.write("loaded\\n")


class Count(envs.Task, frozen=True):
    async def setup(self, ctx):
        await ctx.write_file("text.txt", self.data["text"])

    @envs.reward
    async def is_correct(self, trace, ctx):
        count = await ctx.terminal("cat count.txt")
        if self.data.get("broken") and not Path("mended").exists():
            raise ValueError("the verifier is broken")
        return count["output"].strip() == str(len(self.data["text"].split()))

    async def solve(self, ctx):
        await ctx.terminal(self.data.get("solution", "wc -w < text.txt > count.txt"))


def task(name, text, **more):
    return Count(name=name, prompt=f"Count the words ({name}).", data={"text": text, **more})


TASKS = [task("one", "hello"), task("two", "hello you"), task("three", "a b c")]
WITH_FAILURES = [*TASKS[:1], task("broken", "x", broken=True), task("refused", "y")]
UNSOLVED = [*TASKS[:1], task("unsolved", "x y", solution="true")]
"""


def answer(request: RecordedRequest) -> StepLike:
    messages = request.body["messages"]
    asked = next(message["content"] for message in messages if message["role"] == "user")
    if "refused" in asked:
        return Step((), faults=(Refuse("unauthorized"),))
    if any(message["role"] == "tool" for message in messages):
        return "Done."
    # The second model gives a wrong answer for one task.
    wrong = request.body["model"] == "weak-model" and "two" in asked
    command = "echo 7 > count.txt" if wrong else "wc -w < text.txt > count.txt"
    return [Thinking("I count."), ToolCall("c1", "terminal", json.dumps({"command": command}))]


class Evaluation:
    """Runs `hermes eval` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tasks.py").write_text(TASKS)

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*HERMES, "eval", *words],
            cwd=self.folder, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self(*words, "--json", code=code).stdout)

    def rewards(self, run: str) -> Counter[tuple[str, float | None]]:
        traces = read_traces(self.folder / run / "traces.jsonl")
        return Counter((trace.task_key, trace.reward) for trace in traces)


@pytest.fixture
def evaluate(tmp_path: Path) -> Evaluation:
    return Evaluation(tmp_path)


@pytest.fixture
def server():
    with ModelServer(answer) as server:
        yield server


def at(server: ModelServer, model: str = "lab-model") -> list[str]:
    return ["--base-url", f"{server.url}/v1", "--model", model, "--api-key", KEY]


def test_run_is_scored_reported_and_stored_without_the_key(
    evaluate: Evaluation, server: ModelServer
) -> None:
    done = evaluate(
        "run", "tasks.py", *at(server), "--repeats", "2", "--temperature", "0.5",
        "--toolsets", "terminal",
    )  # fmt: skip
    run = evaluate.folder / "evals" / "tasks-lab-model"
    assert "pass rate 100%" in done.stdout
    assert f"report: {run.relative_to(evaluate.folder) / 'report.html'}" in done.stdout
    assert evaluate.rewards(str(run)) == {("one", 1): 2, ("two", 1): 2, ("three", 1): 2}
    bodies = [call.body for call in server.calls]
    assert {body["temperature"] for body in bodies} == {0.5}
    assert {tool["function"]["name"] for tool in bodies[0]["tools"]} == {"terminal", "process"}
    sent = [m for m in bodies[-1]["messages"] if m["role"] == "assistant"]
    assert sent[0]["reasoning_content"] == "I count."
    assert (evaluate.folder / "loads.txt").read_text() == "loaded\n", "in this process, once"
    assert not [path for path in run.iterdir() if KEY in path.read_text("utf-8", "replace")]
    again = evaluate("run", "tasks.py", *at(server), code=2)
    assert "has a run already" in again.stderr


def test_failures_are_kept_apart_and_run_again(evaluate: Evaluation, server: ModelServer) -> None:
    words = ("run", "tasks.py:WITH_FAILURES", *at(server), "-o", "r")
    found = evaluate.json(*words, code=1)
    assert found["summary"]["boundaries"] == {"provider": 1, "task": 1}
    assert found["summary"]["scored"] == 1
    assert evaluate.rewards("r") == {("one", 1): 1}, "a failure is never a reward of 0"
    failed = {t.task_key: t for t in read_traces(evaluate.folder / "r" / "failed_traces.jsonl")}
    assert failed["broken"].failure.message == "is_correct: ValueError: the verifier is broken"
    assert failed["broken"].nodes, "its conversation is kept for the report"
    assert failed["refused"].failure.boundary == "provider"
    page = (evaluate.folder / "r" / "report.html").read_text()
    assert "the verifier is broken" in page

    calls = len(server.calls)
    same = evaluate("run", "--resume", "-o", "r", "--api-key", KEY, code=1)
    assert len(server.calls) == calls, "failed rollouts are not repeated without being asked"
    assert "--retry-failed" in same.stderr
    (evaluate.folder / "mended").touch()
    words = ("run", "--resume", "--retry-failed", "-o", "r", "--api-key", KEY)
    found = evaluate.json(*words, code=1)
    assert (found["summary"]["scored"], found["summary"]["boundaries"]) == (2, {"provider": 1})
    assert evaluate.rewards("r") == {("one", 1): 1, ("broken", 1): 1}


def test_interrupted_run_is_continued_without_repeats(evaluate: Evaluation) -> None:
    many, go_on = threading.Event(), threading.Event()
    count = 0

    def slow(request: RecordedRequest) -> StepLike:
        nonlocal count
        count += 1
        if count > 5:
            many.set()
            go_on.wait(60)
        return answer(request)

    with ModelServer(slow) as server:
        words = ("run", "tasks.py", *at(server), "--repeats", "3", "-o", "r", "--concurrency", "2")
        temporary = evaluate.folder / "temporary"
        temporary.mkdir()
        process = subprocess.Popen(
            [*HERMES, "eval", *words], cwd=evaluate.folder, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": str(temporary)},
        )  # fmt: skip
        assert many.wait(60)
        process.send_signal(signal.SIGINT)
        go_on.set()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130, errors
        assert "to continue: hermes eval run --resume --output r" in errors
        assert "Traceback" not in errors
        assert not list(temporary.iterdir()), "the folders of running rollouts are removed"
        done = sum(evaluate.rewards("r").values())
        assert 0 < done < 9
        evaluate("run", "--resume", "--output", "r", "--api-key", KEY)
        assert evaluate.rewards("r") == {("one", 1): 3, ("two", 1): 3, ("three", 1): 3}
        assert len(server.calls) == 2 * 9, "answered calls are not made again"


def test_workers_load_the_file_once_each(evaluate: Evaluation, server: ModelServer) -> None:
    evaluate("run", "tasks.py", *at(server), "--repeats", "4", "--processes", "2", "-o", "r")
    assert sum(evaluate.rewards("r").values()) == 12
    assert (evaluate.folder / "loads.txt").read_text().count("loaded") == 3, "driver and workers"


def test_two_models_are_compared(evaluate: Evaluation, server: ModelServer) -> None:
    evaluate("run", "tasks.py", *at(server, "weak-model"), "-o", "a", "--tasks", "one,two")
    evaluate("run", "tasks.py", *at(server), "-o", "b", "--tasks", "t*")
    done = evaluate("compare", "a", "b", "-o", "change.html")
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["two", "improved"], ["one", "missing"], ["three", "new"],
    ]  # fmt: skip
    assert "pass rate 0% → 100%: +100 points" in done.stdout
    assert "improved" in (evaluate.folder / "change.html").read_text()
    found = evaluate.json("compare", "a", "b")
    assert (found["paired"], found["change"]["value"]) == (1, 1)
    again = evaluate("compare", "a", "b", "-o", "change.html", code=2)
    assert "exists already" in again.stderr


def test_oracle_runs_the_solutions(evaluate: Evaluation) -> None:
    done = evaluate("oracle", "tasks.py")
    assert "pass rate 100%" in done.stdout
    done = evaluate("oracle", "tasks.py:UNSOLVED", "-o", "solved", code=1)
    assert "1 solution did not pass" in done.stderr
    assert evaluate.rewards("solved") == {("one", 1): 1, ("unsolved", 0): 1}
    (evaluate.folder / "plain.py").write_text(
        "from hermes.envs import Task\nTASKS = [Task(name='a', prompt='b')]\n"
    )
    done = evaluate("oracle", "plain.py", code=2)
    assert "the task a has no solution" in done.stderr


def test_traces_are_exported_for_training(evaluate: Evaluation, server: ModelServer) -> None:
    evaluate("run", "tasks.py", *at(server, "weak-model"), "-o", "r")
    evaluate("export", "r", "--to", "sharegpt", "--min-reward", "1", "-o", "sft.jsonl")
    lines = (evaluate.folder / "sft.jsonl").read_text().splitlines()
    assert {json.loads(line)["metadata"]["task"] for line in lines} == {"one", "three"}
    evaluate("export", "r", "--to", "atif", "-o", "atif")
    files = sorted((evaluate.folder / "atif").iterdir())
    assert [json.loads(file.read_text())["schema_version"] for file in files] == ["ATIF-v1.7"] * 3
    refused = evaluate("export", "r", "--to", "samples", code=2)
    assert "3 of 3 samples are not token-exact" in refused.stderr
    nothing = evaluate("export", "r", "--to", "samples", "--inexact", "skip", code=2)
    assert "nothing was written" in nothing.stderr
    empty = evaluate("export", "r", "--to", "sharegpt", "--min-reward", "5", code=2)
    assert "nothing was written" in empty.stderr


def test_captured_run_has_exact_samples(evaluate: Evaluation) -> None:
    call = '<tool_call>\n{"name": "terminal", "arguments": {"command": "%s"}}\n</tool_call>'
    replies = [call % "wc -w < text.txt > count.txt", "Done."]
    with TokenServer(replies) as server:
        words = ("run", "tasks.py", "--tasks", "one", "--model", "m", "--base-url", server.url)
        evaluate(*words, "--capture", "llama.cpp", "-o", "r")
    evaluate("export", "r", "--to", "samples", "-o", "samples.jsonl")
    (line,) = (evaluate.folder / "samples.jsonl").read_text().splitlines()
    sample = json.loads(line)
    assert sample["token_exact"]
    assert sample["reward"] == 1
    assert len(sample["token_ids"]) == len(sample["mask"]) == len(sample["logprobs"])
    assert set(sample["mask"]) == {0, 1}


def test_wrong_use_is_one_clear_line(evaluate: Evaluation) -> None:
    for words, message in {
        ("run",): "which tasks?",
        ("run", "--resume"): "which run?",
        ("run", "missing.py"): "there is no file",
        ("run", "tasks.py", "--tasks", "four"): "no task matches 'four'",
        ("run", "tasks.py", "--option", "split=x"): "takes no options",
        ("run", "tasks.py", "--option", "split"): "is not NAME=VALUE",
        ("report", "nowhere"): "nowhere has no traces",
        ("export", "nowhere"): "--to",
    }.items():
        done = evaluate(*words, code=2)
        assert message in done.stderr, words


def test_budget_ends_the_run(evaluate: Evaluation, server: ModelServer, hermes_home: Path) -> None:
    price = {"lab-model": {"price": {"input": 1000.0, "output": 1000.0}}}
    settings = {"providers": {"custom": {"models": price}}}
    hermes_home.mkdir(exist_ok=True)
    (hermes_home / "config.yaml").write_text(json.dumps(settings))
    words = ("run", "tasks.py", *at(server), "-o", "r", "--max-tokens", "100")
    done = evaluate(*words, "--budget", "0.0001", code=8)
    assert "the budget of $0.0001 is spent; 3 rollouts left" in done.stderr
    assert not server.calls
    evaluate("run", "--resume", "-o", "r", "--api-key", KEY, "--budget", "1000")
    found = evaluate.json("report", "r")
    assert found["summary"]["cost_usd"] > 0
