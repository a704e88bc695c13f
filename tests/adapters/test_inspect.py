"""inspect_ai evaluates Hermes as a model: its requests go to the API server of a real gateway."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hermes.config.home import Home
from hermes.core.messages import Thinking, ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, StepLike
from hermes.gateway.process import read_state
from tests.adapters.environments import framework

pytestmark = pytest.mark.timeout(1800)  # the first run installs 360 MB; later ones take 20 s

PROGRAM = Path(__file__).with_name("programs") / "read_word.py"
WORDS = ("alder", "birch", "cedar", "dogwood", "elm")
KEY = "the key of the evaluation"
GREETING = "Please say 'hello, world'"  # with which inspect tries the responses API


def script(request: RecordedRequest) -> StepLike:
    """Read the file that the user names and answer with its last word. For `cedar`, guess."""
    messages = request.body["messages"]
    if GREETING in str(messages):
        return "hello, world"
    if messages[-1]["role"] == "tool":
        return str(messages[-1]["content"]).split()[-1]
    word = next(word for word in WORDS if f"{word}.txt" in messages[-1]["content"])
    if word == "cedar":
        return "Surely it is oak."
    call = ToolCall(f"call_{word}", "read_file", json.dumps({"path": f"{word}.txt"}))
    return [Thinking("I have to read it."), call]


class Gateway(NamedTuple):
    url: str
    model: ModelServer


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    home = Home(folder / "home")
    for place in (home.root, folder / "work"):
        place.mkdir()
    for word in WORDS:
        (folder / "work" / f"{word}.txt").write_text(f"the word is {word}\n")
    with ModelServer(script) as model:
        home.config_file.write_text(
            "model:\n  default: lab-model\n  provider: custom\n"
            f"  base_url: {model.url}/v1\n  api_key: no-key-is-needed-here\n"
            f"gateway:\n  cwd: {folder / 'work'}\n  drain_seconds: 0\n"
            "sessions: {auto_title: false}\n"
            "platforms:\n  api_server:\n    enabled: true\n"
        )
        variables = {"HERMES_HOME": str(home.root), "API_SERVER_PORT": "0", "API_SERVER_KEY": KEY}
        process = subprocess.Popen(
            [sys.executable, "-m", "hermes", "gateway", "run"],
            env={**os.environ, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not (address := connected_address(home.root)):
                assert process.poll() is None, "the gateway ended"
                time.sleep(0.05)
            yield Gateway(f"{address}/v1", model)
        finally:
            process.terminate()
            process.wait(60)


def connected_address(root: Path) -> str:
    state = read_state(root)
    connected = [each for each in state.adapters if each.state == "connected"] if state else []
    return connected[0].detail if connected else ""


def evaluate(gateway: Gateway, folder: Path, *options: str) -> dict[str, Any]:
    """Return the log of an evaluation."""
    environment = framework("inspect_ai==0.3.285", "openai==3.51.0")
    shutil.copy(PROGRAM, folder)  # it takes relative paths only
    done = subprocess.run(
        [
            *(environment.program("inspect"), "eval", PROGRAM.name, "--model", "openai/hermes"),
            *("--log-dir", str(folder / "logs"), "--log-format", "json", "--display", "plain"),
            *options,
        ],
        env={**os.environ, "OPENAI_BASE_URL": gateway.url, "OPENAI_API_KEY": KEY},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (log,) = (folder / "logs").glob("*.json")
    document = json.loads(log.read_text())
    assert document["status"] == "success", document.get("error")
    return document


@pytest.mark.parametrize("responses", ["false", "true"])
def test_answers_that_need_a_tool_of_the_agent_are_scored(gateway, tmp_path, responses) -> None:
    before = len(gateway.model.calls)
    log = evaluate(gateway, tmp_path, "-M", f"responses_api={responses}")
    (accuracy,) = [
        metric["value"]
        for score in log["results"]["scores"]
        for name, metric in score["metrics"].items()
        if name == "accuracy"
    ]
    assert accuracy == 0.8
    scores = {sample["id"]: sample["scores"]["match"]["value"] for sample in log["samples"]}
    assert scores == {word: "I" if word == "cedar" else "C" for word in WORDS}
    calls = [each for each in gateway.model.calls[before:] if GREETING not in str(each.body)]
    assert len(calls) == 4 * 2 + 1, "a call with the question, one with the result of the tool"
    (usage,) = log["stats"]["model_usage"].values()
    assert usage["input_tokens"] > 0
    assert usage["output_tokens"] > 0
