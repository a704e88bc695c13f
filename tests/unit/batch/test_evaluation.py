"""Runs of tasks: their items, and how rollouts become results."""

from pathlib import Path

import msgspec
import pytest

from hermes.batch.evaluation import CaptureSettings, TaskSpec
from hermes.batch.models import RunModel
from hermes.batch.work import WorkItem, decode_spec
from hermes.core.errors import UsageError
from hermes.envs import RolloutOptions, Trace
from hermes.envs.runner import SilentProgress

FILE = """
from hermes.envs import Task, reward


class Made(Task, frozen=True):
    @reward
    async def is_made(self, trace, ctx):
        return (await ctx.read_file("made.txt"))["content"] == "x"

    async def solve(self, ctx):
        if self.data.get("raises"):
            raise RuntimeError("no solution")
        await ctx.write_file("made.txt", "x")


TASKS = [Made(name="a", prompt="A"), Made(name="b", prompt="B", data={"raises": True})]
IMAGES = [Made(name="c", prompt="C", image="debian")]
"""


@pytest.fixture
def spec(tmp_path: Path) -> TaskSpec:
    path = tmp_path / "tasks.py"
    path.write_text(FILE)
    return TaskSpec(source=str(path), model=RunModel(resolved="custom:m"), repeats=2)


def replaced(spec: TaskSpec, **changes: object) -> TaskSpec:
    return msgspec.structs.replace(spec, **changes)


def test_items_are_the_repeats_of_the_selected_tasks(spec: TaskSpec) -> None:
    items = list(spec.items())
    assert [(item.row["task"], item.repeat) for item in items] == [
        ("a", 0), ("a", 1), ("b", 0), ("b", 1),
    ]  # fmt: skip
    assert len({item.key for item in items}) == 4
    assert [item.row["task"] for item in replaced(spec, patterns=("b",)).items()] == ["b", "b"]
    assert [item.key for item in replaced(spec, limit=1).items()] == [i.key for i in items[:2]]


def test_keys_change_with_what_changes_the_results_only(spec: TaskSpec) -> None:
    same = {
        "rollout": RolloutOptions(attempts=7, timeout=1.0),
        "model": RunModel(resolved="custom:m", base_url="http://127.0.0.1:9/v1", home="/elsewhere"),
        "pass_reward": 0.5,
        "repeats": 9,
    }
    for name, value in same.items():
        assert replaced(spec, **{name: value}).fingerprint() == spec.fingerprint(), name
    other = {
        "rollout": RolloutOptions(max_turns=3),
        "model": RunModel(resolved="custom:other"),
        "sampling": {"temperature": 0.5},
        "capture": CaptureSettings("vllm"),
        "oracle": True,
    }
    for name, value in other.items():
        assert replaced(spec, **{name: value}).fingerprint() != spec.fingerprint(), name


def test_spec_is_stored_as_json(spec: TaskSpec) -> None:
    full = replaced(spec, capture=CaptureSettings("vllm", "hermes"), sampling={"max_tokens": 5})
    assert decode_spec(msgspec.json.encode(full)) == full
    assert full.max_output() == 5


def test_image_needs_a_backend_with_images(spec: TaskSpec) -> None:
    images = replaced(spec, source=f"{spec.source}:IMAGES")
    with pytest.raises(UsageError, match="needs the image debian") as caught:
        list(images.items())
    assert caught.value.hint == "add --backend docker"
    assert len(list(replaced(images, rollout=RolloutOptions(backend="docker")).items())) == 2


class NoJournal:
    def find(self, digest: str) -> None:
        """There is no stored call."""

    def add(self, digest: str, reply: object) -> None:
        """No call is made here."""


async def test_solutions_are_judged_and_their_errors_are_failures(spec: TaskSpec) -> None:
    oracle = replaced(spec, oracle=True, repeats=1)
    async with oracle.open_job() as job:
        one, two = [await job.run(item, NoJournal()) for item in oracle.items()]
    assert (one.state, one.boundary) == ("done", "")
    trace = msgspec.json.decode(one.line, type=Trace)
    assert (trace.id, trace.reward, trace.model) == (one.key, 1.0, "oracle")
    assert (two.state, two.boundary) == ("failed", "task")
    assert two.reason == "TaskError: solve: RuntimeError: no solution"
    failed = msgspec.json.decode(two.line, type=Trace)
    assert (failed.id, failed.reward) == (two.key, None)


async def test_task_that_differs_in_the_worker_is_not_run(spec: TaskSpec) -> None:
    item = WorkItem("k", 0, 0, {"task": "a", "hash": "of another content"})
    async with replaced(spec, oracle=True).open_job() as job:
        result = await job.run(item, NoJournal())
    assert (result.key, result.state, result.boundary) == ("k", "failed", "task")
    assert "another content" in result.reason


async def test_run_that_had_a_key_is_not_continued_without_it(tmp_path: Path) -> None:
    model = RunModel(name="m", base_url="http://127.0.0.1:9/v1", home=str(tmp_path), needs_key=True)
    with pytest.raises(UsageError, match="--api-key"):
        await model.resolve(SilentProgress())
    again = msgspec.structs.replace(model, api_key="key")
    assert (await again.resolve(SilentProgress())).resolved == "custom:m"
