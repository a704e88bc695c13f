"""`hermes batch` as a user runs it: real processes, and a model that answers by the prompt."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hermes.compat.batch import BatchRunner, ScriptCompressor, batch_runner_words, compressor_words
from hermes.core.errors import UsageError
from hermes.core.messages import Text, Thinking, ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, Refuse, Step, StepLike

HERMES = [sys.executable, "-m", "hermes"]
REPO = Path(__file__).parents[3]
KEY = "key-that-must-not-be-stored"


def prompt_of(request: RecordedRequest) -> str:
    return [m["content"] for m in request.body["messages"] if m["role"] == "user"][-1]


def answer(request: RecordedRequest) -> StepLike:
    asked = prompt_of(request)
    results = sum(message["role"] == "tool" for message in request.body["messages"])
    if "plain" in asked:
        return Step((Text("Plain."),))
    if "refused" in asked:
        return Step((), faults=(Refuse("unauthorized"),))
    if asked.startswith("use tools") and results < 2:
        command = json.dumps({"command": f"echo {results}"})
        return [Thinking("I look."), ToolCall(f"c{results}", "terminal", command)]
    return [Thinking("Simple."), Text(f"Answer to {asked}.")]


@pytest.fixture
def server():
    with ModelServer(answer) as server:
        yield server


class Batch:
    """Runs `hermes batch` in a folder."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.folder = folder
        self.model = ["--base-url", f"{server.url}/v1", "--model", "lab-model", "--api-key", KEY]

    def dataset(self, *prompts: str, **more: Any) -> str:
        rows = ({"prompt": prompt, "id": n, **more} for n, prompt in enumerate(prompts))
        (self.folder / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return "p.jsonl"

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*HERMES, "batch", *words],
            cwd=self.folder, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def lines(self, run: str = "p", name: str = "trajectories.jsonl") -> list[dict[str, Any]]:
        text = (self.folder / "data" / run / name).read_text()
        return [json.loads(line) for line in text.splitlines()]

    def read(self, name: str, run: str = "p") -> dict[str, Any]:
        return json.loads((self.folder / "data" / run / name).read_text())


@pytest.fixture
def batch(tmp_path: Path, server: ModelServer) -> Batch:
    return Batch(tmp_path, server)


