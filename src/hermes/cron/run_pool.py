"""Runs in progress: their tasks, their leases, and the lease owners of this process.

A lease names its owner. Runs whose owner is dead, or has not renewed the lease, are taken over by
another process.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from hermes.config.settings import CronSettings
from hermes.core.errors import HermesError, LeaseLost, StoreError
from hermes.core.ports import Clock
from hermes.cron.due import DuePolicy
from hermes.cron.job import Job
from hermes.cron.job_store import JobStore, try_lock
from hermes.store import Run, RunClaims
from hermes.util.processes import is_process_gone, process_name

log = logging.getLogger(__name__)

RunCallback = Callable[[Job, Run], None]

REPORT_RETRY_SECONDS = (1.0, 5.0, 30.0, 60.0)
"""Pauses between attempts to store the end of a run; the last one repeats."""
HISTORY_LIMIT = 1500  #: Runs of a job that are read: one day of a job that fires each minute.


class Runner(Protocol):
    """Executes claimed runs. Both methods raise `LeaseLost` if another process owns the run."""

    async def run(self, job: Job, run: Run) -> Run:
        """Execute the run and return it as it ended."""
        ...

    async def abandon(self, job: Job, run: Run) -> Run:
        """End a run that has failed too often to be tried again."""
        ...


class TickerOptions(msgspec.Struct, frozen=True):
    policy: DuePolicy = DuePolicy()
    interval: float = 60.0  #: Maximum seconds between two ticks.
    max_parallel: int = 4
    lease_seconds: float = 120.0
    """A run may be taken over when its owner has not renewed the lease for this long."""
    max_attempts: int = 3  #: How often a run is started whose process dies.
    keep_seconds: float = 90 * 86_400.0  #: Age at which finished runs are deleted from the history.

    @classmethod
    def from_settings(cls, settings: CronSettings) -> "TickerOptions":
        grace = max(120.0, 2.0 * settings.tick_seconds)
        return cls(
            DuePolicy(settings.catch_up, grace, settings.jitter_seconds),
            interval=settings.tick_seconds,
            max_parallel=settings.max_parallel,
            keep_seconds=settings.keep_runs_days * 86_400.0,
        )


class RunPool:
    """The runs in progress in this process, and the renewal of their leases.

    `on_free` is called when a run has ended and the next one may start.
    """

    def __init__(
        self,
        jobs: JobStore,
        claims: RunClaims,
        runner: Runner,
        clock: Clock,
        folder: Path,
        options: TickerOptions,
        on_run: RunCallback,
        on_free: Callable[[], None],
    ) -> None:
        self._jobs, self._claims, self._runner = jobs, claims, runner
        self._clock, self._folder, self._options = clock, folder, options
        self._on_run, self._on_free = on_run, on_free
        self.owner = new_owner()
        self._slots = asyncio.Semaphore(options.max_parallel)
        self.active: dict[asyncio.Task[None], Run | None] = {}
        """The run of each task; None once its end is stored."""
        self._renewal: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        return self._slots.locked()

    def is_running(self, job_id: str) -> bool:
        return any(run is not None and run.job_id == job_id for run in self.active.values())

    async def wait(self) -> None:
        """Wait until the runs that are in progress now have ended."""
        if self.active:
            await asyncio.wait(tuple(self.active))

    async def close(self) -> None:
        """Cancel the runs and give up their leases, so that another process can continue them."""
        tasks = [*self.active, *([self._renewal] if self._renewal else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        retire_owner(self.owner)
        with suppress(HermesError):  # the leases expire by themselves
            await self._claims.renew(self.owner, 0.0)

    def lock_workdir(self, stack: ExitStack) -> bool:
        """Enter the lock that lets one job with a working folder run at a time per machine."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = try_lock(self._folder / ".workdir.lock")
        if lock is not None:
            stack.enter_context(lock)
        return lock is not None

    def start(self, job: Job, run: Run, locks: ExitStack) -> None:
        """Execute a claimed run in a task that closes `locks` at its end."""
        task = asyncio.ensure_future(self._work(job, run, locks))
        self.active[task] = run
        task.add_done_callback(self._on_done)
        if self._renewal is None:
            self._renewal = asyncio.ensure_future(self._renew_leases())

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self.active.pop(task, None)
        self._on_free()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a scheduled run failed: %s", error, exc_info=error)

    async def _work(self, job: Job, run: Run, locks: ExitStack) -> None:
        task = asyncio.current_task()
        with locks:
            # A run that was taken over comes without the lock of its working folder.
            while job.workdir and run.attempt > 1 and not self.lock_workdir(locks):
                await self._clock.sleep(1.0)
            async with self._slots:
                self._on_run(job, run)
                try:
                    ended = await self._execute(job, run)
                    await self._report(ended)
                except LeaseLost:
                    log.warning("another process has taken over a run of %s", job.name)
                    return
        if task is not None:
            self.active[task] = None  # the next run of the job may start
        words = {"ok": "ok", "silent": "ok", "undelivered": "undelivered"}
        status, error_text = words.get(ended.state, "error"), ended.error
        if ended.state == "undelivered":
            error_text = error_text or ended.delivered
        at = ended.started_at or ended.ended_at
        try:
            await self._jobs.update(
                job.id,
                lambda current: replace(
                    current, last_run_at=at, last_status=status, last_error=error_text
                ),
            )
        except HermesError as error:  # the history has the outcome, so the run is over
            log.error("the result of %s was not saved in its record: %s", job.name, error)
        self._on_run(job, ended)

    async def _execute(self, job: Job, run: Run) -> Run:
        try:
            if run.state == "running" and run.attempt > self._options.max_attempts:
                return await self._runner.abandon(job, run)
            return await self._runner.run(job, run)
        except LeaseLost:
            raise
        except Exception as error:  # otherwise the run would stay open for ever
            log.exception("a run of %s failed unexpectedly", job.name)
            message = f"{type(error).__name__}: {error}"
            return replace(run, state="failed", error=message, ended_at=self._now())

    async def _report(self, run: Run) -> None:
        """Store the end of a run, retrying for as long as the store is unavailable.

        Giving up would leave the run open: no process takes over a run whose owner is alive.
        """
        for pause in chain(REPORT_RETRY_SECONDS, repeat(REPORT_RETRY_SECONDS[-1])):
            try:
                await self._claims.report(run)
                return
            except LeaseLost:
                raise
            except StoreError as error:
                log.warning("the end of a run could not be stored: %s", error)
                await self._clock.sleep(pause)

    async def _renew_leases(self) -> None:
        while True:
            await self._clock.sleep(self._options.lease_seconds / 3)
            held = {task: run for task, run in self.active.items() if run is not None}
            if not held:
                continue
            lease_until = self._now() + self._options.lease_seconds
            try:
                renewed = await self._claims.renew(self.owner, lease_until)
                lost = await self._find_lost(held) if renewed < len(held) else []
            except HermesError as error:
                log.warning("the leases of running jobs were not renewed: %s", error)
                continue
            for task in lost:
                task.cancel()

    async def _find_lost(self, held: dict[asyncio.Task[None], Run]) -> list[asyncio.Task[None]]:
        """Return the tasks whose run belongs to another machine by now.

        The number of renewed leases does not show that: runs may have ended or started since.
        """
        lost = []
        for task, run in held.items():
            runs = await self._claims.history(run.job_id, HISTORY_LIMIT)
            newest = {each.instant: each for each in runs}.get(run.instant, run)
            if (newest.owner, newest.fence) != (run.owner, run.fence):
                lost.append(task)
        return lost

    def _now(self) -> float:
        return self._clock.now().timestamp()


_live_owners: set[str] = set()  #: Lease owners of this process that have not been retired.


def new_owner() -> str:
    """Return a new lease owner `machine:pid:start/suffix`, alive until retired or process end."""
    owner = f"{process_name()}/{secrets.token_hex(2)}"
    _live_owners.add(owner)
    return owner


def retire_owner(owner: str) -> None:
    """Mark an owner of this process as dead, so that its runs can be taken over."""
    _live_owners.discard(owner)


def is_owner_dead(owner: str) -> bool | None:
    """Return whether the owner was retired or its process has ended; None if that is unknown."""
    process = owner.partition("/")[0]
    return owner not in _live_owners if process == process_name() else is_process_gone(process)
