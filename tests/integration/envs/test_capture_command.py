"""`hermes capture` as a trainer uses it: a real process, real calls, Ctrl-C."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from hermes.envs import read_traces
from tests.unit.envs.token_server import TokenServer

COMMAND = [sys.executable, "-c", "from hermes.cli.main import run; run()", "capture"]


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with TokenServer(["A.", "B.", "C."]) as running:
        yield running


class Running:
    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        first = self.process.stdout.readline()
        assert "capture endpoint at" in first, self.process.stderr.read()
        self.root = first.split()[3].removesuffix("/v1;")

    def post(self, path: str, body: dict[str, Any]) -> Any:
        data, kind = json.dumps(body).encode(), {"content-type": "application/json"}
        with urlopen(Request(f"{self.root}{path}", data, kind), timeout=60) as response:
            return json.loads(response.read())

    def ask(self, rollout: str) -> str:
        body = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
        found: str = self.post(f"/{rollout}/v1/chat/completions", body)["choices"][0]["message"][
            "content"
        ]
        return found


@pytest.fixture
def capture(server: TokenServer, tmp_path: Path) -> Iterator[Any]:
    started: list[Running] = []

    def start(*arguments: str) -> Running:
        output = ("--output", str(tmp_path / "traces.jsonl"))
        started.append(Running("--server", server.url, "--kind", "sglang", *output, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


def test_finished_and_left_rollouts_are_written(capture, tmp_path) -> None:
    running = capture()
    assert (running.ask("r1"), running.ask("r2")) == ("A.", "B.")
    assert running.post("/r1/finish", {"reward": 1.0})["reward"] == 1.0
    (done,) = read_traces(tmp_path / "traces.jsonl")
    assert (done.id, done.reward, done.token_exact) == ("r1", 1.0, True)
    running.process.send_signal(signal.SIGINT)
    output, errors = running.process.communicate(timeout=60)
    assert (running.process.returncode, errors) == (0, "")
    assert "2 traces written" in output
    _done, left = read_traces(tmp_path / "traces.jsonl")
    assert (left.id, left.reward, left.exit_reason) == ("r2", None, "stopped")


def test_idle_rollout_is_written_without_a_reward(capture, tmp_path) -> None:
    running = capture("--idle", "0.1")
    running.ask("r1")
    while True:
        try:
            with urlopen(f"{running.root}/r1/trace", timeout=60):
                continue
        except HTTPError as error:
            assert error.code == 404
            break
    (trace,) = read_traces(tmp_path / "traces.jsonl")
    assert (trace.id, trace.reward, trace.exit_reason) == ("r1", None, "idle")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--output", "/no/such/folder/traces.jsonl"], "cannot write"),
        (["--key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY is not set"),
        (["--parser", "none"], "invalid choice"),
    ],
)
def test_wrong_option_is_one_line_and_an_exit_code(arguments, words, tmp_path) -> None:
    given = ["--server", "http://127.0.0.1:9", "--kind", "chat", *arguments]
    done = subprocess.run(
        [*COMMAND, *given], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
