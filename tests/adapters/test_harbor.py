"""Harbor runs Hermes through its command line, and accepts our trajectories.

The trial runs Harbor's own Hermes agent on a task of two steps. Only its installer, which downloads
a release, is replaced. Harbor's environments need `docker compose` or a cloud, so the trial has one
of its own (`programs/harbor_on_bwrap.py`).
"""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hermes.core.messages import Text, Thinking, ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, Refuse, Step, StepLike
from hermes.envs import (
    CaptureServer,
    ModelEndpoint,
    RecordedCall,
    RolloutOptions,
    Task,
    Trace,
    TraceRecorder,
    reward,
    rollout,
)
from tests.adapters.environments import Environment, framework
from tests.installed import ENVIRONMENT
from tests.unit.envs.token_server import TokenServer

pytestmark = pytest.mark.timeout(1800)  # the first run installs 380 MB; later ones take 15 s

PROGRAMS = Path(__file__).with_name("programs")
CHECKOUT = Path(__file__).resolve().parents[2]
HERMES = shlex.join([sys.executable, "-I", "-m", "hermes"])
KEY = "the-key-of-the-trial"
INSTRUCTION = "Add a line.\nQuotes: \"' and $HOME `date`\n"


@pytest.fixture(scope="module")
def harbor() -> Environment:
    # The registry of a machine may lag behind: Harbor demands a certifi that is a few days old.
    return framework("harbor==0.25.0", minor=12, newest="certifi")


def script(request: RecordedRequest) -> StepLike:
    """Add a line to a file for each message of the user."""
    messages = request.body["messages"]
    if messages[-1]["role"] == "tool":
        return [Thinking("It worked."), Text("Made.")]
    call = json.dumps({"command": "echo line >> made.txt"})
    return [Thinking("Now."), Text("I add it."), ToolCall(f"c{len(messages)}", "terminal", call)]


def check_conversation(requests: list[RecordedRequest], count: int) -> None:
    """Each request extends the one before, and there is no auxiliary call."""
    assert [each.path for each in requests] == ["/v1/chat/completions"] * count
    for before, after in pairwise(each.body for each in requests):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert after["tools"] == before["tools"]


# A trial


