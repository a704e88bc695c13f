"""Kill the processes that run scheduled jobs at random instants while the clock jumps.

    python -m bench.cron_storm [--steps 2000] [--seed 7] [--url postgresql://…]

Several processes run the same jobs. The clock also jumps over changes of daylight saving time.
After each step of the clock every job must have run once for the window that passed, at its last
instant, no matter which processes were killed. At the end no instant may have run twice.
"""

import argparse
import asyncio
import json
import logging
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from hermes.core.errors import LeaseLost
from hermes.cron import (
    FileJobStore,
    Job,
    JobStore,
    SharedJobStore,
    Ticker,
    TickerOptions,
    last_until,
    next_after,
    parse_schedule,
)
from hermes.store.records import ENDED_STATES, Run
from hermes.store.session_store import SessionStore, open_store

ROOT = Path(__file__).resolve().parents[1]
ZONE = ZoneInfo("Europe/Berlin")
START = datetime(2026, 3, 28, 20, 0, tzinfo=ZONE).timestamp()
"""The evening before the clocks go forward."""
AUTUMN = datetime(2026, 10, 24, 20, 0, tzinfo=ZONE).timestamp()
SCHEDULES = {
    "hourly": "every 1h",
    "seven": "every 7m",
    "quarter": "*/15 * * * *",
    "night": "30 2 * * *",
    "even": "0 */2 * * *",
    "twice": "0 2,3 * * *",
    "thrice": "every 1h",
    "once": "45m",
}
WORKERS = 2
PATIENCE = 60.0
"""Seconds after which a job that is due counts as lost."""