def shape(value: Any) -> Any:
    """The fields of an object, also of the objects in it."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [json.loads(each) for each in sorted({json.dumps(shape(v)) for v in value})]
    return None


def test_run_writes_the_documented_files(batch: Batch, server: ModelServer) -> None:
    prompts = [f"use tools {n}" for n in range(10)] + [
        "plain one",
        "refused",
        "no more",
        "plain two",
    ]
    ran = batch("run", batch.dataset(*prompts), "--batch-size", "5", *batch.model, code=1)
    assert "11 done, 2 discarded, 1 failed of 14 rollouts" in ran.stdout
    assert "failed: prompt 11: provider:" in ran.stdout
    assert "hermes batch run --run-name p --api-key KEY --resume --retry-failed" in ran.stderr

    merged = batch.lines()
    assert [line["prompt_index"] for line in merged] == [*range(10), 12]
    files = sorted(path.name for path in (batch.folder / "data" / "p").glob("batch_*"))
    assert files == [f"batch_00{n}_output.jsonl" for n in (1, 2, 3)]
    assert [line["prompt_index"] // 5 for name in files for line in batch.lines(name=name)] == (
        [0] * 5 + [1] * 5 + [2]
    )
    shapes = {json.dumps(shape(line)) for line in merged}
    assert len(shapes) == 1, "all lines have the same fields"

    statistics = batch.read("statistics.json")
    assert (
        statistics["items"]
        == 14
        == sum(statistics[state] for state in ("done", "discarded", "failed", "pending"))
    )
    assert statistics["trajectories"] == {"total": 11, "completed": 11, "partial": 0}
    assert statistics["discard_reasons"] == {"no reasoning in any turn": 2}
    assert statistics["failure_boundaries"] == {"provider": 1}
    assert (
        statistics["tool_statistics"]["terminal"]["count"]
        == 20
        == sum(line["tool_stats"]["terminal"]["count"] for line in merged)
    )
    assert statistics["model_turns"] == {"total": 31, "with_reasoning": 31}
    assert statistics["toolsets_used"] == {"file": 11, "terminal": 11, "web": 11}
    checkpoint = batch.read("checkpoint.json")
    assert (checkpoint["state"], checkpoint["items"], checkpoint["done"]) == ("complete", 14, 11)

    assert server.calls[0].headers["authorization"] == f"Bearer {KEY}"
    stored = b"".join(path.read_bytes() for path in batch.folder.rglob("*") if path.is_file())
    assert KEY.encode() not in stored

    refused = batch("run", "p.jsonl", *batch.model, code=2)
    assert "hermes batch run --run-name p --api-key KEY --resume" in refused.stderr
    calls = len(server.calls)
    batch("run", "p.jsonl", "--resume", *batch.model, code=1)
    assert len(server.calls) == calls, "discarded and failed prompts are not run again"

    status = json.loads(batch("status", "p", "--json").stdout)
    assert status["counts"] == {"pending": 0, "leased": 0, "done": 11, "discarded": 2, "failed": 1}
    assert [item["index"] for item in status["failed_items"]] == [11]
    assert "complete; 11 done" in batch("list").stdout


def test_interrupted_run_continues_without_repeating_a_call(tmp_path: Path) -> None:
    process: list[subprocess.Popen[str]] = []
    counted: Counter[tuple[str, int]] = Counter()

    def interrupting(request: RecordedRequest) -> StepLike:
        counted[prompt_of(request), len(request.body["messages"])] += 1
        if counted.total() == 9 and process:
            os.kill(process[0].pid, signal.SIGINT)
        return answer(request)

    prompts = [f"use tools {n}" for n in range(12)]
    with ModelServer(interrupting) as server:
        batch = Batch(tmp_path, server)
        words = ["run", batch.dataset(*prompts), "--num-workers", "2", *batch.model]
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [*HERMES, "batch", *words]
        process.append(subprocess.Popen(command, cwd=tmp_path, text=True, **options))
        out, err = process[0].communicate(timeout=120)
        assert process[0].returncode == 130, out + err
        assert "to continue: hermes batch run --run-name p --api-key KEY --resume" in err
        assert batch.read("checkpoint.json")["state"] == "unfinished"
        assert 0 < len(batch.lines()) < 12
        process.clear()
        batch("run", "--run-name", "p", "--resume", "--api-key", KEY)
        assert max(counted.values()) == 1, "no answered call was paid for twice"
        assert counted.total() == 36
        batch(*words, "--run-name", "whole", "--processes", "2")
    first, whole = (tmp_path / "data" / run / "trajectories.jsonl" for run in ("p", "whole"))
    assert first.read_bytes() == whole.read_bytes()
    assert batch.read("checkpoint.json")["state"] == "complete"


def test_repeated_prompts_are_all_run(batch: Batch) -> None:
    (batch.folder / "p.jsonl").write_text('{"prompt": "same"}\n' * 3)
    batch("run", "p.jsonl", "--repeats", "2", "--num_workers=2", *batch.model)
    lines = batch.lines()
    assert [(line["prompt_index"], line["metadata"]["repeat"]) for line in lines] == [
        (0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1),
    ]  # fmt: skip


def test_failed_prompts_are_run_again_on_request(tmp_path: Path) -> None:
    broken = [True]

    def answer_later(request: RecordedRequest) -> StepLike:
        return Step((), faults=(Refuse("unauthorized"),)) if broken[0] else answer(request)

    with ModelServer(answer_later) as server:
        batch = Batch(tmp_path, server)
        batch("run", batch.dataset("one", "two"), *batch.model, code=1)
        broken.clear()
        broken.append(False)
        batch("run", "--run-name", "p", "--resume", "--retry-failed", "--api-key", KEY)
    assert len(batch.lines()) == 2


def test_other_settings_do_not_continue_a_run(batch: Batch) -> None:
    batch("run", batch.dataset("one", "two"), "--max-samples", "1", *batch.model)
    refused = batch("run", "--run-name", "p", "--resume", "--max-turns", "3", code=2)
    assert "another value of max_turns" in refused.stderr
    refused = batch("run", "--run-name", "p", "--resume", "--model", "other", code=2)
    assert "the run uses custom:lab-model" in refused.stderr
    refused = batch("run", "--run-name", "p", "--resume", code=2)
    assert "started with --api-key" in refused.stderr
    batch("run", "--run-name", "p", "--resume", "--max-samples", "2", "--api-key", KEY)
    assert len(batch.lines()) == 2


def test_model_and_key_come_from_the_settings(
    batch: Batch, server: ModelServer, hermes_home: Path
) -> None:
    hermes_home.mkdir(parents=True, exist_ok=True)
    (hermes_home / "config.yaml").write_text(
        f"model: {{provider: custom, base_url: '{server.url}/v1', default: lab, api_key: {KEY}}}\n"
    )
    batch("run", batch.dataset("one", "two", "three"), "--processes", "1")
    assert len(batch.lines()) == 3
    assert {call.headers["authorization"] for call in server.calls} == {f"Bearer {KEY}"}
    assert {call.body["model"] for call in server.calls} == {"lab"}
    stored = b"".join(p.read_bytes() for p in (batch.folder / "data").rglob("*") if p.is_file())
    assert KEY.encode() not in stored


def test_budget_stops_the_run_and_is_shown(
    batch: Batch, server: ModelServer, hermes_home: Path
) -> None:
    unknown = batch("run", batch.dataset("one"), "--budget", "1", *batch.model, code=2)
    assert "the price of lab-model is not known" in unknown.stderr
    assert not (batch.folder / "data").exists()
    hermes_home.mkdir(parents=True, exist_ok=True)
    (hermes_home / "config.yaml").write_text(
        "providers: {custom: {models: {lab-model: {price: {input: 100, output: 100}}}}}\n"
    )
    prompts = [f"use tools {n}" for n in range(20)]
    words = ("run", batch.dataset(*prompts), "--max-tokens", "100", *batch.model)
    stopped = batch(*words, "--budget", "1.5", code=8)
    assert "the budget is spent; to continue: hermes batch run --run-name p" in stopped.stderr
    statistics = batch.read("statistics.json")
    assert 0 < statistics["cost_usd"] <= 1.5
    assert statistics["pending"] > 0
    batch("run", "--run-name", "p", "--resume", "--budget", "500", "--api-key", KEY)
    assert len(batch.lines()) == 20


def test_invalid_dataset_starts_nothing(batch: Batch) -> None:
    (batch.folder / "p.jsonl").write_text('{"prompt": "a"}\n{"text": "b"}\n')
    refused = batch("run", "p.jsonl", *batch.model, code=2)
    assert refused.stderr.startswith(
        "hermes: p.jsonl:2 is not a row of prompts: it has no `prompt`"
    )
    assert not (batch.folder / "data").exists()
    assert "no dataset was named" in batch("run", code=2).stderr
    assert "there is no run" in batch("status", "nothing", code=2).stderr
    batch.dataset("one")
    assert (
        "there is no distribution" in batch("run", "p.jsonl", "--distribution", "x", code=2).stderr
    )


def test_documented_script_runs_from_the_clone(batch: Batch) -> None:
    words = [
        f"--dataset_file={batch.dataset('one', 'two')}", "--batch_size=1", "--run_name=my_run",
        "--distribution", "minimal", "--max_turns=5", "--num_workers=2", "--log_prefix_chars=80",
        "--resume=False", *batch.model,
    ]  # fmt: skip
    script = [sys.executable, str(REPO / "batch_runner.py")]
    ran = subprocess.run(
        [*script, *words],
        cwd=batch.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(batch.lines("my_run")) == 2
    assert len(batch.lines("my_run", "batch_002_output.jsonl")) == 1
    listed = subprocess.run(
        [*script, "--list_distributions"], capture_output=True, text=True, check=True, timeout=120
    )
    assert "terminal_only" in listed.stdout
    subprocess.run(
        [sys.executable, str(REPO / "trajectory_compressor.py"), "--input", "data/my_run"],
        cwd=batch.folder, capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    assert len(batch.lines("my_run_compressed")) == 2


def test_options_of_the_scripts_become_those_of_the_command() -> None:
    assert batch_runner_words(["--dataset_file=x", "--resume", "True", "--verbose=false"]) == [
        "batch", "run", "--dataset_file=x", "--resume",
    ]  # fmt: skip
    assert compressor_words(["--input=x", "--target_max_tokens=5", "--output", "y"]) == [
        "batch", "compress", "x", "--target-tokens=5", "--output", "y",
    ]  # fmt: skip


def test_documented_class_runs_and_returns_the_statistics(
    batch: Batch, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(batch.folder)
    runner = BatchRunner(
        batch.dataset("one", "two"), batch_size=1, run_name="mine", model="lab-model",
        base_url=f"{server.url}/v1", api_key=KEY, providers_allowed=["a", "b"], temperature=0,
    )  # fmt: skip
    statistics = runner.run()
    assert (statistics["done"], statistics["exit_code"]) == (2, 0)
    assert server.calls[0].body["provider"] == {"only": ["a", "b"]}
    assert server.calls[0].body["temperature"] == 0
    with pytest.raises(UsageError, match="already"):
        runner.run()

    async def inside_a_loop() -> dict[str, Any]:
        return runner.run(resume=True)

    assert asyncio.run(inside_a_loop())["done"] == 2
    (done,) = ScriptCompressor(target_tokens=1000).compress_file("data/mine")
    assert len(done["metrics"]) == 2


def test_compress_with_a_model(batch: Batch, server: ModelServer) -> None:
    turns = [{"from": "system", "value": "s"}, {"from": "human", "value": "Do it."}]
    for number in range(30):
        turns.append({"from": "gpt", "value": f"<think>\n</think>\nStep {number}. " + "x" * 600})
        turns.append({"from": "human", "value": f"Go on {number}."})
    turns.append({"from": "gpt", "value": "<think>\n</think>\nDone."})
    (batch.folder / "t.jsonl").write_text(json.dumps({"conversations": turns}) + "\n")
    words = ("compress", "t.jsonl", "--target-tokens", "3000", *batch.model[:4])
    printed = batch(*words).stdout
    assert "t_compressed.jsonl: 1 trajectory" in printed
    (line,) = (batch.folder / "t_compressed.jsonl").read_text().splitlines()
    assert "Answer to These are turns" in line
    assert len(server.calls) == 1
    assert "exists already" in batch(*words, code=2).stderr
    assert len(server.calls) == 1
