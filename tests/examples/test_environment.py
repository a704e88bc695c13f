"""examples/environment, run as its README says."""

import json
import subprocess
import sys
from typing import Any

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from hermes.envs import read_traces
from tests.examples.conftest import EXAMPLES

COUNT = json.dumps({"command": "wc -w < text.txt > count.txt"})


def answer(request: Any) -> Any:
    worked = any(message["role"] == "tool" for message in request.body["messages"])
    return "Done." if worked else ToolCall("c1", "terminal", COUNT)


def test_environment_writes_traces_with_rewards(tmp_path) -> None:
    file = tmp_path / "traces.jsonl"
    with ModelServer(answer) as server:
        script = str(EXAMPLES / "environment" / "word_count.py")
        done = subprocess.run(
            [sys.executable, script, f"{server.url}/v1", "lab-model", str(file)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["one 1.1 {'replies': 2.0}", "poem 1.1 {'replies': 2.0}"]
    traces = list(read_traces(file))
    assert [trace.rewards for trace in traces] == [{"is_correct": 1.0, "keeps_the_text": 1.0}] * 2
    assert [turn["from"] for turn in traces[0].to_sharegpt()[0]] == [
        "system", "human", "gpt", "tool", "gpt",
    ]  # fmt: skip
