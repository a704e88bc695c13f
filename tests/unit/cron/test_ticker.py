"""Looking at what is due: each instant runs once, whoever looks, dies or sleeps."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes.core.errors import LeaseLost, StoreError
from hermes.cron.due import Policy
from hermes.cron.job import Job
from hermes.cron.jobs_file import held_lock
from hermes.cron.owner import is_dead, new_owner, retire, this_machine
from hermes.cron.presence import Presence
from hermes.store.claims import Run
from hermes.store.port import SessionStore
from tests.unit.cron.conftest import HOUR, T0, HandClock, Scene, until


async def test_a_due_job_runs_once_and_its_record_tells(scene: Scene) -> None:
    await scene.add()
    ticker = scene.ticker()
    await ticker.drain()
    assert scene.stub.ran == []
    scene.clock.at = T0 + HOUR + 1
    for _ in range(3):
        await ticker.drain()
    assert scene.stub.instants == [1]
    job = await scene.job()
    assert (job.last_status, job.completed, job.pending) == ("ok", 1, None)
    assert job.next_run_at == T0 + 2 * HOUR
    assert ticker.wakes_at == T0 + 2 * HOUR
    await ticker.close()


async def test_two_who_look_at_the_same_time_run_it_once(scene: Scene) -> None:
    for number in range(6):
        await scene.add(f"j{number}")
    one, other = scene.ticker(), scene.ticker()
    for hour in (1, 2, 3):
        scene.clock.at = T0 + hour * HOUR
        await asyncio.gather(one.drain(), other.drain())
    assert sorted(scene.stub.ran) == [
        (f"j{number}", T0 + hour * HOUR, 1) for number in range(6) for hour in (1, 2, 3)
    ]


async def test_a_missed_window_is_one_run_and_one_line_of_history(scene: Scene) -> None:
    await scene.add()
    scene.clock.at = T0 + 5.5 * HOUR
    await scene.ticker().drain()
    assert scene.stub.instants == [5]
    assert await scene.states() == {1: "missed", 5: "ok"}
    (missed,) = [run for run in await scene.store.runs() if run.state == "missed"]
    assert "4 times" in missed.error


async def test_a_long_job_holds_up_nobody_and_is_not_run_beside_itself(scene: Scene) -> None:
    await scene.add("long")
    await scene.add("short", "every 30m")
    scene.stub.gate.clear()
    ticker = scene.ticker()
    for half_hours in (1, 2, 3, 4):
        scene.clock.at = T0 + half_hours * HOUR / 2
        await ticker.tick()
        await until(lambda: scene.stub.ran)
    await until(lambda: scene.stub.at_once == 2)
    assert sorted(each[0] for each in scene.stub.ran) == ["long", "short"]
    states = [(run.job_id, run.state) for run in await scene.store.runs()]
    assert states.count(("long", "skipped")) == 1
    assert states.count(("short", "skipped")) == 3
    scene.stub.gate.set()
    await ticker.drain()
    scene.clock.at = T0 + 3 * HOUR
    await ticker.drain()
    assert scene.stub.ran[-1][:2] in (("long", T0 + 3 * HOUR), ("short", T0 + 3 * HOUR))
    assert len(scene.stub.ran) == 4


async def test_no_more_run_side_by_side_than_wanted_and_none_is_forgotten(scene: Scene) -> None:
    for number in range(7):
        await scene.add(f"j{number}")
    scene.clock.at = T0 + HOUR
    ticker = scene.ticker(parallel=2)
    scene.stub.gate.clear()
    await ticker.tick()
    await until(lambda: scene.stub.at_once == 2)
    scene.stub.gate.set()
    await ticker.drain()
    assert len(scene.stub.ran) == 7
    assert scene.stub.most <= 2


async def test_jobs_with_a_working_folder_run_one_at_a_time(scene: Scene) -> None:
    for number in range(3):
        await scene.add(f"j{number}", workdir="/tmp")
    scene.clock.at = T0 + HOUR
    ticker, other = scene.ticker(), scene.ticker()
    scene.stub.gate.clear()
    await ticker.tick()
    await other.tick()
    await until(lambda: scene.stub.at_once == 1)
    scene.stub.gate.set()
    await ticker.drain()
    await other.drain()
    assert len(scene.stub.ran) == 3
    assert scene.stub.most == 1
    free = held_lock(scene.folder / "cron" / ".workdir.lock")
    assert free is not None
    free.close()


async def test_a_run_that_was_asked_for_is_beside_the_schedule(scene: Scene) -> None:
    await scene.add(state="paused")
    await scene.book.change("j", lambda job: replace(job, asked_at=T0 + 0.5))
    scene.clock.at = T0 + 1
    ticker = scene.ticker()
    await ticker.drain()
    await ticker.drain()
    assert [run.instant for run in await scene.store.runs()] == [T0 + 0.5]
    job = await scene.job()
    assert (job.state, job.asked_at, job.completed) == ("paused", None, 0)


def left_by(scene: Scene, when: str) -> Callable[[], Any]:
    """A process that dies right before or after a step."""

    async def leave() -> str:
        owner = new_owner()
        await scene.add()
        scene.clock.at = T0 + HOUR
        dying = scene.ticker()
        dying.crew.owner = owner
        if when == "decided":
            await dying._decide("j", T0 + HOUR)
        if when in ("claimed", "claimed, not cleared"):
            await dying._decide("j", T0 + HOUR)
            await scene.store.claim_run("j", T0 + HOUR, owner, T0 + HOUR, T0 + 2 * HOUR)
        if when == "claimed":
            await scene.book.change("j", lambda job: replace(job, pending=None))
        if when == "running":
            scene.stub.gate.clear()
            await dying.tick()
            await until(lambda: scene.stub.at_once)
            for task in dying.crew.active:
                task.cancel()
            await until(lambda: not dying.crew.active)
            scene.stub.ran.clear()
            scene.stub.gate.set()
        retire(owner)
        return owner

    return leave


@pytest.mark.parametrize("when", ["nothing", "decided", "claimed", "claimed, not cleared"])
async def test_who_dies_before_the_run_leaves_it_to_the_next(scene: Scene, when: str) -> None:
    await left_by(scene, when)()
    ticker = scene.ticker()
    for _ in range(3):
        await ticker.drain()
    assert scene.stub.instants == [1]
    scene.clock.at = T0 + 2 * HOUR
    await ticker.drain()
    assert scene.stub.instants == [1, 2]
    assert (await scene.job()).completed == 2


async def test_a_run_of_a_dead_process_goes_on_with_another_attempt(scene: Scene) -> None:
    await left_by(scene, "running")()
    await scene.ticker().drain()
    assert scene.stub.ran == [("j", T0 + HOUR, 2)]
    assert await scene.states() == {1: "ok"}


async def test_a_run_that_kills_its_process_again_and_again_is_given_up(scene: Scene) -> None:
    await left_by(scene, "running")()
    (run,) = await scene.store.runs()
    for _ in range(2):
        owner = new_owner()
        await scene.store.take_over(owner, T0, T0 + HOUR, dead=(run.owner,))
        retire(owner)
        (run,) = await scene.store.runs()
    assert run.attempt == 3
    await scene.ticker().drain()
    assert scene.stub.ran == []
    assert scene.stub.lost_ones == [T0 + HOUR]
    assert (await scene.job()).last_status == "error"


async def test_a_run_of_a_job_that_was_removed_is_closed(scene: Scene) -> None:
    await left_by(scene, "running")()
    await scene.book.drop("j")
    await scene.ticker().drain()
    (run,) = await scene.store.runs()
    assert (run.state, run.error) == ("lost", "the job is gone")


async def test_another_machine_is_waited_for_until_its_lease_runs_out(scene: Scene) -> None:
    await scene.add()
    await scene.store.claim_run("j", T0, "elsewhere:1:2", T0, T0 + 120)
    ticker = scene.ticker()
    scene.clock.at, scene.clock.passed = T0 + 60, 60
    await ticker.drain()
    assert scene.stub.ran == []
    scene.clock.at, scene.clock.passed = T0 + 121, 121
    await ticker.drain()
    assert scene.stub.ran == [("j", T0, 2)]


async def test_who_lives_is_not_robbed_because_the_clock_jumped(scene: Scene) -> None:
    await scene.add()
    scene.stub.gate.clear()
    one, other = scene.ticker(), scene.ticker()
    scene.clock.at = T0 + HOUR
    await one.tick()
    await scene.store.claim_run("k", T0, "elsewhere:1:2", T0, T0 + HOUR + 10)
    await other.tick()
    await until(lambda: scene.stub.at_once)
    scene.clock.at = T0 + 100 * HOUR  # nobody had time to renew anything
    await other.tick()
    await one.tick()
    assert [run.owner for run in await scene.store.runs("k")] == ["elsewhere:1:2"]
    assert scene.stub.instants == [1]
    scene.stub.gate.set()
    await asyncio.gather(one.drain(), other.drain())
    assert scene.stub.instants == [1], "the one instant since then is skipped while it ran"


async def test_the_clock_goes_back_and_nothing_runs_again(scene: Scene) -> None:
    await scene.add()
    ticker = scene.ticker()
    for hour in (1, 2, 3, 1.5, 2, 2.5, 3, 3.2, 4, 0, 4.1, 5):
        scene.clock.at = T0 + hour * HOUR
        await ticker.drain()
    assert scene.stub.instants == [1, 2, 3, 4, 5]
    assert (await scene.job()).completed == 5


async def test_a_clock_far_ahead_does_not_stop_a_job_for_years(scene: Scene) -> None:
    await scene.add()
    ticker = scene.ticker()
    for hour in (1, 90_000, 1.2, 2, 3):
        scene.clock.at = T0 + hour * HOUR
        await ticker.drain()
    assert scene.stub.instants == [1, 90_000, 3], "2 stands in the history as missed"


async def test_what_another_process_took_over_is_not_reported_twice(scene: Scene) -> None:
    await scene.add()
    scene.clock.at = T0 + HOUR
    scene.stub.gate.clear()
    ticker = scene.ticker()
    await ticker.tick()
    await until(lambda: scene.stub.at_once)
    (run,) = await scene.store.take_over("thief", T0, T0 + 9 * HOUR, dead=(ticker.owner,))
    scene.stub.gate.set()
    await ticker.crew.wait()
    assert (await scene.job()).last_status == ""
    await scene.store.report_run(replace(run, state="ok"))
    with pytest.raises(LeaseLost):
        await scene.store.report_run(replace(run, fence=run.fence - 1))


async def test_a_run_that_breaks_down_is_over_and_told(scene: Scene) -> None:
    await scene.add()
    scene.clock.at = T0 + HOUR

    async def broken(_job: Job, _run: Run) -> Run:
        raise ZeroDivisionError("no")

    scene.stub.run = broken
    await scene.ticker().drain()
    assert await scene.states() == {1: "failed"}
    assert (await scene.job()).last_error == "ZeroDivisionError: no"


async def test_a_store_that_is_away_for_a_while_hears_of_the_end_later(scene: Scene) -> None:
    await scene.add()
    scene.clock.at = T0 + HOUR
    ticker = scene.ticker()
    tries = 0

    class Shaky:
        def __getattr__(self, name: str):
            return getattr(scene.store, name)

        async def report_run(self, run: Run) -> None:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise StoreError("the server is away")
            await scene.store.report_run(run)

    ticker.crew._claims = Shaky()
    await ticker.drain()
    assert await scene.states() == {1: "ok"}
    assert tries == 3


async def test_it_goes_on_until_it_is_told_to_stop(scene: Scene) -> None:
    await scene.add()
    stop = asyncio.Event()
    ticker = scene.ticker()
    presence = Presence(scene.folder / "cron", "gateway")
    forever = asyncio.ensure_future(ticker.run_forever(stop, presence))
    scene.clock.at = T0 + HOUR
    ticker.wake()
    async with asyncio.timeout(10):
        while (await scene.job()).last_status != "ok":
            await asyncio.sleep(0.005)
    chat = Presence(scene.folder / "cron", "chat")
    seen = chat.seen()
    assert seen is not None and seen.present(scene.clock.at)
    assert chat.stands_back("me", scene.clock.at)
    scene.stub.gate.clear()
    scene.clock.at = T0 + 2 * HOUR
    ticker.wake()
    await until(lambda: len(scene.stub.ran) == 2)
    stop.set()
    await forever
    assert not chat.stands_back("me", scene.clock.at)
    scene.stub.gate.set()
    await scene.ticker().drain()
    assert scene.stub.ran[-1] == ("j", T0 + 2 * HOUR, 2), "who comes next goes on with it"


async def test_a_broken_file_stops_nobody_for_good(
    tmp_path: Path, store: SessionStore, clock: HandClock
) -> None:
    scene = Scene(tmp_path, store, clock, shared=False)
    await scene.add()
    file = tmp_path / "cron" / "jobs.json"
    good = file.read_text()
    file.write_text("{")
    stop = asyncio.Event()
    clock.at = T0 + HOUR
    forever = asyncio.ensure_future(scene.ticker().run_forever(stop))
    await asyncio.sleep(0.02)
    assert scene.stub.ran == []
    file.write_text(good)
    await until(lambda: scene.stub.ran)
    stop.set()
    await forever


async def test_old_runs_are_forgotten(scene: Scene) -> None:
    await scene.add()
    for hour in range(150):
        run = Run("j", T0 - (hour + 1000) * HOUR, "ok", ended_at=T0 - (hour + 1000) * HOUR)
        await scene.store.note_run(run)
    await scene.ticker(keep=HOUR, policy=Policy()).tick()
    assert len(await scene.store.runs("j", 500)) == 100


def test_owners_are_known_as_alive_or_dead() -> None:
    owner = new_owner()
    assert is_dead(owner) is False
    retire(owner)
    assert is_dead(owner) is True
    assert is_dead(f"{this_machine()}:1:0") is True, "another process has that number"
    assert is_dead("elsewhere:1:0") is None
    assert is_dead("nonsense") is None
