"""Environments that are found by parsing, their configuration, metrics and logs of runs."""

import asyncio
import io
import json
from pathlib import Path

import msgspec
import pytest

from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import UsageError
from hermes.envs.training import (
    RunState,
    TrainingService,
    read_metrics,
    read_state,
    summarize_metrics,
)
from hermes.envs.training_environments import find_environments
from hermes.envs.training_worker import copy_output
from hermes.util.processes import process_name

SCRIPT = '''
raise RuntimeError("this file must not run")

class Config(HermesAgentEnvConfig):
    limit: int = 3
    ratio: float = Field(default=0.5, description="x")
    made: list = make()


class First(hermes_base_env.HermesAgentBaseEnv):
    """First line.

    More."""
    name = "first"
    env_config_cls = Config


class Second(First):
    name: str = "second"


class Unnamed(First):
    pass


class Other(BaseEnv):
    name = "other"
'''


def own(folders: list[Path]) -> dict[str, tuple[str, str]]:
    builtin = {each.name for each in find_environments([])}
    return {
        each.name: (each.kind, each.description)
        for each in find_environments(folders)
        if each.name not in builtin
    }


def test_scripts_and_task_sets_are_found_without_running_them(tmp_path) -> None:
    scripts, more = tmp_path / "a", tmp_path / "b"
    (scripts / "deep").mkdir(parents=True)
    (scripts / "deep" / "x_env.py").write_text(SCRIPT)
    (scripts / "broken.py").write_text("def (")
    (scripts / "binary.py").write_bytes(b"\x00\xff")
    (scripts / "words.py").write_text('"""Words."""\nTASKS: list = []\nraise SystemExit')
    (scripts / "made.py").write_text("def load_tasks(): ...\n")
    (more / "bench" / "one").mkdir(parents=True)
    (more / "bench" / "one" / "task.toml").write_text("")
    assert own([scripts, more, tmp_path / "missing"]) == {
        "first": ("script", "First line."),
        "second": ("script", ""),
        "words": ("tasks", "Words."),
        "made": ("tasks", ""),
        "bench": ("tasks", "Harbor tasks"),
    }


def test_shipped_scripts_are_found() -> None:
    folder = Path(__file__).parents[3] / "environments"
    found = {each.name: each for each in find_environments([folder])}
    script = found["terminal-test"]
    assert (script.kind, Path(script.source).name) == ("script", "terminal_test_env.py")
    assert script.description.startswith("Inline tasks")
    assert found["terminal-bench-2"].given["max_agent_turns"] > 30


def test_fields_are_those_of_the_config_class_and_of_the_yaml_file(tmp_path) -> None:
    (tmp_path / "x_env.py").write_text(SCRIPT)
    (tmp_path / "default.yaml").write_text("env:\n  limit: 9\n  extra: [1]\nopenai: {}\n")
    (second,) = [each for each in find_environments([tmp_path]) if each.name == "second"]
    fields = second.fields
    assert (fields["limit"], fields["ratio"], fields["made"], fields["extra"]) == (
        3, 0.5, None, [1],
    )  # fmt: skip
    assert fields["max_agent_turns"] == 30
    assert second.given == {"limit": 9, "extra": [1]}


@pytest.fixture
def service(hermes_home: Path) -> TrainingService:
    folder = hermes_home / "environments"
    folder.mkdir(parents=True)
    (folder / "x_env.py").write_text(SCRIPT)
    section = {"trainer_command": "train", "locked": {"limit": 1}}
    (hermes_home / "config.yaml").write_text(json.dumps({"rl": section}))
    return TrainingService(Home(hermes_home), load(Home(hermes_home)))


async def test_edited_value_has_the_type_of_its_field(service) -> None:
    await service.select("first")
    assert (await service.edit("group_size", "8"))["value"] == 8
    assert (await service.edit("ratio", 1))["value"] == 1.0
    assert (await service.edit("use_wandb", "true"))["value"] is True
    with pytest.raises(UsageError, match="group_size is of the type int"):
        await service.edit("group_size", "many")
    with pytest.raises(UsageError, match="no field 'grop_size'"):
        await service.edit("grop_size", 1)
    with pytest.raises(UsageError, match="limit is locked"):
        await service.edit("limit", 2)
    fields = (await service.config())["fields"]
    assert fields["limit"] == {"value": 1, "locked": True, "default": 3}
    assert fields["group_size"] == {"value": 8, "default": 16}


async def test_selecting_starts_a_new_configuration(service, hermes_home) -> None:
    await service.select("first")
    await service.edit("group_size", 8)
    again = TrainingService(Home(hermes_home), load(Home(hermes_home)))
    assert (await again.config())["fields"]["group_size"]["value"] == 8
    await again.select("second")
    assert (await again.config())["fields"]["group_size"] == {"value": 16}


async def test_nothing_is_started_without_a_selection(service) -> None:
    for work in (service.config, service.start, service.describe_start):
        with pytest.raises(UsageError, match="no environment is selected"):
            await work()
    with pytest.raises(UsageError, match="there is no environment 'third'"):
        await service.select("third")
    for run_id in ("", "none", "../../etc"):
        with pytest.raises(UsageError, match="there is no run"):
            await service.status(run_id)
    assert await service.runs() == []


def test_metrics_are_numbers_of_complete_lines(tmp_path) -> None:
    lines = ['{"step": 1, "loss": 2.0, "note": "x", "ok": true}', "", "[1]", '{"step": 2, "loss"']
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    assert list(read_metrics(tmp_path)) == [{"step": 1, "loss": 2.0}]


def test_summary_has_the_course_of_each_metric() -> None:
    found = summarize_metrics([{"loss": 3.0}, {"loss": 1.0}, {"loss": 2.0, "late": 7}])
    assert found["lines"] == 3
    assert found["metrics"]["loss"] == {"first": 3.0, "last": 2.0, "lowest": 1.0, "highest": 3.0}
    assert found["metrics"]["late"]["first"] == 7


def test_run_is_lost_only_if_its_supervisor_is_known_to_be_gone(tmp_path) -> None:
    machine = process_name().partition(":")[0]
    gone = f"{machine}:{2**22 - 1}:1"

    def status(status: str, supervisor: str) -> str:
        state = RunState(status=status, supervisor=supervisor)
        (tmp_path / "state.json").write_bytes(msgspec.json.encode(state))
        return read_state(tmp_path).status

    assert status("running", process_name()) == "running"
    assert status("running", "another-machine:1:2") == "running"
    assert status("running", gone) == "lost"
    assert status("finished", gone) == "finished"


@pytest.mark.parametrize("size", [1, 2, 5, 100])
async def test_secret_is_removed_from_output_in_pieces_of_any_size(size) -> None:
    text = b"a secret-1 b secre secret-12 end secret"
    stream, log = asyncio.StreamReader(), io.BytesIO()
    copying = asyncio.ensure_future(copy_output(stream, log, ("secret-1", "other")))
    for start in range(0, len(text), size):
        stream.feed_data(text[start : start + size])
        await asyncio.sleep(0)
    stream.feed_eof()
    await copying
    assert log.getvalue() == b"a [removed] b secre [removed]2 end secret"
