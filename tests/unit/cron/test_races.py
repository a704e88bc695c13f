"""Changes between two steps of a tick: runs end and start, users pause and remove jobs."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes.core.errors import StoreError
from hermes.cron.due import DuePolicy
from hermes.cron.job import Job
from hermes.store.records import Run
from hermes.store.session_store import SessionStore
from tests.unit.cron.conftest import HOUR, T0, Harness, ManualClock, until


class Wrapped:
    """A `RunClaims` or `JobStore` with extra steps around some calls."""

    def __init__(self, inner: Any, **happens: Any) -> None:
        self._inner, self._happens = inner, happens

    def __getattr__(self, name: str) -> Any:
        real, happens = getattr(self._inner, name), self._happens.get(name)
        return real if happens is None else partial(happens, real)


async def test_run_started_during_lease_renewal_continues(harness: Harness) -> None:
    """Nothing was left to renew when the store looked; a run had begun before the answer came."""
    await harness.add("first")
    await harness.add("second", "every 2h")
    ticker = harness.ticker()
    renewed = asyncio.Event()

    async def renew(real: Any, owner: str, lease: float) -> int:
        for task in tuple(ticker.pool.active):
            harness.runner.gate.set()
            await task
        kept = await real(owner, lease)
        harness.runner.gate.clear()
        harness.clock.at = T0 + 2 * HOUR
        await ticker.tick()
        await until(lambda: harness.runner.at_once)
        renewed.set()
        return kept

    ticker.pool._claims = Wrapped(harness.store.runs, renew=renew)
    harness.runner.gate.clear()
    harness.clock.at = T0 + HOUR
    await ticker.tick()
    await asyncio.wait_for(renewed.wait(), 10)
    ticker.pool._claims = harness.store.runs
    await asyncio.sleep(0)
    harness.runner.gate.set()
    await ticker.drain()
    assert set((await harness.states()).values()) == {"ok"}
    await ticker.close()


async def test_only_the_run_owned_by_another_machine_is_cancelled(harness: Harness) -> None:
    await harness.add("mine")
    await harness.add("theirs")
    harness.runner.gate.clear()
    harness.clock.at = T0 + HOUR
    ticker = harness.ticker()
    await ticker.tick()
    await until(lambda: harness.runner.at_once == 2)
    await harness.store._engine.write_from_loop(
        lambda base: base.change(
            "UPDATE cron_runs SET owner = 'elsewhere:1:2', fence = fence + 1 WHERE job_id = ?",
            ("theirs",),
        ),
        is_small=True,
    )
    await until(lambda: harness.runner.at_once == 1)
    assert ticker.pool.is_running("mine")
    harness.runner.gate.set()
    await ticker.pool.wait()
    assert [(each.state, each.owner) for each in await harness.store.runs.history("theirs")] == [
        ("running", "elsewhere:1:2")
    ]
    assert [each.state for each in await harness.store.runs.history("mine")] == ["ok"]
    await ticker.close()


async def test_drain_also_runs_jobs_that_waited_for_a_slot(harness: Harness) -> None:
    """The runs that took the room may be over before the look is."""
    for number in range(5):
        await harness.add(f"j{number}", workdir="/tmp" if number < 2 else "")
    harness.clock.at = T0 + HOUR
    ticker = harness.ticker(max_parallel=2)

    async def clean(real: Any, before: float) -> int:
        harness.runner.gate.set()
        await ticker.pool.wait()
        return await real(before)

    harness.runner.gate.clear()

    ticker._claims = Wrapped(harness.store.runs, clean=clean)
    await ticker.drain()
    assert len(harness.runner.ran) == 5


@pytest.mark.parametrize("what", ["paused", "removed"])
async def test_job_stopped_right_before_its_start_does_not_run(harness: Harness, what: str) -> None:
    await harness.add()
    harness.clock.at = T0 + HOUR
    ticker = harness.ticker()

    async def everything(real: Any) -> tuple[Job, ...]:
        jobs = await real()
        if not jobs or jobs[0].pending is None:
            return jobs
        if what == "paused":  # it would begin next
            await harness.jobs.update("j", lambda it: replace(it, state="paused", pending=None))
        else:
            await harness.jobs.remove("j")
        return jobs

    ticker._jobs = Wrapped(harness.jobs, all=everything)
    await ticker.drain()
    assert harness.runner.ran == []
    assert await harness.store.runs.history() == ()


async def test_job_changed_right_before_its_start_runs_with_the_change(harness: Harness) -> None:
    await harness.add()
    harness.clock.at = T0 + HOUR
    ticker = harness.ticker()
    seen: list[str] = []
    run = harness.runner.run

    async def noted(job: Job, run_: Run) -> Run:
        seen.append(job.prompt)
        return await run(job, run_)

    harness.runner.run = noted  # type: ignore[method-assign]  # it is a runner

    async def everything(real: Any) -> tuple[Job, ...]:
        jobs = await real()
        if jobs[0].pending is not None:  # it begins next
            await harness.jobs.update("j", lambda it: replace(it, prompt="new"))
        return jobs

    ticker._jobs = Wrapped(harness.jobs, all=everything)
    await ticker.drain()
    assert seen == ["new"]


async def test_once_schedule_waits_for_a_requested_run(harness: Harness) -> None:
    await harness.add(text="1h", times=1)
    await harness.jobs.update("j", lambda it: replace(it, triggered_at=T0 + 0.5))
    harness.runner.gate.clear()
    ticker = harness.ticker()
    harness.clock.at = T0 + 1
    await ticker.tick()
    await until(lambda: harness.runner.at_once)
    harness.clock.at = T0 + HOUR + 5
    await ticker.tick()
    assert (await harness.job()).state == "scheduled"
    assert ticker.next_wakeup is None, "the ticker sleeps until that run ends"
    harness.runner.gate.set()
    await ticker.drain()
    assert [instant for _, instant, _ in harness.runner.ran] == [T0 + 0.5, T0 + HOUR]
    assert (await harness.job()).state == "completed"


async def test_end_of_run_is_reported_after_a_long_store_outage(
    harness: Harness,
) -> None:
    await harness.add()
    harness.clock.at = T0 + HOUR
    ticker = harness.ticker()
    tries = 0

    async def report(real: Any, run: Run) -> None:
        nonlocal tries
        tries += 1
        if tries < 12:
            raise StoreError("the server is away")
        await real(run)

    ticker.pool._claims = Wrapped(harness.store.runs, report=report)
    await ticker.drain()
    assert await harness.states() == {1: "ok"}


async def test_on_run_is_called_when_the_job_cannot_be_written(
    harness: Harness,
) -> None:
    await harness.add()
    harness.clock.at = T0 + HOUR
    heard: list[str] = []
    ticker = harness.ticker()
    ticker.pool._on_run = lambda _job, run: heard.append(run.state)

    async def change(_real: Any, _job_id: str, _how: Any) -> None:
        raise StoreError("the disk is full")

    ticker.pool._jobs = Wrapped(harness.jobs, change=change)
    await ticker.drain()
    assert heard == ["claimed", "ok"]


async def test_failed_tick_is_not_repeated_at_once(harness: Harness) -> None:
    await harness.add()
    ticker = harness.ticker(policy=DuePolicy())
    await ticker.tick()
    assert ticker.next_wakeup == T0 + HOUR
    stop = asyncio.Event()

    async def everything(_real: Any) -> tuple[Job, ...]:
        stop.set()
        raise StoreError("no")

    ticker._jobs = Wrapped(harness.jobs, all=everything)
    await ticker.run_forever(stop)
    assert ticker.next_wakeup is None


async def test_job_created_by_another_process_is_noticed(
    tmp_path: Path, store: SessionStore, clock: ManualClock
) -> None:
    harness = Harness(tmp_path, store, clock, shared=False)
    ticker, stop, slept = harness.ticker(interval=1e9), asyncio.Event(), 0

    class Counting(ManualClock):
        async def sleep(self, seconds: float) -> None:
            nonlocal slept
            slept += 1
            assert seconds <= 2
            await asyncio.sleep(0.002)

    ticker._clock = Counting()
    forever = asyncio.ensure_future(ticker.run_forever(stop))
    await until(lambda: slept > 3)
    await harness.add(state="paused", triggered_at=T0 + 0.5)  # as `hermes cron run` does
    await until(lambda: harness.runner.ran)
    stop.set()
    await forever
