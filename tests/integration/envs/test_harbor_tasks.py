"""Harbor tasks in containers of a real Docker engine, and of podman."""

import asyncio
import json
import shutil
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes.app import make_workspace
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import BackendUnavailable
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from hermes.envs import (
    ModelEndpoint,
    RolloutContext,
    RolloutOptions,
    RolloutRunner,
    TaskError,
    Trace,
    rollout,
)
from hermes.envs.harbor import HarborTask, load_tasks
from hermes.envs.runner import TRAIN_PROFILE
from tests.integration.terminal.docker_engine import docker_engine, podman_engine

pytestmark = pytest.mark.timeout(300)
"""The first run makes the image."""

FOLDER = Path(__file__).with_name("harbor_tasks")
TASKS = {task.name: task for task in load_tasks(FOLDER)}


@pytest.fixture(params=["docker"])
def engine(request, monkeypatch):
    running = docker_engine() if request.param == "docker" else podman_engine()
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    before = running.call("ps", "-aq")
    yield running
    assert running.call("ps", "-aq") == before, "a container is left"


podman_too = pytest.mark.parametrize("engine", ["docker", "podman"], indirect=True)


@asynccontextmanager
async def container(engine, task, folder):
    settings = {**TRAIN_PROFILE, "terminal.container_program": engine.program}
    home = Home(folder / "home")
    loaded = load(home, settings, user_config=False)
    place = make_workspace(
        loaded, home, folder, print, "docker", image=task.image, container=task.container()
    )
    try:
        yield RolloutContext(place.workplace)
    finally:
        await place.workplace.shell.close()


async def judge(engine, task, folder, solve=None) -> Trace:
    """Set the task up, run its own solution or `solve`, and score the result."""
    trace = Trace("oracle", task.key, task.hash, "oracle")
    async with container(engine, task, folder) as ctx:
        await task.setup(ctx)
        await (solve or task.solve)(ctx)
        await task.score(trace, ctx)
    return trace


def shell(number: int, command: str) -> ToolCall:
    return ToolCall(f"c{number}", "terminal", json.dumps({"command": command}))


def options(engine, **more: Any) -> RolloutOptions:
    settings = {"terminal.container_program": engine.program}
    return RolloutOptions(backend="docker", settings=settings, **more)


def at(server: ModelServer) -> ModelEndpoint:
    return ModelEndpoint(base_url=f"{server.url}/v1", model="lab-model")


@podman_too
async def test_oracle_of_a_task_with_a_dockerfile_gets_the_full_reward(engine, tmp_path) -> None:
    task = TASKS["reverse-lines"]
    trace = await judge(engine, task, tmp_path)
    assert (trace.reward, trace.metrics) == (1.0, {"length": 5.0})
    assert task.image.removeprefix("hermes-task/") in engine.call(
        "image", "ls", "-a", "--format", "{{.Repository}}:{{.Tag}}"
    )


async def test_oracle_of_a_task_with_an_image_gets_the_full_reward(engine, tmp_path) -> None:
    trace = await judge(engine, TASKS["count-words"], tmp_path)
    assert (trace.reward, trace.metrics) == (1.0, {})


async def test_wrong_solution_gets_no_reward(engine, tmp_path) -> None:
    assert (await judge(engine, TASKS["wrong-solution"], tmp_path)).reward == 0.0


async def test_verifier_without_a_reward_is_an_error_of_the_task(engine, tmp_path) -> None:
    with pytest.raises(
        TaskError, match=r"(?s)wrote no reward: pytest is not installed\s+exit code 3"
    ):
        await judge(engine, TASKS["no-reward"], tmp_path)


async def test_verifier_that_does_not_end_is_an_error_of_the_task(engine, tmp_path) -> None:
    folder = changed(tmp_path, "count-words")
    (folder / "tests/test.sh").write_text(
        "#!/bin/sh\necho 1 >/logs/verifier/reward.txt; sleep 99\n"
    )
    (folder / "task.toml").write_text(
        (folder / "task.toml").read_text() + "[verifier]\ntimeout_sec = 2.0\n"
    )
    (task,) = load_tasks(folder)
    with pytest.raises(TaskError, match="did not end in 2 s"):
        await judge(engine, task, tmp_path)


def changed(folder: Path, name: str) -> Path:
    return Path(shutil.copytree(FOLDER / name, folder / name))


async def test_container_has_the_limits_of_the_task(engine, tmp_path) -> None:
    async with container(engine, TASKS["reverse-lines"], tmp_path) as ctx:
        await TASKS["reverse-lines"].setup(ctx)
        (name,) = engine.call("ps", "--format", "{{.Names}}", "--filter", "label=hermes").split()
        settings = json.loads(engine.call("inspect", name))[0]["HostConfig"]
        assert settings["Memory"] == 300 * 1024 * 1024
        assert settings["NanoCpus"] == 1_000_000_000
        assert settings["NetworkMode"] == "none"
        assert settings["CapDrop"] is None


