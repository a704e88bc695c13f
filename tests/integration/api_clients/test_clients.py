"""Client libraries of other people, in their default mode, against a real gateway.

The tools that the server runs must not look like calls that the client has to answer.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from hermes.config.home import Home
from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, Stall, Step, StepLike
from hermes.gateway.process import read_state
from tests.installed import node_packages, python_packages

pytestmark = pytest.mark.timeout(600)  # the first test installs the clients

KEY = "the key of these tests"
TODO = ToolCall("call_1", "todo", '{"todos":[{"id":"1","content":"x","status":"pending"}]}')
RESULT = "Todo list: 1 task, 1 pending\n[ ] 1: x"
AIDER = os.environ.get("HERMES_TEST_AIDER", "")


def script(request: RecordedRequest) -> StepLike:
    last = request.body["messages"][-1]
    text = str(last["content"])
    if last["role"] == "tool":
        return "All done."
    if "hold still" in text:
        return Step((Text("one two"),), faults=(Stall(after=1),))
    if "use a tool" in text:
        return [Text("Let me see."), TODO]
    return f"You said {text}"


class Gateway(NamedTuple):
    url: str
    model: ModelServer

    def departures(self) -> float:
        headers = {"Authorization": f"Bearer {KEY}"}
        text = httpx2.get(f"{self.url.removesuffix('/v1')}/metrics", headers=headers).text
        name = 'hermes_answers_total{outcome="client_left",platform="api_server"} '
        found = [line for line in text.splitlines() if line.startswith(name)]
        return float(found[0].removeprefix(name)) if found else 0.0


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    home = Home(folder / "home")
    home.root.mkdir()
    with ModelServer(script) as model:
        home.config_file.write_text(
            "model:\n  default: lab-model\n  provider: custom\n"
            f"  base_url: {model.url}/v1\n  api_key: no-key-is-needed-here\n"
            f"gateway:\n  cwd: {folder}\n  drain_seconds: 0\n"
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
            while not (address := _address(home.root)):
                assert process.poll() is None, "the gateway ended"
                time.sleep(0.05)
            yield Gateway(f"{address}/v1", model)
        finally:
            process.terminate()
            process.wait(60)


def _address(root: Path) -> str:
    state = read_state(root)
    connected = [each for each in state.adapters if each.state == "connected"] if state else []
    return connected[0].detail if connected else ""


def node_client(name: str, gateway: Gateway, folder: Path) -> Any:
    """What the scenarios of clients.mjs give with a client."""
    program = folder / "clients.mjs"
    shutil.copy(Path(__file__).with_name("clients.mjs"), program)
    packages = node_packages("api-node") / "node_modules"
    (folder / "node_modules").symlink_to(packages)
    before = gateway.departures()
    done = subprocess.run(
        ["node", str(program), name, gateway.url, KEY], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    while gateway.departures() == before:  # each client leaves during a turn
        time.sleep(0.05)
    return json.loads(done.stdout)


def test_openai_for_node(gateway, tmp_path):
    assert node_client("openai", gateway, tmp_path) == {
        "items": ["message", "mcp_call", "message"],
        "output": RESULT,
        "streamed": "Let me see.All done.",
        "called": True,
        "next": "You said second",
        "sameSession": [True, True],
        "chat": "All done.",
    }


def test_openai_agents(gateway, tmp_path):
    assert node_client("agents", gateway, tmp_path) == {
        "items": ["message_output_item", "tool_call_item", "message_output_item"],
        "first": "All done.",
        "streamed": "Let me see.All done.",
        "next": ["You said second", "You said third"],
        "sameSession": [True, True],
    }


def test_vercel_ai(gateway, tmp_path):
    assert node_client("ai", gateway, tmp_path) == {
        "responses": {
            "first": ["Let me see.All done.", "stop", 1],
            "calls": [["mcp.todo", True]],
            "results": [RESULT],
            "streamed": ["Let me see.All done.", "stop"],
            "next": "You said second",
        },
        "chat": {
            "first": ["All done.", "stop", 1],
            "calls": [],
            "results": [],
            "streamed": ["Let me see.\n\nAll done.", "stop"],
            "next": "You said second",
        },
    }


def test_llm(gateway, tmp_path):
    program = python_packages("api-python") / "bin" / "llm"
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: hermes\n  model_name: hermes\n  api_base: {gateway.url}\n"
        "  api_key_name: hermes\n"
    )
    (tmp_path / "keys.json").write_text(json.dumps({"hermes": KEY}))

    def llm(*words: str) -> str:
        done = subprocess.run(
            [str(program), *words],
            env={**os.environ, "LLM_USER_PATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert llm("-m", "hermes", "use a tool") == "Let me see.\n\nAll done."
    assert llm("-m", "hermes", "--no-stream", "use a tool") == "All done."
    assert llm("-c", "second") == "You said second"
    roles = [message["role"] for message in gateway.model.calls[-1].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


if AIDER:  # its packages take 700 MB, so this test runs only where the variable names the program

    @pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
    def test_aider(gateway, tmp_path, stream):
        (tmp_path / "a.py").write_text("x = 1\n")
        done = subprocess.run(
            [
                *(AIDER, "--model", "openai/hermes", "--message", "use a tool", "--yes-always"),
                *("--no-git", "--no-check-update", "--no-show-model-warnings", "--no-pretty"),
                *("--analytics-disable", stream, "a.py"),
            ],
            env={**os.environ, "OPENAI_API_BASE": gateway.url, "OPENAI_API_KEY": KEY},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert "All done." in done.stdout