@pytest.mark.requires("bwrap")
def test_trial_of_two_steps_resumes_the_session_and_is_rewarded(harbor, tmp_path) -> None:
    write_task(tmp_path / "task")
    with ModelServer(script) as server:
        write_config(tmp_path, f"{server.url}/v1")
        variables = {**os.environ, "PYTHONPATH": str(PROGRAMS), "HARBOR_TELEMETRY": "off"}
        done = subprocess.run(
            [harbor.program("harbor"), "trial", "start", "-c", str(tmp_path / "trial.json")],
            env={**variables, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    trial = tmp_path / "trials" / "lab"
    result = json.loads((trial / "result.json").read_text())
    assert result["exception_info"] is None, result["exception_info"]
    rewards = [step["verifier_result"]["rewards"] for step in result["step_results"]]
    assert rewards == [{"reward": 1}, {"reward": 2}]
    assert result["agent_info"]["version"].startswith("hermes ")
    check_conversation(server.calls, 4)
    assert {each.headers["authorization"] for each in server.calls} == {f"Bearer {KEY}"}
    for name, turns in (("first", 1), ("second", 2)):
        steps = json.loads((trial / "steps" / name / "agent" / "trajectory.json").read_text())
        sources = [step["source"] for step in steps["steps"]]
        assert sources == ["user", "agent", "agent"] * turns, name
        assert steps["steps"][1]["observation"]["results"][0]["content"] == "[no output]"


def write_task(folder: Path) -> None:
    names = ("first", "second")
    for name in names:
        (folder / "steps" / name / "tests").mkdir(parents=True)
        (folder / "steps" / name / "instruction.md").write_text(f"Do the {name} step.\n")
        (folder / "steps" / name / "tests" / "test.sh").write_text(
            "wc -l < /app/made.txt > /logs/verifier/reward.txt\n"
        )
    (folder / "environment").mkdir()
    (folder / "environment" / "Dockerfile").write_text("FROM scratch\n")
    steps = "".join(f'[[steps]]\nname = "{name}"\n' for name in names)
    (folder / "task.toml").write_text(
        f'schema_version = "1.4"\n[task]\nname = "lab/lines"\n{steps}'
    )


def write_config(folder: Path, url: str) -> None:
    shown = [str(CHECKOUT), sys.prefix, sys.base_prefix]
    program = f'#!/bin/sh\nexec {HERMES} "$@"\n'
    config = {
        "task": {"path": str(folder / "task")},
        "trial_name": "lab",
        "trials_dir": str(folder / "trials"),
        "agent": {
            "import_path": "harbor_on_bwrap:HermesOfCheckout",
            "model_name": "openai/lab-model",
            "base_url": url,
            # Without a format, Harbor passes OPENAI_BASE_URL, and the key is not sent there.
            "model_api_format": "openai_chat_completions",
            "resume_trajectory": True,
            "kwargs": {"toolsets": "terminal,file", "max_turns": 9},
            "env": {"OPENAI_API_KEY": KEY},
        },
        "environment": {
            "import_path": "harbor_on_bwrap:Bubblewrap",
            "kwargs": {"root": str(folder / "root"), "program": program, "shown": shown},
        },
    }
    (folder / "trial.json").write_text(json.dumps(config))


# The commands


def test_commands_of_the_installed_agent(tmp_path, hermes_home) -> None:
    """The documented flags, and the export under the source of either age."""

    def run(command: str) -> str:
        variables = {**os.environ, "HERMES_INSTRUCTION": INSTRUCTION}
        done = subprocess.run(
            ["bash", "-c", command], env=variables, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "hermes" in run(f"{HERMES} version")
    with ModelServer(script) as server:
        flags = f"--model lab-model --provider custom --base-url {server.url}/v1"
        flags += " --toolsets terminal,file --max-turns 5"
        said = run(f'{HERMES} --yolo chat -q "$HERMES_INSTRUCTION" -Q {flags}')
        assert said == "Made.\n"
        export = f"{HERMES} sessions export s.jsonl --source oneshot"
        run(export)
        first = json.loads((tmp_path / "s.jsonl").read_text())
        run(f'{HERMES} --yolo chat --resume {first["id"]} -q "$HERMES_INSTRUCTION" -Q {flags}')
        run(export)
    check_conversation(server.calls, 4)
    asked = server.calls[0].body["messages"][-1]["content"]
    assert asked == INSTRUCTION
    again = json.loads((tmp_path / "s.jsonl").read_text())
    assert (again["id"], len(again["messages"])) == (first["id"], 2 * len(first["messages"]))
    run(f"{HERMES} sessions export cli.jsonl --source cli")
    assert json.loads((tmp_path / "cli.jsonl").read_text()) == again


# Trajectories


class MakeFile(Task, frozen=True):
    @reward
    async def is_made(self, trace, ctx) -> float:
        return float((await ctx.terminal("test -e made.txt"))["exit_code"] == 0)


TASK = MakeFile(name="lines", prompt="Add a line.", system_prompt="Be quick.")


async def traces() -> dict[str, Trace]:
    """One trace of each kind."""
    found: dict[str, Trace] = {}
    with ModelServer(script) as server:
        endpoint = ModelEndpoint(base_url=f"{server.url}/v1", model="lab-model")
        found["tools and reasoning"] = await rollout(TASK, endpoint)
    broken = [ToolCall("c1", "terminal", "[1"), ToolCall("", "no_such_tool", "{}")]
    with ModelServer([[Thinking("Hm."), *broken], "Done."]) as server:
        endpoint = ModelEndpoint(base_url=f"{server.url}/v1", model="lab-model")
        found["broken calls"] = await rollout(TASK, endpoint)
    with ModelServer([script_call(), Step((), faults=(Refuse("unauthorized"),))]) as server:
        endpoint = ModelEndpoint(base_url=f"{server.url}/v1", model="lab-model")
        found["failure"] = await rollout(TASK, endpoint, RolloutOptions(attempts=1))
    call = json.dumps({"name": "terminal", "arguments": {"command": "touch made.txt"}})
    replies = [f"<think>\nNow.\n</think>\n\n<tool_call>\n{call}\n</tool_call>", "Made."]
    with TokenServer(replies) as tokens:
        async with CaptureServer(tokens.url, "vllm", parser="hermes") as capture:
            given = ModelEndpoint(base_url="", model="lab", sampling={"temperature": 1.0})
            found["token exact"] = await rollout(TASK, (capture, given))
    recorder = TraceRecorder()
    for number, text in enumerate(("first", "second")):
        messages = [{"role": "user", "content": text}]
        reply = {"role": "assistant", "content": f"reply {number}"}
        recorder.add(RecordedCall(messages=messages, reply=reply))
    found["branches"] = Trace("r", "k", "h", "m", nodes=recorder.nodes, rewards={"one": 1.0})
    return found


def script_call() -> ToolCall:
    return ToolCall("c1", "terminal", json.dumps({"command": "ls"}))


VALIDATE = """
import json, sys
from harbor.utils.trajectory_validator import TrajectoryValidator
errors = {}
for path in sys.argv[1:]:
    validator = TrajectoryValidator()
    validator.validate(path)
    errors[path] = validator.errors
print(json.dumps(errors))
"""


def test_validator_accepts_trajectories_of_every_kind(harbor, tmp_path) -> None:
    found = asyncio.run(traces())
    assert (found["failure"].failure is not None, len(found["branches"].branches())) == (True, 2)
    assert found["token exact"].token_exact
    documents: dict[str, Any] = {name: trace.to_atif() for name, trace in found.items()}
    documents["not valid"] = {**documents["branches"], "steps": [{"step_id": 7}]}
    for name, document in documents.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    done = subprocess.run(
        [harbor.python, "-c", VALIDATE, *(f"{name}.json" for name in documents)],
        env={**ENVIRONMENT, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    errors = json.loads(done.stdout)
    assert errors.pop("not valid.json")
    assert errors == {f"{name}.json": [] for name in found}
    steps = documents["token exact"]["steps"]
    assert [bool(step.get("metrics", {}).get("completion_token_ids")) for step in steps] == [
        *(False, False, True, True)
    ]
