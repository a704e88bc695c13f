"""What happens between two steps of a look: runs end and begin, people pause and remove."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes.core.errors import StoreError
from hermes.cron.due import Policy
from hermes.cron.job import Job
from hermes.store.claims import Run
from hermes.store.port import SessionStore
from tests.unit.cron.conftest import HOUR, T0, HandClock, Scene, until


class Wrapped:
    """A `Claims` or `JobBook` in which something happens around a call."""

    def __init__(self, inner: Any, **happens: Any) -> None:
        self._inner, self._happens = inner, happens

    def __getattr__(self, name: str) -> Any:
        real, happens = getattr(self._inner, name), self._happens.get(name)
        return real if happens is None else partial(happens, real)


async def test_a_run_that_begins_while_leases_are_renewed_goes_on(scene: Scene) -> None:
    """Nothing was left to renew when the store looked; a run had begun before the answer came."""
    await scene.add("first")
    await scene.add("second", "every 2h")
    ticker = scene.ticker()
    renewed = asyncio.Event()

    async def renew(real: Any, owner: str, lease: float) -> int:
        for task in tuple(ticker.crew.active):
            scene.stub.gate.set()
            await task
        kept = await real(owner, lease)
        scene.stub.gate.clear()
        scene.clock.at = T0 + 2 * HOUR
        await ticker.tick()
        await until(lambda: scene.stub.at_once)
        renewed.set()
        return kept

    ticker.crew._claims = Wrapped(scene.store, renew_runs=renew)
    scene.stub.gate.clear()
    scene.clock.at = T0 + HOUR
    await ticker.tick()
    await asyncio.wait_for(renewed.wait(), 10)
    ticker.crew._claims = scene.store
    await asyncio.sleep(0)
    scene.stub.gate.set()
    await ticker.drain()
    assert set((await scene.states()).values()) == {"ok"}
    await ticker.close()


async def test_a_run_that_another_machine_has_is_ended_here_and_no_other(scene: Scene) -> None:
    await scene.add("mine")
    await scene.add("theirs")
    scene.stub.gate.clear()
    scene.clock.at = T0 + HOUR
    ticker = scene.ticker()
    await ticker.tick()
    await until(lambda: scene.stub.at_once == 2)
    await scene.store._engine.write_from_loop(
        lambda base: base.change(
            "UPDATE cron_runs SET owner = 'elsewhere:1:2', fence = fence + 1 WHERE job_id = ?",
            ("theirs",),
        ),
        is_small=True,
    )
    await until(lambda: scene.stub.at_once == 1)
    assert ticker.crew.busy("mine")
    scene.stub.gate.set()
    await ticker.crew.wait()
    assert [(each.state, each.owner) for each in await scene.store.runs("theirs")] == [
        ("running", "elsewhere:1:2")
    ]
    assert [each.state for each in await scene.store.runs("mine")] == ["ok"]
    await ticker.close()


async def test_draining_leaves_nothing_that_waited_for_room(scene: Scene) -> None:
    """The runs that took the room may be over before the look is."""
    for number in range(5):
        await scene.add(f"j{number}", workdir="/tmp" if number < 2 else "")
    scene.clock.at = T0 + HOUR
    ticker = scene.ticker(parallel=2)

    async def clean(real: Any, before: float) -> int:
        scene.stub.gate.set()
        await ticker.crew.wait()
        return await real(before)

    scene.stub.gate.clear()

    ticker._claims = Wrapped(scene.store, clean_runs=clean)
    await ticker.drain()
    assert len(scene.stub.ran) == 5


@pytest.mark.parametrize("what", ["paused", "removed"])
async def test_who_stops_a_job_at_the_last_moment_is_heard(scene: Scene, what: str) -> None:
    await scene.add()
    scene.clock.at = T0 + HOUR
    ticker = scene.ticker()

    async def everything(real: Any) -> tuple[Job, ...]:
        jobs = await real()
        if not jobs or jobs[0].pending is None:
            return jobs
        if what == "paused":  # it would begin next
            await scene.book.change("j", lambda it: replace(it, state="paused", pending=None))
        else:
            await scene.book.drop("j")
        return jobs

    ticker._book = Wrapped(scene.book, all=everything)
    await ticker.drain()
    assert scene.stub.ran == []
    assert await scene.store.runs() == ()


async def test_a_job_that_is_changed_before_it_begins_runs_as_it_is_now(scene: Scene) -> None:
    await scene.add()
    scene.clock.at = T0 + HOUR
    ticker = scene.ticker()
    seen: list[str] = []
    run = scene.stub.run

    async def noted(job: Job, run_: Run) -> Run:
        seen.append(job.prompt)
        return await run(job, run_)

    scene.stub.run = noted  # type: ignore[method-assign]  # it is a stub

    async def everything(real: Any) -> tuple[Job, ...]:
        jobs = await real()
        if jobs[0].pending is not None:  # it begins next
            await scene.book.change("j", lambda it: replace(it, prompt="new"))
        return jobs

    ticker._book = Wrapped(scene.book, all=everything)
    await ticker.drain()
    assert seen == ["new"]


async def test_what_runs_once_waits_for_a_run_that_was_asked_for(scene: Scene) -> None:
    await scene.add(text="1h", times=1)
    await scene.book.change("j", lambda it: replace(it, asked_at=T0 + 0.5))
    scene.stub.gate.clear()
    ticker = scene.ticker()
    scene.clock.at = T0 + 1
    await ticker.tick()
    await until(lambda: scene.stub.at_once)
    scene.clock.at = T0 + HOUR + 5
    await ticker.tick()
    assert (await scene.job()).state == "scheduled"
    assert ticker.wakes_at is None, "nobody looks again and again until that run is over"
    scene.stub.gate.set()
    await ticker.drain()
    assert [instant for _, instant, _ in scene.stub.ran] == [T0 + 0.5, T0 + HOUR]
    assert (await scene.job()).state == "completed"


async def test_a_store_that_is_away_for_long_hears_of_the_end_all_the_same(scene: Scene) -> None:
    await scene.add()
    scene.clock.at = T0 + HOUR
    ticker = scene.ticker()
    tries = 0

    async def report(real: Any, run: Run) -> None:
        nonlocal tries
        tries += 1
        if tries < 12:
            raise StoreError("the server is away")
        await real(run)

    ticker.crew._claims = Wrapped(scene.store, report_run=report)
    await ticker.drain()
    assert await scene.states() == {1: "ok"}


async def test_the_end_of_a_run_is_heard_of_when_the_jobs_cannot_be_written(scene: Scene) -> None:
    await scene.add()
    scene.clock.at = T0 + HOUR
    heard: list[str] = []
    ticker = scene.ticker()
    ticker.crew._on_run = lambda _job, run: heard.append(run.state)

    async def change(_real: Any, _job_id: str, _how: Any) -> None:
        raise StoreError("the disk is full")

    ticker.crew._book = Wrapped(scene.book, change=change)
    await ticker.drain()
    assert heard == ["claimed", "ok"]


async def test_a_look_that_fails_is_not_repeated_at_once(scene: Scene) -> None:
    await scene.add()
    ticker = scene.ticker(policy=Policy())
    await ticker.tick()
    assert ticker.wakes_at == T0 + HOUR
    stop = asyncio.Event()

    async def everything(_real: Any) -> tuple[Job, ...]:
        stop.set()
        raise StoreError("no")

    ticker._book = Wrapped(scene.book, all=everything)
    await ticker.run_forever(stop)
    assert ticker.wakes_at is None


async def test_a_job_that_another_process_makes_is_seen_soon(
    tmp_path: Path, store: SessionStore, clock: HandClock
) -> None:
    scene = Scene(tmp_path, store, clock, shared=False)
    ticker, stop, slept = scene.ticker(every=1e9), asyncio.Event(), 0

    class Counting(HandClock):
        async def sleep(self, seconds: float) -> None:
            nonlocal slept
            slept += 1
            assert seconds <= 2
            await asyncio.sleep(0.002)

    ticker._clock = Counting()
    forever = asyncio.ensure_future(ticker.run_forever(stop))
    await until(lambda: slept > 3)
    await scene.add(state="paused", asked_at=T0 + 0.5)  # as `hermes cron run` does
    await until(lambda: scene.stub.ran)
    stop.set()
    await forever