async def test_agent_sees_no_tests_and_cannot_plant_rewards_or_variables(engine) -> None:
    plant = (
        "mkdir -p /tests /logs/verifier; echo 1 >/logs/verifier/reward.txt; "
        "echo '{\"reward\": 1}' >/logs/verifier/reward.json; printf 'exit 0' >/tests/test.sh; "
        "cd /; export LEFT=1 PATH=/nowhere"
    )
    with ModelServer([shell(1, "ls / /app; env"), shell(2, plant), "Done."]) as server:
        trace = await rollout(TASKS["reverse-lines"], at(server), options(engine))
    assert trace.failure is None
    assert (trace.reward, trace.metrics) == (0.0, {"length": 0.0})
    listing = json.dumps(server.calls[1].body["messages"][-1])
    assert "letters.txt" in listing
    assert "PLACE=container" in listing
    for hidden in ("tests", "solution", "EXPECTED", "SEPARATOR"):
        assert hidden not in listing


async def test_agent_solves_a_task(engine) -> None:
    script = [shell(1, "cd / && export LEFT=1 && echo c b a >/app/reversed.txt"), "Done."]
    with ModelServer(script) as server:
        trace = await rollout(TASKS["reverse-lines"], at(server), options(engine))
    assert (trace.failure, trace.reward) == (None, 1.0)
    first = server.calls[0].body["messages"][-1]["content"]
    assert "Write the letters" in first
    assert "canary" not in first


async def test_files_of_a_rollout_are_not_there_in_the_next_one(engine) -> None:
    look = "cat /data/count ~/kept; echo 3 >/data/count; echo x >~/kept"
    async with RolloutRunner(options(engine)) as runner:
        for _ in range(2):
            with ModelServer([shell(1, look), "Done."]) as server:
                trace = await runner.run(TASKS["count-words"], at(server))
            assert trace.reward == 1.0
            assert server.calls[1].body["messages"][-1]["content"].count("No such file") == 2


async def test_container_that_was_replaced_is_a_failure_of_the_sandbox(engine, tmp_path) -> None:
    task = TASKS["count-words"]
    async with container(engine, task, tmp_path) as ctx:
        await task.setup(ctx)
        engine.call("kill", engine.call("ps", "-q", "--filter", "label=hermes"))
        while True:  # a command that the loss interrupts fails; the next one has a new container
            try:
                await ctx.terminal("true")
                break
            except BackendUnavailable:
                continue
        with pytest.raises(BackendUnavailable, match="replaced"):
            await task.score(Trace("t", task.key, task.hash, "m"), ctx)


@pytest.mark.parametrize(
    "dockerfile", ["FROM tiny:1\nCOPY missing /\n", "FROM nowhere.invalid/x\n"]
)
async def test_image_that_cannot_be_built_is_a_failure_of_the_sandbox(
    engine, tmp_path, dockerfile
) -> None:
    folder = changed(tmp_path, "reverse-lines")
    (folder / "environment/Dockerfile").write_text(dockerfile)
    (task,) = load_tasks(folder)
    with ModelServer([]) as server:
        trace = await rollout(task, at(server), options(engine, attempts=1))
    assert trace.failure is not None
    assert (trace.failure.boundary, trace.reward) == ("sandbox", None)
    assert "the image of reverse-lines cannot be built" in trace.failure.message


async def test_rollouts_at_the_same_time_build_an_image_once(engine, tmp_path) -> None:
    folder = changed(tmp_path, "reverse-lines")
    (folder / "environment/letters.txt").write_text("c b a\n")
    (task,) = load_tasks(folder)
    assert task.image != TASKS["reverse-lines"].image
    began = time.time()
    traces = await asyncio.gather(*(judge(engine, task, tmp_path / str(n)) for n in range(3)))
    assert [trace.reward for trace in traces] == [0.0] * 3
    times = ("--since", f"{began:.3f}", "--until", f"{time.time():.3f}")
    events = engine.call("events", *times, "--filter", "event=tag", "--format", "{{json .Actor}}")
    assert events.count(task.image) == 1


async def test_interrupted_build_leaves_no_container(engine, tmp_path) -> None:
    folder = changed(tmp_path, "reverse-lines")
    (folder / "environment/Dockerfile").write_text("FROM tiny:1\nRUN sleep 1000\n")
    (task,) = load_tasks(folder)
    running = asyncio.create_task(judge(engine, task, tmp_path))
    while not engine.call("ps", "-q"):
        await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    while engine.call("ps", "-aq"):  # the engine notices later that its client is gone
        await asyncio.sleep(0.05)


async def test_interrupted_rollout_leaves_no_container(engine) -> None:
    with ModelServer([shell(1, "sleep 1000")]) as server:
        async with RolloutRunner(options(engine)) as runner:
            running = asyncio.create_task(runner.run(TASKS["count-words"], at(server)))
            while True:
                name = engine.call("ps", "-q", "--filter", "label=hermes")
                if name and "sleep 1000" in engine.call("top", name):
                    break
                await asyncio.sleep(0.05)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert not engine.call("ps", "-aq", "--filter", "label=hermes")


def test_tasks_are_loaded_with_their_names() -> None:
    assert all(isinstance(task, HarborTask) for task in TASKS.values())
    assert sorted(TASKS) == ["count-words", "no-reward", "reverse-lines", "wrong-solution"]
