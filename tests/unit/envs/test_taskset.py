"""Task sets: where tasks come from, and what the user reads if something is wrong with them."""

import sys
from pathlib import Path

import pytest

from hermes.core.errors import UsageError
from hermes.envs import Task
from hermes.envs.taskset import load_tasks, select_tasks

GOOD = """
from hermes.envs import Task

TASKS = [Task(name="a", prompt="A"), Task(name="b", prompt="B")]
OTHERS = (Task(name=f"c{n}", prompt="C") for n in range(2))


def load_tasks(split, limit="1"):
    return [Task(name=f"{split}-{n}", prompt="D") for n in range(int(limit))]


def broken():
    yield Task(name="x", prompt="X")
    raise KeyError("missing")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my_tasks.py"
    path.write_text(GOOD)
    return path


def keys(tasks: list[Task]) -> list[str]:
    return [task.key for task in tasks]


def test_file_has_a_list_or_named_lists_and_functions(file: Path) -> None:
    assert keys(load_tasks(str(file))) == ["a", "b"]
    assert keys(load_tasks(f"{file}:OTHERS")) == ["c0", "c1"]
    options = {"split": "test", "limit": "2"}
    assert keys(load_tasks(f"{file}:load_tasks", options)) == ["test-0", "test-1"]


def test_function_is_used_where_there_is_no_list(tmp_path: Path) -> None:
    path = tmp_path / "made.py"
    path.write_text(GOOD.replace("TASKS =", "UNUSED ="))
    assert keys(load_tasks(str(path), {"split": "s"})) == ["s-0"]


def test_module_is_imported_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "task_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "first.py").write_text(GOOD)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert keys(load_tasks("task_package.first:TASKS")) == ["a", "b"]
    assert keys(load_tasks("task_package.first")) == ["a", "b"]


def test_file_imports_its_neighbours_and_replaces_no_module(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_tasks.py").write_text("NAME = 'n'\n")
    text = (
        "from __future__ import annotations\n"
        "from neighbour_of_tasks import NAME\nfrom hermes.envs import Task\n"
        "class Mine(Task, frozen=True):\n    size: int = 1\n"
        "TASKS = [Mine(name=NAME, prompt='P')]\n"
    )
    (tmp_path / "json.py").write_text(text)
    before = sys.modules["json"]
    (task,) = load_tasks(str(tmp_path / "json.py"))
    assert (task.key, sys.modules["json"]) == ("n", before)
    assert task.hash, "its annotations are resolved in its module"


def test_hash_does_not_depend_on_the_folder(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / file.name).write_text(GOOD)
    found = load_tasks(str(copy / file.name))
    assert [task.hash for task in found] == [task.hash for task in load_tasks(str(file))]


def test_built_in_set_is_loaded_by_its_name() -> None:
    assert "greeting" in keys(load_tasks("terminal-test"))
    with pytest.raises(UsageError, match="nothing_such"):
        load_tasks("terminal-test", {"nothing_such": "1"})


def test_folder_has_harbor_tasks(tmp_path: Path) -> None:
    for name in ("first", "second"):
        folder = tmp_path / name
        for path, text in {
            "task.toml": 'version = "1.0"\n[environment]\ndocker_image = "debian"\n',
            "instruction.md": "Do it.",
            "tests/test.sh": "echo 1 > /logs/verifier/reward.txt",
        }.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
    found = load_tasks(str(tmp_path))
    assert keys(found) == ["first", "second"]
    assert found[0].prompt.strip() == "Do it."
    with pytest.raises(UsageError, match="unexpected keyword argument 'x'"):
        load_tasks(str(tmp_path), {"x": "1"})


WRONG = {
    "missing.py": "there is no file",
    "no_such_module": "there is no task set no_such_module",
    "no.such.module:TASKS": "there is no task set",
    "terminal-tset": "there is no task set terminal-tset",
    "{file}:NOTHING": "has no NOTHING",
    "{file}:broken": r"my_tasks\.py:14: KeyError: 'missing'",
    "{file}:load_tasks": "missing a required argument: 'split'",
    "{folder}": "has no Harbor tasks",
}


def test_wrong_sources_are_reported_in_one_line(file: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for source, message in WRONG.items():
        with pytest.raises(UsageError, match=message) as caught:
            load_tasks(source.format(file=file, folder=empty))
        assert "\n" not in str(caught.value)


def test_misspelt_built_in_name_is_suggested() -> None:
    with pytest.raises(UsageError) as caught:
        load_tasks("terminal-tset")
    assert caught.value.hint == "did you mean terminal-test?"


CODE = {
    "x = 1\nTASKS = [undefined]\n": r"wrong\.py:2: NameError",
    "TASKS = [\n": r"wrong\.py:1: SyntaxError",
    "import sys\nsys.exit(3)\n": r"wrong\.py:2: SystemExit: 3",
    "import no_such_module_at_all\n": r"wrong\.py:1: ModuleNotFoundError",
    "x = 1\n": "has no TASKS or load_tasks()",
    "TASKS = []\n": "has no tasks",
    "TASKS = 'abc'\n": "expected a list of tasks, not str",
    "TASKS = 3\n": "expected a list of tasks, not int",
    "TASKS = [1]\n": "item 1 is a int, not a hermes.envs.Task",
    "from hermes.envs import Task\nTASKS = [Task(name='a', prompt=p) for p in 'xy']\n": (
        "two tasks have the key 'a'"
    ),
}


def test_wrong_code_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    for text, message in CODE.items():
        path.write_text(text)
        with pytest.raises(UsageError, match=message):
            load_tasks(str(path))


def test_options_of_a_list_are_refused(file: Path) -> None:
    with pytest.raises(UsageError, match="takes no options"):
        load_tasks(str(file), {"split": "test"})


def test_selection_by_names_patterns_and_number() -> None:
    tasks = [Task(name=name, prompt="P") for name in ("json-a", "json-b", "csv")]
    assert keys(select_tasks(tasks)) == ["json-a", "json-b", "csv"]
    assert keys(select_tasks(tasks, ["csv", "json-a"])) == ["json-a", "csv"]
    assert keys(select_tasks(tasks, ["json*"], 1)) == ["json-a"]
    with pytest.raises(UsageError, match="no task matches 'jsn-a'") as caught:
        select_tasks(tasks, ["csv", "jsn-a"])
    assert caught.value.hint == "did you mean json-a?"
