"""Runs that are under way in this process: as many as there is room for, and their leases."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack, suppress
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
"""Seconds between attempts to report the end of a run."""


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
        self.active: dict[asyncio.Task[None], str] = {}
        """The job of each run; "" when its end is known to everybody."""
        self._beat: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        return self._slots.locked()

    def busy(self, job_id: str) -> bool:
        return job_id in self.active.values()

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
        self.active[task] = job.id
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
            self.active[task] = ""  # the next run of the job may begin
        await self._book.change(job.id, lambda it: _told(it, ended))
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
        """The store may be away for a while; meanwhile the run is ours."""
        for pause in PAUSES:
            try:
                return await self._claims.report_run(run)
            except LeaseLost:
                raise
            except StoreError as error:
                log.warning("the end of a run cannot be reported: %s", error)
                await self._clock.sleep(pause)
        return await self._claims.report_run(run)

    async def _keep_leases(self) -> None:
        while True:
            await self._clock.sleep(self._options.lease / 3)
            if not self.active:
                continue
            try:
                kept = await self._claims.renew_runs(self.owner, self._now() + self._options.lease)
            except HermesError as error:
                log.warning("the leases of running jobs were not renewed: %s", error)
                continue
            if not kept:  # another machine has them, but for those whose end is known
                for task in [task for task, job in self.active.items() if job]:
                    task.cancel()


def _told(job: Job, run: Run) -> Job:
    """With what became of its last run."""
    status = "ok" if run.state in ("ok", "silent") else "error"
    at = run.started_at or run.ended_at
    return replace(job, last_run_at=at, last_status=status, last_error=run.error)
