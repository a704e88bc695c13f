"""A clock that is set by hand, a store of runs, and jobs that only note that they ran."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from hermes.cron.book import SharedBook
from hermes.cron.crew import TickerOptions
from hermes.cron.job import Job
from hermes.cron.jobs_file import JobsFile
from hermes.cron.owner import retire
from hermes.cron.schedule import next_after, parse_schedule
from hermes.cron.ticker import Ticker
from hermes.store.claims import Run
from hermes.store.opening import open_store
from hermes.store.port import SessionStore

T0 = 1_800_000_000.0
"""On the hour."""
HOUR = 3600.0
ZONE = ZoneInfo("UTC")


class HandClock:
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
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    opened = open_store("", tmp_path / "state.db")
    yield opened
    opened.close()


class Stub:
    """A `Runner` that notes what it is asked for; `gate` holds runs until it is set."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self.ran: list[tuple[str, float, int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.ends = "ok"
        self.lost_ones: list[float] = []
        self.at_once = self.most = 0

    async def run(self, job: Job, run: Run) -> Run:
        run = replace(run, state="running", started_at=run.started_at or T0)
        await self._store.report_run(run)
        self.ran.append((job.id, run.instant, run.attempt))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self.gate.wait()
        finally:
            self.at_once -= 1
        return replace(run, state=self.ends, ended_at=T0, error="no" * (self.ends == "failed"))

    async def lost(self, job: Job, run: Run) -> Run:
        self.lost_ones.append(run.instant)
        return replace(run, state="lost", ended_at=T0)

    @property
    def instants(self) -> list[float]:
        return [(instant - T0) / HOUR for _, instant, _ in self.ran]


class Scene:
    def __init__(self, folder: Path, store: SessionStore, clock: HandClock, *, shared: bool):
        self.folder, self.store, self.clock = folder, store, clock
        self.book = SharedBook(store, ZONE) if shared else JobsFile(folder / "cron", ZONE)
        self.stub = Stub(store)
        self.tickers: list[Ticker] = []

    def ticker(self, **options: Any) -> Ticker:
        made = Ticker(
            self.book,
            self.store,
            self.stub,
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
        await self.book.add(job)
        return job

    async def job(self) -> Job:
        return (await self.book.all())[0]

    async def states(self) -> dict[float, str]:
        runs = await self.store.runs()
        return {(run.instant - T0) / HOUR: run.state for run in reversed(runs)}


@pytest.fixture(params=["file", "store"])
def scene(
    request: pytest.FixtureRequest, tmp_path: Path, store: SessionStore, clock: HandClock
) -> Iterator[Scene]:
    made = Scene(tmp_path, store, clock, shared=request.param == "store")
    yield made
    for ticker in made.tickers:
        retire(ticker.owner)
