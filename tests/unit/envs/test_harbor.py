"""Loading of Harbor task folders, and what is refused."""

import io
import tarfile
from pathlib import Path

import msgspec
import pytest

from hermes.core.errors import UsageError
from hermes.envs import TaskError
from hermes.envs.harbor import HarborConfig, _parse_rewards, load_tasks, unpack_tasks
from tests.cases import cases, table_test

CASES = cases(__file__)


def make_task(folder: Path, config: str = "", **files: str) -> Path:
    """Make a task folder. Names of `files` have `__` instead of `/`."""
    content = {
        "task.toml": config or '[environment]\ndocker_image = "box:1"\n',
        "instruction.md": "Do it.\n",
        "tests/test.sh": "#!/bin/sh\n",
    }
    content |= {name.replace("__", "/"): text for name, text in files.items()}
    for name, text in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_settings_of_a_task_have_the_defaults_of_the_format(tmp_path) -> None:
    (task,) = load_tasks(make_task(tmp_path / "one"))
    assert (task.name, task.prompt, task.image) == ("one", "Do it.\n", "box:1")
    assert (task.agent_timeout, task.config.verifier.timeout_sec) == (0.0, 600.0)
    assert task.config.environment.build_timeout_sec == 600.0
    assert task.difficulty == "unknown"
    assert task.container() == {"persistent": False, "engine_defaults": True, "prepare": None}


def test_old_spellings_are_understood(tmp_path) -> None:
    (task,) = load_tasks(make_task(tmp_path, CASES["old_config"]))
    limits = {key: task.container()[key] for key in ("cpu", "memory", "disk", "network")}
    assert limits == {"cpu": 2, "memory": 2048, "disk": 10240, "network": "none"}
    assert (task.agent_timeout, task.difficulty) == (900.0, "hard")


@table_test
def test_wrong_settings_name_the_file_and_the_key(tmp_path, config, message) -> None:
    with pytest.raises(UsageError) as caught:
        load_tasks(make_task(tmp_path, config))
    assert str(caught.value).startswith(f"{tmp_path}/task.toml: {message}")


@table_test
def test_needs_that_cannot_be_met_are_refused(tmp_path, config, need) -> None:
    (task,) = load_tasks(make_task(tmp_path, f'{config}\n[environment]\ndocker_image = "b"\n'))
    assert need in task.unsupported
    with pytest.raises(UsageError, match="which Hermes does not support"):
        task.check("docker")


def test_compose_files_and_missing_variables_are_refused(tmp_path) -> None:
    config = '[environment]\ndocker_image = "b"\nenv = { A = "${A}", B = "${B:-two}", C = "$C" }\n'
    make_task(tmp_path, config, **{"environment__docker-compose.yaml": "services: {}\n"})
    (task,) = load_tasks(tmp_path, variables={"A": "one"})
    assert task.unsupported == "several containers (docker-compose.yaml)"
    assert task.config.environment.env == {"A": "one", "B": "two", "C": "$C"}
    (task,) = load_tasks(tmp_path)
    assert task.unsupported.endswith("the variable A")


@pytest.mark.parametrize("backend", ["local", "sandbox", "ssh", "singularity"])
def test_backends_that_are_no_containers_are_refused(tmp_path, backend) -> None:
    (task,) = load_tasks(make_task(tmp_path))
    task.check("docker")
    task.check("modal")
    with pytest.raises(UsageError, match="would change this machine") as caught:
        task.check(backend)
    assert caught.value.hint == "use --backend docker"


def test_dockerfiles_and_network_rules_need_docker(tmp_path) -> None:
    (built,) = load_tasks(
        make_task(tmp_path / "a", "", **{"task.toml": "", "environment__Dockerfile": "FROM b"})
    )
    closed = '[environment]\ndocker_image = "b"\nnetwork_mode = "no-network"\n'
    (offline,) = load_tasks(make_task(tmp_path / "b", closed))
    for task, need in ((built, "an image from a Dockerfile"), (offline, "without network")):
        task.check("docker")
        with pytest.raises(UsageError, match=need):
            task.check("modal")


