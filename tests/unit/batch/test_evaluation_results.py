"""Figures of runs, against values that were published or computed by hand."""

from pathlib import Path

import pytest

from hermes.batch.results import (
    RunResults,
    change,
    compare,
    correlation,
    covered_seconds,
    pass_rate,
    sample_entries,
    sharegpt_entries,
    wilson,
)
from hermes.core.errors import UsageError
from hermes.core.model import Usage
from hermes.envs import Failure, RecordedCall, Trace, TraceRecorder, write_traces

OVERLOADED = Failure("provider", "Overloaded", "too many requests", True)


def trace(
    key: str, task: str, reward: float | None = 1.0, *, start: float = 0.0, exact: bool = False,
    cost: float | None = 0.5, content: str = "", failure: Failure | None = None,
) -> Trace:  # fmt: skip
    recorder = TraceRecorder()
    recorder.add(
        RecordedCall(
            messages=[{"role": "user", "content": f"Do {task}."}],
            reply={"role": "assistant", "content": "Done."},
            prompt_ids=[1, 2] if exact else None,
            completion_ids=[3] if exact else None,
            logprobs=[-0.5] if exact else (),
            usage=Usage(input=10, output=2),
            cost_usd=cost,
        )
    )
    rewards = {} if reward is None or failure else {"is_right": reward}
    return Trace(
        key, task, content or task, "m", nodes=recorder.nodes, rewards=rewards, failure=failure,
        started_at=start, seconds=2.0,
    )  # fmt: skip


def rounded(*values: float) -> tuple[float, ...]:
    return tuple(round(value, 4) for value in values)


def test_wilson_interval() -> None:
    assert rounded(*bounds(wilson(8 / 10, 10))) == (0.4902, 0.9433)
    assert rounded(*bounds(wilson(0, 10))) == (0, 0.2775)
    assert rounded(*bounds(wilson(1, 5))) == (0.5655, 1)


def bounds(found) -> tuple[float, float]:
    return found.low, found.high


def test_repeats_of_a_task_count_less_than_other_tasks() -> None:
    # Means 3/4, 1/4, 1: (2/9) / (7/24 / 6) = 32/7 independent rollouts.
    found = pass_rate([(3, 4), (1, 4), (4, 4)])
    assert rounded(found.value, found.effective) == (0.6667, 4.5714)
    assert found.low == pytest.approx(wilson(2 / 3, 32 / 7).low)
    # Repeats that always agree say nothing new; equal rates are as good as independent rollouts.
    assert pass_rate([(4, 4), (0, 4)]).effective == 2
    assert pass_rate([(2, 4), (2, 4)]).effective == 8
    assert pass_rate([(4, 4), (4, 4), (0, 0)]).effective == 2
    # One rollout a task is the plain interval; one task alone is the interval of its rollouts.
    assert pass_rate([(1, 1)] * 8 + [(0, 1)] * 2) == wilson(0.8, 10)
    assert pass_rate([(8, 10)]) == wilson(0.8, 10)
    assert pass_rate([(0, 0)]) is None


def test_each_task_has_the_same_weight() -> None:
    assert pass_rate([(1, 1), (0, 9)]).value == 0.5


def test_interval_of_a_difference_is_as_published() -> None:
    # Newcombe 1998, Statistics in Medicine 17: 56/70 against 48/80, method 10.
    found = change(wilson(48 / 80, 80), wilson(56 / 70, 70))
    assert rounded(found.value, *bounds(found)) == (0.2, 0.0524, 0.3339)
    assert found.is_clear
    # The paper on paired data: 36 pass in both, 12 and 2 in one, 0 in none.
    one, two = [1.0] * 48 + [0.0] * 2, [1.0] * 36 + [0.0] * 12 + [1.0] * 2
    rates = [pass_rate([(int(value), 1) for value in side]) for side in (two, one)]
    found = change(*rates, correlation(one, two))
    assert rounded(found.value, *bounds(found)) == (0.2, 0.0569, 0.3404)


def test_correlation() -> None:
    assert correlation([0, 0.5, 1], [0, 0.5, 1]) == pytest.approx(1)
    assert correlation([0, 1], [1, 0]) == pytest.approx(-1)
    assert correlation([1, 1], [0, 1]) == 0
    assert correlation([1], [0]) == 0


def test_pauses_are_not_wall_time() -> None:
    assert covered_seconds([(0, 10), (5, 12), (100, 101), (6, 7)]) == 13


def test_failure_is_not_scored_and_its_cost_counts() -> None:
    results = RunResults(
        "r",
        [trace("1", "a"), trace("2", "a", 0.0), trace("3", "b", 1.1)],
        [trace("4", "b", failure=OVERLOADED), trace("5", "c", failure=OVERLOADED, cost=None)],
    )
    a, b, c = results.tasks()
    assert [(t.key, t.passed, t.scored, t.failures) for t in (a, b, c)] == [
        ("a", 1, 2, 0), ("b", 1, 1, 1), ("c", 0, 0, 1),
    ]  # fmt: skip
    assert (b.reward, c.reward, c.rate) == (1.1, None, None)
    summary = results.summary()
    assert (summary.scored, summary.passed, summary.failures) == (3, 2, 2)
    assert summary.boundaries == {"provider": 2}
    assert summary.rate.value == 0.75, "the mean of a and b; c has no result"
    assert summary.reward == pytest.approx(0.8)
    assert (summary.cost_usd, summary.unpriced) == (2.0, 1)
    assert summary.usage == Usage(input=50, output=10)
    assert (summary.solved_once, summary.solved_always) == (2, 1)


