"""Runs that are under way in this process: as many as there is room for, and their leases."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from hermes.config.settings.agent import CronSettings
from hermes.core.errors import HermesError, LeaseLost, StoreError
from hermes.core.ports import Clock
from hermes.cron.book import JobBook
from hermes.cron.due import Policy
from hermes.cron.job import Job
from hermes.cron.jobs_file import held_lock
from hermes.cron.owner import new_owner, retire
from hermes.store.claims import Claims, Run

log = logging.getLogger(__name__)

PAUSES = (1.0, 5.0, 30.0, 60.0)
"""Seconds between attempts to report the end of a run; the last one again and again."""
REMEMBERED = 1500
"""Runs of a job that are looked at: a day of minutes, each skipped while one run goes on."""


class Runner(Protocol):
    async def run(self, job: Job, run: Run) -> Run:
        """The run as it ended; what happened before that is reported by the runner. Raises
        `LeaseLost` when the run belongs to another process by now."""
        ...

    async def lost(self, job: Job, run: Run) -> Run:
        """The same for a run that is not tried again."""
        ...


class TickerOptions(msgspec.Struct, frozen=True):
    policy: Policy = Policy()
    every: float = 60.0
    """Most seconds between two looks."""
    parallel: int = 4
    lease: float = 120.0
    """Seconds after which the runs of a machine that is not heard of are taken over."""
    attempts: int = 3
    """How often a run is begun whose process dies."""
    keep: float = 90 * 86_400.0
    """Seconds that past runs are remembered."""

    @classmethod
    def of(cls, settings: CronSettings) -> "TickerOptions":
        grace = max(120.0, 2.0 * settings.tick_seconds)
        return cls(
            Policy(settings.catch_up, grace, settings.jitter_seconds),
            every=settings.tick_seconds,
            parallel=settings.max_parallel,
            keep=settings.keep_runs_days * 86_400.0,
        )


OnRun = Callable[[Job, Run], None]


def unseen(_job: Job, _run: Run) -> None:
    """An `OnRun` for nobody."""


class Crew:
    """`folder` is that of locks (`<home>/cron`); `on_run` hears of each run that begins and of each
    that is over, `on_room` that there is room for another."""

    def __init__(
        self,
        book: JobBook,
        claims: Claims,
        runner: Runner,
        clock: Clock,
        folder: Path,
        options: TickerOptions,
        on_run: OnRun,
        on_room: Callable[[], None],
    ) -> None:
        self._book, self._claims, self._runner = book, claims, runner
        self._clock, self._folder, self._options = clock, folder, options
        self._on_run, self._on_room = on_run, on_room
        self.owner = new_owner()
        self._slots = asyncio.Semaphore(options.parallel)
        self.active: dict[asyncio.Task[None], Run | None] = {}
        """What each is about; None when its end is known to everybody."""
        self._beat: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        return self._slots.locked()

    def busy(self, job_id: str) -> bool:
        return any(run is not None and run.job_id == job_id for run in self.active.values())

    async def wait(self) -> None:
        """Until what runs now is over."""
        if self.active:
            await asyncio.wait(tuple(self.active))

    async def close(self) -> None:
        """End the runs. They are not over: they go on elsewhere, or later."""
        tasks = [*self.active, *([self._beat] if self._beat else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        retire(self.owner)
        with suppress(HermesError):  # else the lease has to run out
            await self._claims.renew_runs(self.owner, 0.0)

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def enter(self, stack: ExitStack) -> bool:
        """Jobs with a working folder run one at a time on a machine."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = held_lock(self._folder / ".workdir.lock")
        if held is not None:
            stack.enter_context(held)
        return held is not None

    def start(self, job: Job, run: Run, held: ExitStack) -> None:
        task = asyncio.ensure_future(self._work(job, run, held))
        self.active[task] = run
        task.add_done_callback(self._ended)
        if self._beat is None:
            self._beat = asyncio.ensure_future(self._keep_leases())

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.active.pop(task, None)
        self._on_room()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a scheduled job: %s", error, exc_info=error)

    async def _work(self, job: Job, run: Run, held: ExitStack) -> None:
        task = asyncio.current_task()
        with held:
            while job.workdir and run.attempt > 1 and not self.enter(held):
                await self._clock.sleep(1.0)
            async with self._slots:
                self._on_run(job, run)
                try:
                    ended = await self._outcome(job, run)
                    await self._report(ended)
                except LeaseLost:
                    log.warning("a run of %s was taken over by another process", job.name)
                    return
        if task is not None:
            self.active[task] = None  # the next run of the job may begin
        try:
            await self._book.change(job.id, lambda it: _told(it, ended))
        except HermesError as error:  # it is over all the same, and its history says how
            log.error("the end of %s is not in its record: %s", job.name, error)
        self._on_run(job, ended)

    async def _outcome(self, job: Job, run: Run) -> Run:
        begun = run.state == "running"
        try:
            if begun and run.attempt > self._options.attempts:
                return await self._runner.lost(job, run)
            return await self._runner.run(job, run)
        except LeaseLost:
            raise
        except Exception as error:  # a run whose end nobody reports never ends
            log.exception("a run of %s broke down", job.name)
            told = f"{type(error).__name__}: {error}"
            return replace(run, state="failed", error=told, ended_at=self._now())

    async def _report(self, run: Run) -> None:
        """The store may be away for a while; meanwhile the run is ours. Who gave up would leave a
        run that never ends: nobody takes it from a process that lives."""
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            try:
                await self._claims.report_run(run)
                return
            except LeaseLost:
                raise
            except StoreError as error:
                log.warning("the end of a run cannot be reported: %s", error)
                await self._clock.sleep(pause)

    async def _keep_leases(self) -> None:
        while True:
            await self._clock.sleep(self._options.lease / 3)
            held = {task: run for task, run in self.active.items() if run is not None}
            if not held:
                continue
            try:
                kept = await self._claims.renew_runs(self.owner, self._now() + self._options.lease)
                lost = await self._lost(held) if kept < len(held) else []
            except HermesError as error:
                log.warning("the leases of running jobs were not renewed: %s", error)
                continue
            for task in lost:
                task.cancel()

    async def _lost(self, held: dict[asyncio.Task[None], Run]) -> list[asyncio.Task[None]]:
        """Those that another machine has by now. That fewer leases were renewed than there were
        runs proves nothing: some may have ended meanwhile, and others begun."""
        lost = []
        for task, run in held.items():
            known = {each.instant: each for each in await self._claims.runs(run.job_id, REMEMBERED)}
            newest = known.get(run.instant, run)
            if (newest.owner, newest.fence) != (run.owner, run.fence):
                lost.append(task)
        return lost


def _told(job: Job, run: Run) -> Job:
    """With what became of its last run."""
    status = "ok" if run.state in ("ok", "silent") else "error"
    at = run.started_at or run.ended_at
    return replace(job, last_run_at=at, last_status=status, last_error=run.error)
