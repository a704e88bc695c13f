"""A manual clock, a store, and a runner that only records its calls."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from hermes.cron.job import Job
from hermes.cron.job_store import FileJobStore, SharedJobStore
from hermes.cron.run_pool import TickerOptions, retire_owner
from hermes.cron.schedule import next_after, parse_schedule
from hermes.cron.ticker import Ticker
from hermes.store.records import Run
from hermes.store.session_store import SessionStore, open_store

T0 = 1_800_000_000.0
"""On the hour."""
HOUR = 3600.0
ZONE = ZoneInfo("UTC")


class ManualClock:
    def __init__(self, at: float = T0) -> None:
        self.at = at
        self.passed = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    opened = open_store("", tmp_path / "state.db")
    yield opened
    opened.close()


class StubRunner:
    """A `Runner` that notes what it is asked for; `gate` holds runs until it is set."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self.ran: list[tuple[str, float, int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.ends = "ok"
        self.abandoned: list[float] = []
        self.at_once = self.most = 0

    async def run(self, job: Job, run: Run) -> Run:
        run = replace(run, state="running", started_at=run.started_at or T0)
        await self._store.runs.report(run)
        self.ran.append((job.id, run.instant, run.attempt))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self.gate.wait()
        finally:
            self.at_once -= 1
        return replace(run, state=self.ends, ended_at=T0, error="no" * (self.ends == "failed"))

    async def abandon(self, job: Job, run: Run) -> Run:
        self.abandoned.append(run.instant)
        return replace(run, state="lost", ended_at=T0)

    @property
    def instants(self) -> list[float]:
        return [(instant - T0) / HOUR for _, instant, _ in self.ran]


class Harness:
    def __init__(self, folder: Path, store: SessionStore, clock: ManualClock, *, shared: bool):
        self.folder, self.store, self.clock = folder, store, clock
        self.jobs = (
            SharedJobStore(store.runs, ZONE) if shared else FileJobStore(folder / "cron", ZONE)
        )
        self.runner = StubRunner(store)
        self.tickers: list[Ticker] = []

    def ticker(self, **options: Any) -> Ticker:
        made = Ticker(
            self.jobs,
            self.store.runs,
            self.runner,
            self.clock,
            ZONE,
            self.folder / "cron",
            TickerOptions(**options),
        )
        self.tickers.append(made)
        return made

    async def add(self, job_id: str = "j", text: str = "every 1h", **fields: Any) -> Job:
        schedule = parse_schedule(text, self.clock.at, ZONE)
        following = next_after(schedule, self.clock.at, ZONE)
        job = Job(
            id=job_id,
            name=job_id,
            prompt="p",
            schedule=schedule,
            next_run_at=following,
            created_at=self.clock.at,
            **fields,
        )
        await self.jobs.add(job)
        return job

    async def job(self) -> Job:
        return (await self.jobs.all())[0]

    async def states(self) -> dict[float, str]:
        runs = await self.store.runs.history()
        return {(run.instant - T0) / HOUR: run.state for run in reversed(runs)}


@pytest.fixture(params=["file", "store"])
def harness(
    request: pytest.FixtureRequest, tmp_path: Path, store: SessionStore, clock: ManualClock
) -> Iterator[Harness]:
    made = Harness(tmp_path, store, clock, shared=request.param == "store")
    yield made
    for ticker in made.tickers:
        retire_owner(ticker.owner)
