"""Training runs through the tools `rl_*`, with a real trainer program and a scripted model."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import yaml

from hermes.config.home import Home
from hermes.config.loader import load
from hermes.config.settings import Settings
from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolError
from hermes.core.tool import Concern, ToolContext
from hermes.envs import read_traces
from hermes.envs.training import CHECK_SECONDS, TrainingService, read_state
from hermes.sdk.testing.plugin import tool_deps
from hermes.tools import ToolRegistry, discover_builtin
from hermes.util.processes import process_began
from tests.unit.envs.token_server import TokenServer

TRAINER = Path(__file__).with_name("tiny_trainer.py")
KEY = "wandb-secret-value-123"
TASKS = """\
\"\"\"Say yes.\"\"\"
from hermes import envs


class Yes(envs.Task, frozen=True):
    @envs.reward
    def says_yes(self, trace, ctx):
        return float("Yes" in trace.nodes[-1].message["content"])


TASKS = [Yes(name=f"yes-{number}", prompt="Say yes.") for number in range(4)]
"""


class Tools:
    """The tools `rl_*` of a session."""

    def __init__(self, home: Path) -> None:
        loaded = load(Home(home))
        self.service = TrainingService(Home(home), loaded)
        registry = ToolRegistry()
        discover_builtin(registry)
        self._deps = tool_deps(settings=loaded.raw, trainer=self.service)
        self.entries = {entry.name: entry for entry in registry.entries}

    async def call(self, name: str, /, **arguments: Any) -> Any:
        tool = self.entries[f"rl_{name}"].make(self._deps)
        context = ToolContext("s1", "c1", CancelToken(), print)
        return json.loads(await tool.handler(context, arguments))

    async def examine(self, name: str, /, **arguments: Any) -> Any:
        tool = self.entries[f"rl_{name}"].make(self._deps)
        return tool.effect if tool.examine is None else await tool.examine(arguments)


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with TokenServer(["Yes.", "No.", "Yes."] * 30) as running:
        yield running


@pytest.fixture
def tools(hermes_home: Path, server: TokenServer) -> Iterator[Callable[..., Tools]]:
    """Return the tools for a mode of the trainer. Runs that are left over are ended."""

    def make(mode: str, **more: Any) -> Tools:
        folder = hermes_home / "environments"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "say_yes.py").write_text(TASKS)
        section = {
            "trainer_command": f"'{sys.executable}' '{TRAINER}' {mode}",
            "server": {"url": server.url, "kind": "sglang", "model": "lab"},
            "locked": {"total_steps": 3},
            "stop_seconds": 0.5,
            **more,
        }
        (hermes_home / "config.yaml").write_text(json.dumps({"rl": section}))
        (hermes_home / ".env").write_text(f"WANDB_API_KEY={KEY}\nOTHER_API_KEY=other-secret-9\n")
        return Tools(hermes_home)

    yield make
    for folder in (hermes_home / "rl" / "runs").glob("*"):
        state = read_state(folder)
        if state.is_active:
            os.kill(int(state.supervisor.split(":")[1]), signal.SIGKILL)


async def ended(tools: Tools, run: str) -> None:
    while tools.service._record(run)["status"] in ("starting", "running"):
        await asyncio.sleep(0.05)


async def test_run_is_started_watched_and_its_results_are_shown(tools, hermes_home, server) -> None:
    rl = tools("train")
    listed = {each["name"]: each for each in await rl.call("list_environments")}
    assert listed["say_yes"]["description"] == "Say yes."
    config = await rl.call("select_environment", name="say_yes")
    assert config["fields"]["total_steps"] == {"value": 3, "locked": True, "default": 100}
    await rl.call("edit_config", field="group_size", value="4")
    with pytest.raises(ToolError, match="locked"):
        await rl.call("edit_config", field="total_steps", value=9)
    assert (await rl.call("get_current_config"))["fields"]["group_size"]["value"] == 4

    concern = await rl.examine("start_training")
    assert isinstance(concern, Concern)
    assert "tiny_trainer.py" in concern.subject
    run = (await rl.call("start_training"))["run_id"]
    await ended(rl, run)
    results = await rl.call("get_results", run_id=run)
    assert (results["status"], results["exit_code"], results["lines"]) == ("finished", 0, 3)
    assert results["metrics"]["reward"] == {"first": 1.0, "lowest": 0.0, "highest": 1.0, "last": 1}
    assert results["traces"] == 3
    assert [each["run_id"] for each in await rl.call("list_runs")] == [run]

    folder = hermes_home / "rl" / "runs" / run
    traces = list(read_traces(folder / "traces.jsonl"))
    assert [(trace.reward, trace.token_exact) for trace in traces] == [
        (1.0, True),
        (0.0, True),
        (1.0, True),
    ]
    assert yaml.safe_load((folder / "config.yaml").read_text()) == {
        "env": {"group_size": 4, "total_steps": 3},
        "openai": {
            "base_url": f"{server.url}/v1",
            "model_name": "lab",
            "server_type": "sglang",
        },
    }
    log = (folder / "output.log").read_text()
    assert "trainer of say_yes" in log
    assert "key: [removed] None" in log, "the trainer has only the keys of rl.keys"
    others = [path for path in folder.iterdir() if path.name != "metrics.jsonl"]
    assert not [path for path in others if KEY in path.read_text()]
    assert KEY not in json.dumps(results)


@pytest.mark.parametrize("mode", ["forever", "stubborn"])
async def test_stop_ends_the_trainer_and_everything_it_started(tools, hermes_home, mode) -> None:
    rl = tools(mode)
    await rl.call("select_environment", name="say_yes")
    run = (await rl.call("start_training"))["run_id"]
    child = hermes_home / "rl" / "runs" / run / "child"
    while not child.exists() or not child.read_text():
        await asyncio.sleep(0.05)
    pids = [int(pid) for pid in child.read_text().split()]
    assert all(process_began(pid) for pid in pids)

    again = Tools(hermes_home)  # as after a restart of Hermes
    assert (await again.call("check_status", run_id=run))["status"] == "running"
    with pytest.raises(ToolError, match="checked 0 minutes ago"):
        await again.call("check_status", run_id=run)
    mark = child.with_name("checked")
    os.utime(mark, (0, mark.stat().st_mtime - CHECK_SECONDS - 1))
    assert (await again.call("check_status", run_id=run))["lines"] == 3
    with pytest.raises(ToolError, match="still running"):
        await again.call("get_results", run_id=run)

    assert isinstance(await again.examine("stop_training", run_id=run), Concern)
    assert (await again.call("stop_training", run_id=run))["status"] == "stopped"
    assert not any(process_began(pid) for pid in pids), "no orphan"
    assert (await again.call("check_status", run_id=run))["status"] == "stopped"
    with pytest.raises(ToolError, match="not running"):
        await again.call("stop_training", run_id=run)


async def test_crash_of_the_trainer_is_a_failed_run_with_its_log(tools) -> None:
    rl = tools("crash")
    await rl.call("select_environment", name="say_yes")
    run = (await rl.call("start_training"))["run_id"]
    await ended(rl, run)
    status = await rl.call("check_status", run_id=run)
    assert (status["status"], status["exit_code"], status["lines"]) == ("failed", 1, 0)
    assert "RuntimeError: out of memory" in status["log"]
    assert KEY not in status["log"]


async def test_metrics_are_read_from_the_log_without_a_file(tools) -> None:
    rl = tools("log", server={})
    await rl.call("select_environment", name="say_yes")
    run = (await rl.call("start_training"))["run_id"]
    await ended(rl, run)
    results = await rl.call("get_results", run_id=run)
    assert results["metrics"]["loss"]["last"] == 0.5


async def test_killed_supervisor_takes_the_trainer_with_it(tools, hermes_home) -> None:
    rl = tools("forever")
    await rl.call("select_environment", name="say_yes")
    run = (await rl.call("start_training"))["run_id"]
    folder = hermes_home / "rl" / "runs" / run
    while not (folder / "child").exists() or not (folder / "child").read_text():
        await asyncio.sleep(0.05)
    pids = [int(pid) for pid in (folder / "child").read_text().split()]
    os.kill(int(read_state(folder).supervisor.split(":")[1]), signal.SIGKILL)
    while any(process_began(pid) for pid in pids):
        await asyncio.sleep(0.05)
    assert (await rl.call("check_status", run_id=run))["status"] == "lost"


async def test_run_that_cannot_start_says_why(tools) -> None:
    rl = tools("train", server={"url": "http://127.0.0.1:9", "parser": "none"})
    await rl.call("select_environment", name="say_yes")
    with pytest.raises(ToolError, match=r"could not be started: .*none"):
        await rl.call("start_training")
    (run,) = await rl.call("list_runs")
    assert run["status"] == "failed"


async def test_inference_is_tested_with_rollouts_of_each_model(tools) -> None:
    rl = tools("train")
    await rl.call("select_environment", name="say_yes")
    found = await rl.call("test_inference", num_steps=2, group_size=3, models=["lab", "other"])
    assert set(found["models"]) == {"lab", "other"}
    for result in found["models"].values():
        assert (result["rollouts"], result["model_calls"], result["token_exact"]) == (6, 6, True)
        assert result["mean_reward"] == pytest.approx(4 / 6)
        assert result["failures"] == {}


async def test_failed_rollouts_of_a_test_are_counted_by_reason(tools) -> None:
    rl = tools("train", server={"url": "http://127.0.0.1:9", "model": "lab"})
    await rl.call("select_environment", name="say_yes")
    result = (await rl.call("test_inference", num_steps=1, group_size=2))["models"]["lab"]
    assert (result["rollouts"], result["mean_reward"]) == (2, None)
    ((why, count),) = result["failures"].items()
    assert why.startswith("provider: ")
    assert count == 2


async def test_cancelled_test_leaves_no_process_and_no_files(tools, hermes_home) -> None:
    with TokenServer(["Yes."] * 4, delay=60.0) as slow:
        rl = tools("train", server={"url": slow.url, "model": "lab"})
        await rl.call("select_environment", name="say_yes")
        testing = asyncio.ensure_future(rl.call("test_inference", num_steps=1, group_size=2))
        while not slow.prompts:
            await asyncio.sleep(0.05)
        testing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await testing
    tests = str(hermes_home / "rl" / "tests")
    running = [
        " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])
    ]
    assert not [line for line in running if tests in line]
    assert list(Path(tests).iterdir()) == []


SCRIPT = '''
from environments.hermes_base_env import HermesAgentBaseEnv, HermesAgentEnvConfig


class YesConfig(HermesAgentEnvConfig):
    strictness: float = 0.5


class YesEnv(HermesAgentBaseEnv):
    """Say yes, as a script."""

    name = "yes-script"
    env_config_cls = YesConfig

    async def setup(self):
        self.number = 0

    async def get_next_item(self):
        self.number += 1
        return {"prompt": f"Say yes, {self.number}."}

    def format_prompt(self, item):
        return item["prompt"]

    async def compute_reward(self, item, result, ctx):
        return float("Yes" in result.messages[-1]["content"])

    async def evaluate(self, *args, **kwargs):
        pass


if __name__ == "__main__":
    YesEnv.cli()
'''


async def test_inference_of_an_environment_script_is_tested(tools, hermes_home) -> None:
    rl = tools("train")
    (hermes_home / "environments" / "yes_env.py").write_text(SCRIPT)
    config = await rl.call("select_environment", name="yes-script")
    assert config["fields"]["strictness"] == {"value": 0.5}
    result = (await rl.call("test_inference", num_steps=2, group_size=2))["models"]["lab"]
    assert result["model_calls"] == 4
    assert len(result["rewards"]) == result["rollouts"]


def test_tools_are_offered_only_with_a_trainer(tools) -> None:
    rl = tools("train")
    entry = rl.entries["rl_start_training"]
    assert entry.unavailable(rl._deps) == ""
    off = msgspec.structs.replace(rl._deps, settings=Settings())
    assert "rl.trainer_command" in entry.unavailable(off)