def test_tasks_are_found_at_any_depth_and_filtered(tmp_path) -> None:
    for name in ("x/tasks/b-two", "x/tasks/a-one", "x/.cache/hidden", "x/tasks/a-one/tests/inner"):
        make_task(tmp_path / name)
    assert [task.name for task in load_tasks(tmp_path)] == ["a-one", "b-two"]
    assert [task.name for task in load_tasks(tmp_path, task_filter=["b-*"])] == ["b-two"]
    with pytest.raises(UsageError, match="no task matches 'c'"):
        load_tasks(tmp_path, task_filter=["c"])
    make_task(tmp_path / "y/a-one")
    names = [task.name for task in load_tasks(tmp_path)]
    assert names == ["b-two", "x/tasks/a-one", "y/a-one"], "each key is there once"


@pytest.mark.parametrize("missing", ["instruction.md", "tests/test.sh"])
def test_incomplete_folder_is_refused(tmp_path, missing) -> None:
    make_task(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(UsageError, match=f"has no {missing}"):
        load_tasks(tmp_path)


def test_folder_without_tasks_or_image_is_refused(tmp_path) -> None:
    with pytest.raises(UsageError, match="has no Harbor tasks"):
        load_tasks(tmp_path)
    with pytest.raises(UsageError, match="there is no folder"):
        load_tasks(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"neither environment\.docker_image nor"):
        load_tasks(make_task(tmp_path, "[metadata]\n"))


def test_hash_follows_the_content_and_not_the_place(tmp_path) -> None:
    (one,) = load_tasks(make_task(tmp_path / "a/task"))
    (same,) = load_tasks(make_task(tmp_path / "b/task"))
    (other,) = load_tasks(make_task(tmp_path / "c/task", tests__data="1"))
    assert one.hash == same.hash != other.hash


def test_image_name_follows_the_content_of_the_environment(tmp_path) -> None:
    def image(place: str, **files: str) -> str:
        config = {"task.toml": "", "environment__Dockerfile": "FROM b"}
        (task,) = load_tasks(make_task(tmp_path / place / "My_Task", **{**config, **files}))
        return task.image

    assert image("a") == image("b", tests__more="1")
    assert image("a") != image("c", environment__data="1")
    assert image("a").startswith("hermes-task/my-task:")


@table_test
def test_reward_files(name, text, rewards) -> None:
    if rewards is None:
        with pytest.raises(TaskError, match=name):
            _parse_rewards(name, text)
    else:
        assert _parse_rewards(name, text) == rewards


def archive(folder: Path) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as packed:
        packed.add(folder, ".")
    return data.getvalue()


def test_tables_of_archives_become_folders(tmp_path) -> None:
    packed = archive(make_task(tmp_path / "made"))
    rows = [{"path": "set/one", "task_binary": packed}, {"task_id": "two", "archive": packed}]
    rows.append({"path": "other/one", "task_binary": packed})
    unpack_tasks(rows, tmp_path / "tasks")
    assert [task.name for task in load_tasks(tmp_path / "tasks")] == ["one", "one-3", "two"]


def test_table_that_is_not_understood_leaves_no_folder(tmp_path) -> None:
    with pytest.raises(UsageError, match="has the columns id, text; expected path and task_binary"):
        unpack_tasks([{"id": 1, "text": ""}], tmp_path / "tasks")
    with pytest.raises(UsageError, match=r"row 1 \(a\) is not a tar archive"):
        unpack_tasks([{"path": "a", "task_binary": b"no"}], tmp_path / "tasks")
    escaping = io.BytesIO()
    with tarfile.open(fileobj=escaping, mode="w") as packed:
        packed.addfile(tarfile.TarInfo("../../outside"))
    with pytest.raises(UsageError, match="not a tar archive"):
        unpack_tasks([{"path": "a", "task_binary": escaping.getvalue()}], tmp_path / "tasks")
    assert list(tmp_path.iterdir()) == []


def test_config_is_data(tmp_path) -> None:
    (task,) = load_tasks(make_task(tmp_path))
    assert msgspec.convert(msgspec.to_builtins(task.config), HarborConfig) == task.config