def test_repeated_attempts_are_part_of_the_cost() -> None:
    traces = [trace("1", "a"), trace("2", "a")]
    assert RunResults("r", traces, spent_usd=2.5).summary().cost_usd == 2.5
    assert RunResults("r", traces, spent_usd=0.2).summary().cost_usd == 1.0
    unpriced = RunResults("r", [trace("1", "a", cost=None)], spent_usd=0.0)
    assert unpriced.summary().cost_usd is None


def test_failed_attempt_is_replaced_by_a_later_result() -> None:
    failed = [trace("1", "a", failure=OVERLOADED), trace("2", "a", failure=OVERLOADED)]
    results = RunResults("r", [trace("1", "a")], failed)
    assert [found.id for found in results.failed] == ["2"]
    assert results.summary().scored == 1


def test_task_without_rewards_has_no_pass_rate() -> None:
    summary = RunResults("r", [trace("1", "a", None)]).summary()
    assert (summary.rate, summary.scored, summary.reward) == (None, 0, None)


def test_limit_of_a_pass_allows_for_rounding() -> None:
    results = RunResults("r", [trace("1", "a", 0.1 + 0.2)], pass_reward=0.3)
    assert results.summary().passed == 1
    nearly = RunResults("r", [trace("1", "a", 0.7 + 0.2 + 0.1 - 1e-12)])
    assert nearly.summary().passed == 1


def test_folder_and_file_are_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no traces"):
        RunResults.read(tmp_path)
    with pytest.raises(UsageError, match="has no traces"):
        RunResults.read(tmp_path / "missing.jsonl")
    write_traces(tmp_path / "failed_traces.jsonl", [trace("2", "a", failure=OVERLOADED)])
    assert RunResults.read(tmp_path).summary().failures == 1
    write_traces(tmp_path / "traces.jsonl", [trace("1", "a")])
    results = RunResults.read(tmp_path)
    assert (len(results.traces), len(results.failed), results.name) == (1, 1, tmp_path.name)
    # The run may be writing the last line.
    with (tmp_path / "traces.jsonl").open("ab") as file:
        file.write(b'{"id": "half')
    assert len(RunResults.read(tmp_path).traces) == 1
    with (tmp_path / "traces.jsonl").open("ab") as file:
        file.write(b'"}\n')
    with pytest.raises(UsageError, match=r"traces.jsonl:2 is not a trace"):
        RunResults.read(tmp_path)
    # A file of `write_traces` has both kinds.
    mixed = tmp_path / "mixed.jsonl"
    write_traces(mixed, [trace("1", "a"), trace("2", "a", failure=OVERLOADED)])
    assert len(RunResults.read(mixed).failed) == 1


def test_tasks_are_compared_by_key_and_content() -> None:
    before = RunResults("one", [
        trace("1", "better", 0.0), trace("2", "worse"), trace("3", "same"),
        trace("4", "gone"), trace("5", "edited", content="old"), trace("6", "unscored"),
    ])  # fmt: skip
    after = RunResults("two", [
        trace("1", "better"), trace("2", "worse", 0.0), trace("3", "same"),
        trace("4", "fresh"), trace("5", "edited", 0.0, content="new"),
    ], [trace("6", "unscored", failure=OVERLOADED)])  # fmt: skip
    found = compare(before, after)
    assert [task.key for task in found.improved] == ["better"]
    assert [task.key for task in found.worse] == ["worse"]
    assert [task.key for task in found.new] == ["fresh"]
    assert [task.key for task in found.missing] == ["gone"]
    assert [task.key for task in found.tasks if task.is_edited] == ["edited"]
    assert found.paired == 3, "better, worse and same"
    assert found.before_rate.value == found.after_rate.value == pytest.approx(2 / 3)
    assert (found.change.value, found.change.is_clear) == (0, False)
    assert found.change.low == pytest.approx(-found.change.high)


def test_runs_without_common_tasks_are_not_compared() -> None:
    found = compare(RunResults("one", [trace("1", "a")]), RunResults("two", [trace("1", "b")]))
    assert (found.paired, found.change, found.before_rate) == (0, None, None)


def test_exports_have_scored_traces_with_enough_reward_only() -> None:
    results = RunResults(
        "r",
        [trace("1", "a", exact=True), trace("2", "b", 0.0)],
        [trace("3", "c", failure=OVERLOADED)],
    )
    (entry,) = sharegpt_entries(results, 1.0)
    assert [turn["from"] for turn in entry["conversations"]] == ["system", "human", "gpt"]
    assert entry["metadata"]["reward"] == 1.0
    assert len(list(sharegpt_entries(results, None))) == 2
    samples = list(sample_entries(results, None))
    assert [sample["token_exact"] for sample in samples] == [True, False]
    assert samples[0]["token_ids"] == (1, 2, 3)
    assert samples[0]["mask"] == (0, 0, 1)
    assert samples[0]["logprobs"] == (0, 0, -0.5)