class FileClock:
    """A clock whose time is stored in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def set(self, instant: float) -> None:
        new = self._file.with_suffix(".new")
        new.write_bytes(struct.pack("d", instant))
        new.replace(self._file)

    def now(self) -> datetime:
        (instant,) = struct.unpack("d", self._file.read_bytes())
        return datetime.fromtimestamp(instant, UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


class LineRunner:
    """A `Runner` that appends one line per run to a file. As with the session of an agent, a later
    attempt sees the line and does not repeat it."""

    def __init__(self, folder: Path, store: SessionStore, seed: int) -> None:
        self._log, self._failures, self._store = folder / "fired", folder / "failures", store
        self._chance = random.Random(seed)

    async def run(self, job: Job, run: Run) -> Run:
        try:
            return await self._run(job, run)
        except LeaseLost:
            append(self._failures, f"{job.id} {run.instant} {run.owner}")
            raise

    async def _run(self, job: Job, run: Run) -> Run:
        await self._pause()
        run = replace(run, state="running", started_at=run.started_at or run.instant)
        await self._store.runs.report(run)
        await self._pause()
        line = f"{job.id} {run.instant:.3f}"
        if run.attempt == 1 or line not in lines(self._log):
            append(self._log, line)
        await self._pause()
        await self._store.runs.report(run)
        return replace(run, state="ok", ended_at=run.instant)

    async def abandon(self, job: Job, run: Run) -> Run:
        append(self._failures, f"{job.id} {run.instant} lost")
        return replace(run, state="lost", ended_at=run.instant)

    async def _pause(self) -> None:
        await asyncio.sleep(self._chance.choice((0.0, 0.0, 0.002, 0.006)))


def append(file: Path, line: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def open_jobs(folder: Path, url: str, store: SessionStore) -> JobStore:
    return SharedJobStore(store.runs, ZONE) if url else FileJobStore(folder / "cron", ZONE)


async def worker(folder: Path, url: str, seed: int) -> None:
    """Run ticks until the process is killed."""
    store = open_store(url, folder / "state.db")
    clock = FileClock(folder / "clock")
    ticker = Ticker(
        open_jobs(folder, url, store),
        store.runs,
        LineRunner(folder, store, seed),
        clock,
        ZONE,
        folder / "cron",
        TickerOptions(max_attempts=1000, keep_seconds=1e12),
    )
    seen = folder / f"seen-{os.getpid()}"
    while True:
        now = clock.now().timestamp()
        await ticker.tick()
        seen.write_text(repr(now))
        await asyncio.sleep(0.003)


def serve_forks() -> None:
    """Fork and kill workers as lines on stdin order it; a forked worker starts in milliseconds."""
    logging.disable(logging.WARNING)
    for line in sys.stdin:
        order = json.loads(line)
        if "kill" in order:
            os.kill(order["kill"], signal.SIGKILL)
            os.waitpid(order["kill"], 0)
            answer = 0
        elif (answer := os.fork()) == 0:
            try:
                asyncio.run(worker(Path(order["folder"]), order["url"], order["seed"]))
            except BaseException:  # noqa: BLE001 - the child must not run the parent's code
                append(Path(order["folder"]) / "failures", traceback.format_exc())
                os._exit(1)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


class WorkerPool:
    """The workers of a storm."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path, url: str, seed: int) -> None:
        self._process, self._folder, self._url = process, folder, url
        self._seed = seed
        self.pids: list[int] = []
        self.kills = 0

    def start(self) -> None:
        self._seed += 1
        order = {"folder": str(self._folder), "url": self._url, "seed": self._seed}
        self.pids.append(self._send(order))

    def kill(self, pid: int) -> None:
        self._send({"kill": pid})
        self.pids.remove(pid)
        self.kills += 1

    def _send(self, order: dict[str, object]) -> int:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the fork server has no pipes")
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def worker_pool(folder: Path, url: str, seed: int) -> Iterator[WorkerPool]:
    command = [sys.executable, "-m", "bench.cron_storm", "--fork-server"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        workers = WorkerPool(process, folder, url, seed)
        try:
            yield workers
        finally:
            for pid in list(workers.pids):
                workers.kill(pid)
            process.kill()


class Storm:
    def __init__(self, folder: Path, url: str, seed: int, workers: WorkerPool) -> None:
        self._folder, self._chance, self._pool = folder, random.Random(seed), workers
        self._store = open_store(url, folder / "state.db")
        self._jobs = open_jobs(folder, url, self._store)
        self._clock = FileClock(folder / "clock")
        self.now = self.highest = START
        self._clock.set(self.now)
        self.expected: Counter[str] = Counter()

    async def begin(self) -> None:
        for name, text in SCHEDULES.items():
            schedule = parse_schedule(text, START, ZONE)
            limits = {"thrice": 3, "once": 1}
            job = Job(
                id=name,
                name=name,
                prompt="p",
                schedule=schedule,
                created_at=START,
                next_run_at=next_after(schedule, START, ZONE),
                times=limits.get(name),
            )
            await self._jobs.add(job)
        for _ in range(WORKERS):
            self._pool.start()

    async def step(self) -> None:
        """Advance the clock or let it jump, kill some workers, and check that each job ran once."""
        what, before = self._chance.random(), await self._fired()
        jobs = await self._jobs.all()
        if what < 0.10:
            await (self._jump_back() if what < 0.05 else self._jump_while_running())
            return
        if what < 0.20:
            await self._restart_all(self._chance.uniform(3600, 40 * 3600))
        elif what < 0.25:
            self._set(self.now + self._chance.uniform(3600, 90 * 3600))
        else:
            self._set(self.now + self._chance.choice((30, 300, 1200, 3600)) * self._chance.random())
        for _ in range(self._chance.choice((0, 0, 1, 2))):
            await asyncio.sleep(self._chance.uniform(0, 0.02))
            self._pool.kill(self._chance.choice(self._pool.pids))
            self._pool.start()
        await self._wait_until_settled()
        if self.now >= self.highest:  # not after a jump back
            self._check_window(jobs, before, await self._fired())
        self.highest = max(self.highest, self.now)

    async def _jump_back(self) -> None:
        """Set the clock back. The check at the end finds runs that were repeated."""
        self._set(self.now - self._chance.uniform(60, 6 * 3600))
        await self._wait_until_settled()

    async def _jump_while_running(self) -> None:
        """Let the clock jump while jobs run. The number of windows is random, so only failures of
        running jobs are checked."""
        for seconds in (3600, 30 * 3600, 3600):
            self._set(self.now + seconds * self._chance.random())
            await asyncio.sleep(self._chance.uniform(0, 0.02))
        await self._wait_until_settled()
        self.highest = max(self.highest, self.now)

    async def _restart_all(self, seconds: float) -> None:
        """Advance the clock while no worker runs."""
        for pid in list(self._pool.pids):
            self._pool.kill(pid)
        self._set(self.now + seconds)
        for _ in range(WORKERS):
            self._pool.start()

    async def autumn(self) -> None:
        """Advance to the evening before the clocks go back."""
        self._set(max(self.now, AUTUMN))
        await self._wait_until_settled()
        self.highest = max(self.highest, self.now)

    def _set(self, instant: float) -> None:
        self.now = round(instant, 3)
        self._clock.set(self.now)

    async def _wait_until_settled(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not await self._is_settled():
            if time.monotonic() > deadline:
                raise AssertionError(f"not done: {await self._jobs.all()}, {lines(self._failures)}")
            await asyncio.sleep(0.004)

    @property
    def _failures(self) -> Path:
        return self._folder / "failures"

    async def _is_settled(self) -> bool:
        for pid in self._pool.pids:  # each has run a tick since the clock was set
            if lines(self._folder / f"seen-{pid}") != [repr(self.now)]:
                return False
        for job in await self._jobs.all():
            waits = job.state == "scheduled" and (job.next_run_at or 0.0) <= self.now
            if waits or job.pending is not None:
                return False
        if any(run.state not in ENDED_STATES for run in await self._store.runs.history("", 100)):
            return False
        return not await self._store.runs.owners()

    async def _fired(self) -> Counter[str]:
        return Counter(lines(self._folder / "fired"))

    def _check_window(
        self, jobs: tuple[Job, ...], before: Counter[str], after: Counter[str]
    ) -> None:
        """Check that each job that was due ran once, at the last instant of the window."""
        new = after - before
        for job in jobs:
            due = job.next_run_at
            if job.state != "scheduled" or job.schedule is None or due is None or due > self.now:
                expected: list[str] = []
            else:
                last = last_until(job.schedule, self.now, due, ZONE)
                expected = [f"{job.id} {last:.3f}"]
            found = [line for line in new.elements() if line.split()[0] == job.id]
            if found != [each for each in expected if each not in before]:
                raise AssertionError(f"{job.id}: {found} instead of {expected}")

    async def check(self) -> dict[str, int]:
        """Check the whole history and return the number of runs and kills."""
        fired = await self._fired()
        twice = [line for line, count in fired.items() if count > 1]
        if twice or lines(self._failures):
            raise AssertionError(f"twice: {twice}; {lines(self._failures)}")
        jobs = {job.id: job for job in await self._jobs.all()}
        for line in fired:
            name, _, instant = line.partition(" ")
            schedule, at = jobs[name].schedule, float(instant)
            if schedule is None or next_after(schedule, at - 1, ZONE) != at:
                raise AssertionError(f"{line} is not an instant of {name}")
        ok = {
            f"{run.job_id} {run.instant:.3f}"
            for run in await self._store.runs.history("", 1_000_000)
            if run.state == "ok"
        }
        if ok != set(fired):
            raise AssertionError(f"the history differs: {ok ^ set(fired)}")
        counts = Counter(line.split()[0] for line in fired)
        if (counts["once"], counts["thrice"]) != (1, 3):
            raise AssertionError(f"limits were not kept: {counts}")
        return {"runs": len(fired), "kills": self._pool.kills}

    def close(self) -> None:
        self._store.close()


async def storm(folder: Path, url: str, steps: int, seed: int) -> dict[str, int]:
    """Run a storm; raise `AssertionError` if a check fails."""
    with worker_pool(folder, url, seed) as workers:
        it = Storm(folder, url, seed, workers)
        try:
            await it.begin()
            for number in range(steps):
                if number == steps // 2:
                    await it.autumn()
                await it.step()
            return await it.check()
        finally:
            it.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="scheduled jobs in a storm")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--url", default="", help="address of an empty PostgreSQL database")
    parser.add_argument("--fork-server", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fork_server:
        serve_forks()
        return
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(storm(Path(folder), args.url, args.steps, args.seed))
    print(f"{figures['runs']} runs, {figures['kills']} kills: each instant once")


if __name__ == "__main__":
    main()
