"""Two processes look after the same jobs, are killed at any instant, and the clock jumps: each
instant runs once. `python -m bench.cron_storm` goes on for longer."""

import os
import random
from pathlib import Path

import pytest

from bench.cron_storm import storm
from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, Slow, Step
from hermes.core.testing.http_server import RecordedRequest
from tests.integration.cron.test_runs import home_of
from tests.integration.storms.nursery import Order, nursery
from tests.postgres_server import shared_server

SEED = int(os.environ.get("HERMES_TEST_STORM_SEED", "7"))
STEPS, SHARED_STEPS = 40, 20


async def test_each_instant_runs_once_on_one_machine(tmp_path: Path) -> None:
    figures = await storm(tmp_path, "", STEPS, SEED)
    assert figures["kills"] > STEPS / 10  # any seed has that many
    assert figures["runs"] > STEPS / 2


async def test_each_instant_runs_once_with_a_shared_store(tmp_path: Path) -> None:
    with shared_server().database() as url:
        figures = await storm(tmp_path, url, SHARED_STEPS, SEED + 1)
    assert figures["kills"] > SHARED_STEPS / 10
    assert figures["runs"] > SHARED_STEPS / 2


class Worker:
    """The script of a model server: three calls that leave a trace, then an answer."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace

    def __call__(self, request: RecordedRequest) -> Step:
        done = request.raw.decode().count('"tool_call_id"')
        if done < 3:
            command = f'{{"command": "echo step-{done} >> {self._trace}"}}'
            return Step((ToolCall(f"call-{done}", "terminal", command),), faults=(Slow(0.005),))
        return Step((Text("All three are done."),), faults=(Slow(0.005),))


@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
def test_killed_agents_finish_their_runs(hermes_home: Path, tmp_path: Path, seed: int) -> None:
    chance, trace = random.Random(seed), tmp_path / "trace"
    with ModelServer(Worker(trace)) as server, nursery() as forked:
        home = home_of(hermes_home, server)

        def hermes(*words: str, seconds: float | None = None):
            life = forked.run(Order(str(home.root), str(tmp_path), ["cron", *words], 0, seconds))
            assert life.exit_code in (0, -9), life
            return life

        hermes("create", "every 1d", "do the three steps", "--name", "steps")
        hermes("run", "steps", "--queue")
        hermes("tick", seconds=chance.uniform(0.05, 0.35))
        hermes("tick", seconds=chance.uniform(0.05, 0.35))
        hermes("tick")
        shown = hermes("runs", "--json").lines
        assert sum('"state": "ok"' in line for line in shown) == 1, shown
        assert sum('"job_id"' in line for line in shown) == 1, shown
    steps = trace.read_text().split()
    assert steps == sorted(set(steps)), "what was done is not done again"
