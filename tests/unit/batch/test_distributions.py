"""Toolset distributions: the shipped ones, those of users, and what is drawn from them."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from hermes.batch.distributions import (
    Distribution,
    find_distribution,
    list_distributions,
    sample_toolsets_from_distribution,
)
from hermes.core.errors import UsageError
from hermes.tools import all_toolsets, expand


def test_shipped_distributions_name_existing_toolsets_without_subagents() -> None:
    for distribution in list_distributions().values():
        assert distribution.description
        assert "delegate_task" not in expand(distribution.toolsets, all_toolsets())


def test_toolsets_are_drawn_independently_with_their_probabilities() -> None:
    distribution = Distribution("d", "", {"terminal": 100, "web": 30, "file": 70, "todo": 0})
    rng = random.Random(1)
    counts = Counter(name for _ in range(5000) for name in distribution.sample(rng))
    assert counts["terminal"] == 5000
    assert counts["todo"] == 0
    assert 1400 < counts["web"] < 1600
    assert 3400 < counts["file"] < 3600


def test_at_least_one_toolset_is_drawn() -> None:
    rare = Distribution("rare", "", {"terminal": 1, "web": 0, "file": 3})
    drawn = [rare.sample(random.Random(seed)) for seed in range(500)]
    assert all(drawn)
    assert {name for each in drawn for name in each} == {"terminal", "file"}


def test_a_seed_makes_the_result_repeatable() -> None:
    first = [sample_toolsets_from_distribution("balanced", seed) for seed in range(50)]
    assert first == [sample_toolsets_from_distribution("balanced", seed) for seed in range(50)]
    assert len({tuple(each) for each in first}) > 5


def test_users_write_their_own_in_a_file(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("description: mostly commands\ntoolsets: {terminal: 90, web: 20.5}\n")
    assert find_distribution(str(own)) == Distribution(
        "own", "mostly commands", {"terminal": 90, "web": 20.5}
    )
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps({"terminal": 50}))
    assert find_distribution(str(plain)).toolsets == {"terminal": 50}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("toolsets: {terminal: 120}", "<= 100"),
        ("toolsets: {terminal: 0}", "no toolset a probability above 0"),
        ("toolsets: {no_such: 10}", "no toolset or tool 'no_such'"),
        ("toolsets: {delegation: 10}", "delegate_task"),
        ("toolsets: {hermes-cli: 10}", "delegate_task"),
        ("toolsets: {terminal: 10", "is not a distribution"),
        ("toolsets: {terminal: 10}\nmore: 1", "unknown field `more`"),
    ],
)
def test_invalid_file_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(UsageError, match=message):
        find_distribution(str(tmp_path / "own.yaml"))


def test_unknown_name_points_to_the_list() -> None:
    with pytest.raises(UsageError) as error:
        find_distribution("no_such")
    assert "hermes batch distributions" in error.value.hint
