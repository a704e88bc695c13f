"""Loading of benchmarks, their results, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from hermes.core.errors import UsageError
from hermes.envs import Failure, Trace
from hermes.envs.benchmarks import (
    CompanyStatus,
    difficulty_results,
    swe_tasks,
    tblite_tasks,
    terminal_bench_2_tasks,
    terminal_test_tasks,
    yc_bench_tasks,
)
from hermes.envs.harbor import load_tasks
from tests.cases import cases, table_test

ROWS: list[dict[str, Any]] = cases(__file__)["rows"]
FOLDER = Path(__file__).parents[2] / "integration/envs/harbor_tasks"


def write_rows(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(f"{json.dumps(row)}\n\n" for row in rows))
    return file


def test_missing_dataset_gives_the_command_that_downloads_it(tmp_path) -> None:
    with pytest.raises(UsageError) as caught:
        terminal_bench_2_tasks(tmp_path / "tb2")
    assert caught.value.hint == (
        f"hf download NousResearch/terminal-bench-2 --repo-type dataset --local-dir {tmp_path}/tb2"
    )
    with pytest.raises(UsageError) as caught:
        tblite_tasks(tmp_path / "lite")
    assert "NousResearch/openthoughts-tblite" in caught.value.hint
    with pytest.raises(UsageError, match="no file"):
        swe_tasks(tmp_path / "rows.jsonl")


def test_datasets_are_folders_of_tasks_and_can_be_filtered() -> None:
    assert len(terminal_bench_2_tasks(FOLDER)) == 4
    (task,) = tblite_tasks(FOLDER, task_filter=["count-*"])
    assert (task.name, task.difficulty) == ("count-words", "medium")


def test_results_by_difficulty_leave_failures_out_of_the_mean() -> None:
    tasks = load_tasks(FOLDER)
    rewards = {"reverse-lines": [1.0, 0.0, None], "wrong-solution": [None], "other": [1.0]}
    traces = [
        Trace("r", name, "", "m", failure=Failure("sandbox", "X", "")) if value is None
        else Trace("r", name, "", "m", rewards={"r": value}, weights={"r": 1.0})
        for name, values in rewards.items()
        for value in values
    ]  # fmt: skip
    results = difficulty_results(tasks, traces)
    easy, hard, medium = results["easy"], results["hard"], results["medium"]
    assert (easy.tasks, easy.judged, easy.failed, easy.mean_reward) == (1, 2, 1, 0.5)
    assert (hard.tasks, hard.judged, hard.failed, hard.mean_reward) == (1, 0, 1, None)
    assert (medium.tasks, medium.judged, medium.failed) == (2, 0, 0)


def test_terminal_tests_have_different_names_and_files() -> None:
    tasks = terminal_test_tasks()
    assert len({task.key for task in tasks}) == len(tasks) >= 5
    assert all(task.path not in task.files for task in tasks), "the result is not there already"


def test_swe_task_starts_with_the_buggy_or_an_empty_function(tmp_path) -> None:
    file = write_rows(tmp_path / "rows.jsonl", ROWS)
    fix, write = (swe_tasks(file, mode=mode)[0] for mode in ("fix", "implement"))
    assert fix.name == write.name == "Python/0"
    assert "has a bug" in fix.prompt
    assert write.row.buggy_solution == ""
    assert fix.hash != write.hash
    hidden = ROWS[0]["test"]
    assert hidden not in fix.prompt
    (second,) = swe_tasks(file, task_filter=["Python/1"])
    assert second.row.entry_point == "largest"


@table_test
def test_wrong_swe_rows_name_their_line(tmp_path, change, message) -> None:
    row = {key: value for key, value in {**ROWS[0], **change}.items() if value is not None}
    file = write_rows(tmp_path / "rows.jsonl", [ROWS[1], row])
    with pytest.raises(UsageError) as caught:
        swe_tasks(file)
    assert str(caught.value).startswith(f"{file}:3: {message}")


def test_file_that_is_not_json_names_its_line(tmp_path) -> None:
    (tmp_path / "rows.jsonl").write_text("\n{\n")
    with pytest.raises(UsageError, match="jsonl:2 is not JSON"):
        swe_tasks(tmp_path / "rows.jsonl")
    with pytest.raises(UsageError, match="mode x: expected one of fix, implement"):
        swe_tasks(tmp_path / "rows.jsonl", mode="x")


def test_yc_bench_has_three_presets_and_three_seeds() -> None:
    tasks = yc_bench_tasks()
    assert len({task.key for task in tasks}) == 9
    assert tasks[0].key == "fast_test-1"
    assert "yc-bench sim resume" in tasks[0].prompt
    with pytest.raises(UsageError, match="no preset slow") as caught:
        yc_bench_tasks(["slow"])
    assert "nightmare" in caught.value.hint


@pytest.mark.parametrize("backend", ["docker", "sandbox", "ssh"])
def test_yc_bench_is_refused_elsewhere(backend) -> None:
    with pytest.raises(UsageError, match="local only"):
        yc_bench_tasks(["fast_test"], [1])[0].check(backend)


@table_test
def test_status_of_a_company(funds, time, bankrupt, ended) -> None:
    data = {"funds_cents": funds, "sim_time": time, "horizon_end": "2026-01-01T09:00:00"}
    status = CompanyStatus.of({**data, "prestige": {}})
    assert (status.bankrupt, status.ended) == (bankrupt, ended)
