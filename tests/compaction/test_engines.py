"""After a compaction, and after three more with work in between, nothing needed is gone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.context.compressor import ContextCompressor
from hermes.context.engine import ContextEngine
from hermes.sdk.testing.context import ContextEngineContract, conversation_faults
from hermes_plugins.context.lcm import LcmEngine
from tests.compaction.checks import lost, missing
from tests.compaction.playing import played, roomy
from tests.compaction.stories import NAMES
from tests.compaction.summarisers import BAD, GOOD, SECOND

ENGINES: dict[str, Callable[[int], ContextEngine]] = {
    "compressor": ContextCompressor,
    "lcm": LcmEngine,
}
TIGHT = 32_000
"""A small window: all that is kept must fit into a few thousand tokens."""

engines = pytest.mark.parametrize("engine", ENGINES)
stories = pytest.mark.parametrize("name", NAMES)


@engines
@stories
@pytest.mark.parametrize("window", ["tight", "roomy"])
def test_task_constraints_and_paths_survive_four_compactions(engine, name, window, tmp_path):
    length = TIGHT if window == "tight" else roomy(name)
    made = ENGINES[engine](length)
    for outcome in played(made, name, [GOOD], tmp_path):
        assert lost(outcome.facts, outcome.messages) == {}, f"compaction {outcome.round + 1}"
        assert conversation_faults(outcome.messages) == []
        assert outcome.after < outcome.before
        assert outcome.after < length // 2, "still over the threshold"
    assert made.compression_count


@engines
@stories
def test_values_that_were_worked_out_survive_with_a_good_summary(engine, name, tmp_path):
    for outcome in played(ENGINES[engine](roomy(name)), name, [GOOD], tmp_path):
        gone = missing(outcome.facts.facts, outcome.messages)
        assert gone == [], f"compaction {outcome.round + 1}"


@engines
@stories
@pytest.mark.parametrize("kind", BAD)
def test_the_task_survives_a_bad_summariser(engine: str, name: str, kind: str, tmp_path: Path):
    for outcome in played(ENGINES[engine](TIGHT), name, BAD[kind], tmp_path):
        assert lost(outcome.facts, outcome.messages) == {}, f"compaction {outcome.round + 1}"
        assert conversation_faults(outcome.messages) == []
        assert outcome.after < outcome.before
        assert outcome.after < TIGHT, "it does not fit the window"


@engines
@pytest.mark.parametrize("kind", SECOND)
def test_the_next_summariser_is_asked_when_one_fails(engine: str, kind: str, tmp_path: Path):
    made = ENGINES[engine](TIGHT)
    for outcome in played(made, "shop_in_python", SECOND[kind], tmp_path):
        assert lost(outcome.facts, outcome.messages) == {}, f"compaction {outcome.round + 1}"
    assert made.summary_model == "honest-1"


class TestCompressor(ContextEngineContract):
    def make(self, context_length: int) -> ContextEngine:
        return ContextCompressor(context_length)


class TestLcm(ContextEngineContract):
    def make(self, context_length: int) -> ContextEngine:
        return LcmEngine(context_length)
