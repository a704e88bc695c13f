"""The ticker: each instant runs once, also with crashes, several processes and clock jumps."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes.core.errors import LeaseLost
from hermes.cron.due import DuePolicy
from hermes.cron.job import Job
from hermes.cron.job_store import try_lock
from hermes.cron.run_pool import is_owner_dead, new_owner, retire_owner
from hermes.cron.ticker import HeartbeatFile
from hermes.store.records import Run
from hermes.store.session_store import SessionStore
from hermes.util.processes import this_machine
from tests.unit.cron.conftest import HOUR, T0, Harness, ManualClock, until


async def test_due_job_runs_once_and_its_record_is_updated(harness: Harness) -> None:
    await harness.add()
    ticker = harness.ticker()
    await ticker.drain()
    assert harness.runner.ran == []
    harness.clock.at = T0 + HOUR + 1
    for _ in range(3):
        await ticker.drain()
    assert harness.runner.instants == [1]
    job = await harness.job()
    assert (job.last_status, job.completed, job.pending) == ("ok", 1, None)
    assert job.next_run_at == T0 + 2 * HOUR
    assert ticker.next_wakeup == T0 + 2 * HOUR
    await ticker.close()


async def test_two_tickers_run_an_instant_once(harness: Harness) -> None:
    for number in range(6):
        await harness.add(f"j{number}")
    one, other = harness.ticker(), harness.ticker()
    for hour in (1, 2, 3):
        harness.clock.at = T0 + hour * HOUR
        await asyncio.gather(one.drain(), other.drain())
    assert sorted(harness.runner.ran) == [
        (f"j{number}", T0 + hour * HOUR, 1) for number in range(6) for hour in (1, 2, 3)
    ]


async def test_missed_window_is_one_run_and_one_history_entry(harness: Harness) -> None:
    await harness.add()
    harness.clock.at = T0 + 5.5 * HOUR
    await harness.ticker().drain()
    assert harness.runner.instants == [5]
    assert await harness.states() == {1: "missed", 5: "ok"}
    (missed,) = [run for run in await harness.store.runs.history() if run.state == "missed"]
    assert "4 times" in missed.error


async def test_long_run_does_not_delay_other_jobs(harness: Harness) -> None:
    await harness.add("long")
    await harness.add("short", "every 30m")
    harness.runner.gate.clear()
    ticker = harness.ticker()
    for half_hours in (1, 2, 3, 4):
        harness.clock.at = T0 + half_hours * HOUR / 2
        await ticker.tick()
        await until(lambda: harness.runner.ran)
    await until(lambda: harness.runner.at_once == 2)
    assert sorted(each[0] for each in harness.runner.ran) == ["long", "short"]
    states = [(run.job_id, run.state) for run in await harness.store.runs.history()]
    assert states.count(("long", "skipped")) == 1
    assert states.count(("short", "skipped")) == 3
    harness.runner.gate.set()
    await ticker.drain()
    harness.clock.at = T0 + 3 * HOUR
    await ticker.drain()
    assert harness.runner.ran[-1][:2] in (("long", T0 + 3 * HOUR), ("short", T0 + 3 * HOUR))
    assert len(harness.runner.ran) == 4


async def test_parallel_limit_is_kept_and_every_job_runs(harness: Harness) -> None:
    for number in range(7):
        await harness.add(f"j{number}")
    harness.clock.at = T0 + HOUR
    ticker = harness.ticker(max_parallel=2)
    harness.runner.gate.clear()
    await ticker.tick()
    await until(lambda: harness.runner.at_once == 2)
    harness.runner.gate.set()
    await ticker.drain()
    assert len(harness.runner.ran) == 7
    assert harness.runner.most <= 2


async def test_jobs_with_a_working_folder_run_one_at_a_time(harness: Harness) -> None:
    for number in range(3):
        await harness.add(f"j{number}", workdir="/tmp")
    harness.clock.at = T0 + HOUR
    ticker, other = harness.ticker(), harness.ticker()
    harness.runner.gate.clear()
    await ticker.tick()
    await other.tick()
    await until(lambda: harness.runner.at_once == 1)
    harness.runner.gate.set()
    await ticker.drain()
    await other.drain()
    assert len(harness.runner.ran) == 3
    assert harness.runner.most == 1
    free = try_lock(harness.folder / "cron" / ".workdir.lock")
    assert free is not None
    free.close()


async def test_requested_run_does_not_count_as_scheduled(harness: Harness) -> None:
    await harness.add(state="paused")
    await harness.jobs.update("j", lambda job: replace(job, triggered_at=T0 + 0.5))
    harness.clock.at = T0 + 1
    ticker = harness.ticker()
    await ticker.drain()
    await ticker.drain()
    assert [run.instant for run in await harness.store.runs.history()] == [T0 + 0.5]
    job = await harness.job()
    assert (job.state, job.triggered_at, job.completed) == ("paused", None, 0)


def left_by(harness: Harness, when: str) -> Callable[[], Any]:
    """A process that dies right before or after a step."""

    async def leave() -> str:
        owner = new_owner()
        await harness.add()
        harness.clock.at = T0 + HOUR
        dying = harness.ticker()
        dying.pool.owner = owner
        if when == "decided":
            await dying._decide("j", T0 + HOUR)
        if when in ("claimed", "claimed, not cleared"):
            await dying._decide("j", T0 + HOUR)
            await harness.store.runs.claim("j", T0 + HOUR, owner, T0 + HOUR, T0 + 2 * HOUR)
        if when == "claimed":
            await harness.jobs.update("j", lambda job: replace(job, pending=None))
        if when == "running":
            harness.runner.gate.clear()
            await dying.tick()
            await until(lambda: harness.runner.at_once)
            for task in dying.pool.active:
                task.cancel()
            await until(lambda: not dying.pool.active)
            harness.runner.ran.clear()
            harness.runner.gate.set()
        retire_owner(owner)
        return owner

    return leave


@pytest.mark.parametrize("when", ["nothing", "decided", "claimed", "claimed, not cleared"])
async def test_process_that_dies_before_the_run_loses_nothing(harness: Harness, when: str) -> None:
    await left_by(harness, when)()
    ticker = harness.ticker()
    for _ in range(3):
        await ticker.drain()
    assert harness.runner.instants == [1]
    harness.clock.at = T0 + 2 * HOUR
    await ticker.drain()
    assert harness.runner.instants == [1, 2]
    assert (await harness.job()).completed == 2


async def test_run_of_a_dead_process_is_taken_over(harness: Harness) -> None:
    await left_by(harness, "running")()
    await harness.ticker().drain()
    assert harness.runner.ran == [("j", T0 + HOUR, 2)]
    assert await harness.states() == {1: "ok"}


async def test_run_is_abandoned_after_max_attempts(harness: Harness) -> None:
    await left_by(harness, "running")()
    (run,) = await harness.store.runs.history()
    for _ in range(2):
        owner = new_owner()
        await harness.store.runs.take_over(owner, T0, T0 + HOUR, dead=(run.owner,))
        retire_owner(owner)
        (run,) = await harness.store.runs.history()
    assert run.attempt == 3
    await harness.ticker().drain()
    assert harness.runner.ran == []
    assert harness.runner.abandoned == [T0 + HOUR]
    assert (await harness.job()).last_status == "error"


async def test_run_of_a_removed_job_is_closed(harness: Harness) -> None:
    await left_by(harness, "running")()
    await harness.jobs.remove("j")
    await harness.ticker().drain()
    (run,) = await harness.store.runs.history()
    assert (run.state, run.error) == ("lost", "the job was removed")


async def test_expired_lease_is_taken_over(harness: Harness) -> None:
    await harness.add()
    await harness.store.runs.claim("j", T0, "elsewhere:1:2", T0, T0 + 120)
    ticker = harness.ticker()
    harness.clock.at, harness.clock.passed = T0 + 60, 60
    await ticker.drain()
    assert harness.runner.ran == []
    harness.clock.at, harness.clock.passed = T0 + 121, 121
    await ticker.drain()
    assert harness.runner.ran == [("j", T0, 2)]


async def test_live_owner_keeps_its_run_after_a_clock_jump(harness: Harness) -> None:
    await harness.add()
    harness.runner.gate.clear()
    one, other = harness.ticker(), harness.ticker()
    harness.clock.at = T0 + HOUR
    await one.tick()
    await harness.store.runs.claim("k", T0, "elsewhere:1:2", T0, T0 + HOUR + 10)
    await other.tick()
    await until(lambda: harness.runner.at_once)
    harness.clock.at = T0 + 100 * HOUR  # the leases could not be renewed meanwhile
    await other.tick()
    await one.tick()
    assert [run.owner for run in await harness.store.runs.history("k")] == ["elsewhere:1:2"]
    assert harness.runner.instants == [1]
    harness.runner.gate.set()
    await asyncio.gather(one.drain(), other.drain())
    assert harness.runner.instants == [1], "the one instant since then is skipped while it ran"


async def test_nothing_runs_again_after_clock_is_set_back(harness: Harness) -> None:
    await harness.add()
    ticker = harness.ticker()
    for hour in (1, 2, 3, 1.5, 2, 2.5, 3, 3.2, 4, 0, 4.1, 5):
        harness.clock.at = T0 + hour * HOUR
        await ticker.drain()
    assert harness.runner.instants == [1, 2, 3, 4, 5]
    assert (await harness.job()).completed == 5


async def test_clock_far_ahead_does_not_block_a_job(harness: Harness) -> None:
    await harness.add()
    ticker = harness.ticker()
    for hour in (1, 90_000, 1.2, 2, 3):
        harness.clock.at = T0 + hour * HOUR
        await ticker.drain()
    assert harness.runner.instants == [1, 90_000, 3], "2 stands in the history as missed"


async def test_run_taken_over_is_not_reported_by_the_old_owner(harness: Harness) -> None:
    await harness.add()
    harness.clock.at = T0 + HOUR
    harness.runner.gate.clear()
    ticker = harness.ticker()
    await ticker.tick()
    await until(lambda: harness.runner.at_once)
    (run,) = await harness.store.runs.take_over("thief", T0, T0 + 9 * HOUR, dead=(ticker.owner,))
    harness.runner.gate.set()
    await ticker.pool.wait()
    assert (await harness.job()).last_status == ""
    await harness.store.runs.report(replace(run, state="ok"))
    with pytest.raises(LeaseLost):
        await harness.store.runs.report(replace(run, fence=run.fence - 1))


async def test_unexpected_error_ends_the_run_as_failed(harness: Harness) -> None:
    await harness.add()
    harness.clock.at = T0 + HOUR

    async def broken(_job: Job, _run: Run) -> Run:
        raise ZeroDivisionError("no")

    harness.runner.run = broken
    await harness.ticker().drain()
    assert await harness.states() == {1: "failed"}
    assert (await harness.job()).last_error == "ZeroDivisionError: no"


async def test_run_forever_ticks_until_stopped(harness: Harness) -> None:
    await harness.add()
    stop = asyncio.Event()
    ticker = harness.ticker()
    heartbeat = HeartbeatFile(harness.folder / "cron", "gateway")
    forever = asyncio.ensure_future(ticker.run_forever(stop, heartbeat))
    harness.clock.at = T0 + HOUR
    ticker.wake()
    async with asyncio.timeout(10):
        while (await harness.job()).last_status != "ok":
            await asyncio.sleep(0.005)
    chat = HeartbeatFile(harness.folder / "cron", "chat")
    seen = chat.read()
    assert seen is not None and seen.is_alive(harness.clock.at)
    assert chat.defers("me", harness.clock.at)
    harness.runner.gate.clear()
    harness.clock.at = T0 + 2 * HOUR
    ticker.wake()
    await until(lambda: len(harness.runner.ran) == 2)
    stop.set()
    await forever
    assert not chat.defers("me", harness.clock.at)
    harness.runner.gate.set()
    await harness.ticker().drain()
    assert harness.runner.ran[-1] == ("j", T0 + 2 * HOUR, 2), "who comes next goes on with it"


async def test_ticker_recovers_from_an_invalid_file(
    tmp_path: Path, store: SessionStore, clock: ManualClock
) -> None:
    harness = Harness(tmp_path, store, clock, shared=False)
    await harness.add()
    file = tmp_path / "cron" / "jobs.json"
    good = file.read_text()
    file.write_text("{")
    stop = asyncio.Event()
    clock.at = T0 + HOUR
    forever = asyncio.ensure_future(harness.ticker().run_forever(stop))
    await asyncio.sleep(0.02)
    assert harness.runner.ran == []
    file.write_text(good)
    await until(lambda: harness.runner.ran)
    stop.set()
    await forever


async def test_old_runs_are_deleted(harness: Harness) -> None:
    await harness.add()
    for hour in range(150):
        run = Run("j", T0 - (hour + 1000) * HOUR, "ok", ended_at=T0 - (hour + 1000) * HOUR)
        await harness.store.runs.record(run)
    await harness.ticker(keep_seconds=HOUR, policy=DuePolicy()).tick()
    assert len(await harness.store.runs.history("j", 500)) == 100


def test_owner_liveness_is_detected() -> None:
    owner = new_owner()
    assert is_owner_dead(owner) is False
    retire_owner(owner)
    assert is_owner_dead(owner) is True
    assert is_owner_dead(f"{this_machine()}:1:0") is True, "another process has that number"
    assert is_owner_dead("elsewhere:1:0") is None
    assert is_owner_dead("nonsense") is None
