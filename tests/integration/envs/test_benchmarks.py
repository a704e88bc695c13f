"""Benchmarks with scripted agents, a real shell, and a program with the commands of YC-Bench."""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from hermes.envs import ModelEndpoint, RolloutContext, RolloutOptions, Trace, rollout
from hermes.envs.benchmarks import (
    BENCHMARKS,
    swe_tasks,
    terminal_test_tasks,
    yc_bench_tasks,
)
from tests.unit.envs.test_benchmarks import ROWS, write_rows

pytestmark = pytest.mark.timeout(120)


def shell(number: int, command: str) -> ToolCall:
    return ToolCall(f"c{number}", "terminal", json.dumps({"command": command}))


async def judge(task: Any, *script: Any, last: tuple[str, ...] = ("Done.",)) -> Trace:
    """Let a scripted agent work on a task."""
    with ModelServer([*script, *last]) as server:
        endpoint = ModelEndpoint(base_url=f"{server.url}/v1", model="lab-model")
        return await rollout(task, endpoint, RolloutOptions(attempts=1))


class Solved:
    """The task, with its own solution as a part of the setup."""

    def __init__(self, task: Any) -> None:
        self._task = task

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    async def setup(self, ctx: RolloutContext) -> None:
        await self._task.setup(ctx)
        await self._task.solve(ctx)


TERMINAL_TASKS = terminal_test_tasks()


@pytest.mark.parametrize("task", TERMINAL_TASKS, ids=lambda task: task.name)
async def test_terminal_tests_pass_with_the_solution_and_not_without(task) -> None:
    assert (await judge(Solved(task))).reward == 1.0
    trace = await judge(task)
    assert (trace.reward, trace.failure) == (0.0, None)


async def test_terminal_test_is_judged_in_the_folder_where_the_agent_began() -> None:
    task = next(task for task in TERMINAL_TASKS if task.name == "greeting")
    command = "echo 'Hello from Hermes Agent' >greeting.txt; mkdir sub; cd sub"
    assert (await judge(task, shell(1, command))).reward == 1.0
    wrong = "mkdir sub; cd sub; echo 'Hello from Hermes Agent' >greeting.txt"
    assert (await judge(task, shell(1, wrong))).reward == 0.0


async def test_terminal_test_whose_result_is_a_folder_gets_no_reward() -> None:
    trace = await judge(TERMINAL_TASKS[0], shell(1, f"mkdir {TERMINAL_TASKS[0].path}"))
    assert (trace.reward, trace.failure) == (0.0, None)


@pytest.fixture
def swe(tmp_path):
    file = write_rows(tmp_path / "rows.jsonl", ROWS)
    return {mode: swe_tasks(file, mode=mode) for mode in ("fix", "implement")}


@pytest.mark.parametrize("mode", ["fix", "implement"])
async def test_swe_solutions_pass_and_the_first_files_do_not(swe, mode) -> None:
    for task in swe[mode]:
        assert (await judge(Solved(task))).reward == 1.0
        trace = await judge(task)
        assert (trace.reward, trace.failure) == (0.0, None)


CHEATS = {
    "ends the process": "printf 'import os\\nos._exit(0)\\n' >solution.py",
    "raises SystemExit": "printf 'raise SystemExit(0)\\n' >solution.py",
    "removes the file": "rm solution.py",
    "does not end": "printf 'while True: pass\\n' >solution.py",
    "plants modules": "printf 'raise SystemExit(0)\\n' >sitecustomize.py; export PYTHONPATH=$PWD",
    "changes the tests": "printf 'print(1)\\n' >run.py; printf 'print(1)\\n' >tests.py",
}


@pytest.mark.parametrize("command", CHEATS.values(), ids=list(CHEATS))
async def test_swe_cheats_get_no_reward(swe, command) -> None:
    task = msgspec.structs.replace(swe["fix"][0], test_timeout=5.0)
    trace = await judge(task, shell(1, command))
    assert (trace.reward, trace.failure) == (0.0, None)


async def test_swe_without_python_is_an_error_of_the_task(swe, tmp_path, monkeypatch) -> None:
    (tmp_path / "bin").mkdir()
    for program in ("bash", "sh", "mktemp", "rm", "cat"):
        (tmp_path / "bin" / program).symlink_to(f"/bin/{program}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    trace = await judge(swe["fix"][0], last=())
    assert trace.failure is not None
    assert trace.failure.boundary == "task"
    assert "need python3" in trace.failure.message


@pytest.fixture
def yc_program(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "yc-bench"
    program.parent.mkdir()
    script = Path(__file__).with_name("yc_bench_program.py")
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


@pytest.mark.usefixtures("yc_program")
async def test_yc_bench_scores_survival_and_funds() -> None:
    (task,) = yc_bench_tasks(["fast_test"], [7])
    script = [
        shell(1, "yc-bench company status && cd /"),
        shell(2, "yc-bench task dispatch --task-id t1"),
        shell(3, "for month in 1 2 3 4 5 6 7 8 9 10 11 12; do yc-bench sim resume; done"),
    ]
    trace = await judge(task, *script)
    assert trace.failure is None
    assert trace.metrics == {"funds_usd": 250_000 + 90_000 - 12 * 15_000}
    assert trace.rewards["survival"] == 1.0
    assert trace.rewards["normalised_funds"] == pytest.approx(0.1072, abs=1e-4)
    assert trace.reward == pytest.approx(0.5536, abs=1e-4)


@pytest.mark.usefixtures("yc_program")
async def test_yc_bench_goes_on_without_an_agent_that_stops() -> None:
    survives, fails = yc_bench_tasks(["fast_test", "hard"], [1])
    trace = await judge(survives)
    assert trace.metrics == {"funds_usd": 70_000.0}
    assert trace.rewards["survival"] == 1.0
    trace = await judge(fails)
    assert (trace.failure, trace.reward) == (None, 0.0)
    assert trace.metrics["funds_usd"] < 0


async def test_yc_bench_without_its_program_is_an_error_of_the_task(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    trace = await judge(yc_bench_tasks(["fast_test"], [1])[0], last=())
    assert trace.failure is not None
    assert trace.failure.boundary == "task"
    assert "uv tool install" in trace.failure.message


@pytest.mark.usefixtures("yc_program")
async def test_yc_bench_error_is_an_error_of_the_task() -> None:
    (task,) = yc_bench_tasks(["fast_test"], [1])
    trace = await judge(task, shell(1, "rm yc_bench.db"))
    assert trace.failure is not None
    assert trace.failure.boundary == "task"
    assert "No simulation found" in trace.failure.message


def test_defaults_of_benchmarks_are_those_of_their_tasks() -> None:
    assert BENCHMARKS["yc-bench"].concurrency == 1
    assert BENCHMARKS["yc-bench"].toolsets == ("terminal",)
