"""Tasks done from end to end by the real loop with the smallest model, and their checks."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from hermes.app.app import App
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.providers.small_model import small_profile
from tests.model.conftest import Silent
from tests.model.tasks import Task, attempt, load_tasks

pytestmark = [pytest.mark.model, pytest.mark.internet, pytest.mark.timeout(600)]

SHARE_REQUIRED = 0.8


async def test_the_embedded_model_does_most_simple_tasks(home_with_weights, tmp_path, capsys):
    home = Home(home_with_weights)
    attempts = []
    async with App(home, load(home), Silent(), print) as app:
        for number, task in enumerate(load_tasks(basics=True)):
            attempts.append(await attempt(app, task, tmp_path / str(number)))
    done = sum(not result.problem for result in attempts)
    table = "\n".join(result.row for result in attempts)
    with capsys.disabled():
        sys.stdout.write(f"\n{table}\n{done} of {len(attempts)} tasks done\n")
    assert done >= SHARE_REQUIRED * len(attempts), table


def test_there_are_six_tasks_of_each_kind_in_equal_halves():
    count = Counter((task.kind, task.half) for task in load_tasks())
    assert len(count) == 20
    assert set(count.values()) == {3}
    prompts = {task.prompt for task in load_tasks()}
    assert prompts.isdisjoint(example.user for example in small_profile().examples)


def test_an_outcome_is_judged_by_the_folder_and_the_answer(tmp_path: Path):
    task = Task("x", files={"a": "1", "b": "1"}, says=("done",), text={"a": "2"})
    (tmp_path / "a").write_text("2\n")
    (tmp_path / "b").write_text("1")
    assert task.problem(tmp_path, "Done.", []) == ""
    assert "lacks" in task.problem(tmp_path, "I did.", [])
    (tmp_path / "b").write_text("3")
    assert task.problem(tmp_path, "Done.", []) == "b was changed"
    (tmp_path / "a").write_text("1")
    assert task.problem(tmp_path, "Done.", []) == "a is '1'"
    assert Task("x").problem(tmp_path, "", []) == "a was created"
    ran = Task("x", edits=("a",), runs={"cat a": "^2$"})
    assert ran.problem(tmp_path, "", []) == "cat a printed '1'"
