"""The ticker: find due jobs, claim each instant once, and start the claimed runs.

A tick takes over the runs of dead processes, decides which instants are due (see `due.py`), and
claims and starts them in a `RunPool`, without waiting for them. Any number of processes may tick
the same jobs, because an instant can be claimed only once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from hermes.core.errors import HermesError
from hermes.core.ports import Clock, Outbox
from hermes.cron.due import RunHistory, decide, missed_entries, needs_decision, next_wakeup
from hermes.cron.job import Job
from hermes.cron.job_store import JobStore, open_job_store
from hermes.cron.run_pool import (
    HISTORY_LIMIT,
    RunCallback,
    Runner,
    RunPool,
    TickerOptions,
    is_owner_dead,
)
from hermes.cron.runner import NOT_SENT, QUEUED, JobRunner
from hermes.cron.schedule import resolve_timezone
from hermes.store import ENDED_STATES, GatewayBeat, Run, RunClaims
from hermes.util import files

if TYPE_CHECKING:
    from hermes.app import App

log = logging.getLogger(__name__)

DELIVERY_SECONDS = 86_400.0  #: Seconds after a run in which its delivery is followed.
POLL_SECONDS = 2.0  #: How often a sleeping ticker checks whether another process changed the jobs.
CLEAN_SECONDS = 6 * 3600.0
TickerRole = Literal["gateway", "chat"]


class ChatDelivery(msgspec.Struct, frozen=True):
    """What a ticker knows about the chats that answers go to."""

    platforms: frozenset[str]  #: The platforms that are set up for this process.
    gateways: Callable[[], Awaitable[GatewayBeat]]
    """Returns the gateways that share the store."""
    confirm: Callable[[Job, Run], Awaitable[Run]]
    """Returns a finished run with what became of its messages."""


class Ticker:
    """Runs the due jobs of a store; create one per process.

    `folder` is `<home>/cron`, for lock files. `on_run` is called when a run starts and ends.
    Without `delivery`, all jobs are run here and their deliveries are not followed.
    """

    def __init__(
        self,
        jobs: JobStore,
        claims: RunClaims,
        runner: Runner,
        clock: Clock,
        zone: tzinfo,
        folder: Path,
        options: TickerOptions | None = None,
        on_run: RunCallback = lambda _job, _run: None,
        delivery: ChatDelivery | None = None,
    ) -> None:
        self._delivery = delivery
        self._other_jobs: frozenset[str] = frozenset()
        """Ids of jobs for chats that another gateway serves and this process does not."""
        self._dead_gateways: set[str] = set()  #: Process names.
        self._jobs, self._claims, self._clock, self._zone = jobs, claims, clock, zone
        self._options = options or TickerOptions()
        self._wake = asyncio.Event()
        self.pool = RunPool(
            jobs, claims, runner, clock, folder, self._options, on_run, on_free=self._wake.set
        )
        self.next_wakeup: float | None = None  #: When the next job is due, as of the last tick.
        self._has_blocked_runs = False
        """The last tick left a run unstarted that has to wait for a run of this process."""
        self._change_token: object = None
        self._last_times: tuple[float, float] | None = None
        """Wall clock and monotonic time of the last tick."""
        self._leases_trusted_from = 0.0
        self._cleaned_at: float | None = None

    @classmethod
    def for_app(
        cls,
        app: "App",
        clock: Clock,
        *,
        outbox: Outbox | None = None,
        on_run: RunCallback = lambda _job, _run: None,
        platforms: Iterable[str] = (),
    ) -> "Ticker":
        """Create the ticker for the jobs of the app's home. `platforms` are set up there."""
        zone, claims = resolve_timezone(app.loaded.settings.timezone), app.store.runs
        jobs = open_job_store(app.home, app.loaded, claims, zone)
        runner = JobRunner(app, clock, outbox)
        options = TickerOptions.from_settings(app.loaded.settings.cron)

        async def gateways() -> GatewayBeat:
            shared = app.store.is_shared
            return await app.store.chats.gateways() if shared else GatewayBeat(0.0)

        delivery = ChatDelivery(frozenset(platforms), gateways, runner.confirm)
        return cls(jobs, claims, runner, clock, zone, app.home.cron, options, on_run, delivery)

    @property
    def owner(self) -> str:
        return self.pool.owner

    @property
    def running(self) -> int:
        """Number of runs in progress."""
        return len(self.pool.active)

    def wake(self) -> None:
        """End the sleep of `run_forever`, because a job may be due earlier than expected."""
        self._wake.set()

    async def tick(self) -> None:
        """Start everything that is due now, as far as the pool has room."""
        now, policy = self._now(), self._options.policy
        self._has_blocked_runs = False
        if self._delivery is not None:
            await self._leave_to_others(self._delivery)
            await self._follow_deliveries(self._delivery, now)
        await self._take_over(now)
        for job in await self._jobs.all():
            if needs_decision(job, now, self._zone, policy):
                await self._decide(job.id, now)
        jobs = await self._jobs.all()
        for job in jobs:
            is_ours = job.id not in self._other_jobs
            if is_ours and (job.pending is not None or job.triggered_at is not None):
                await self._start(job.id)
        # Times in the past belong to jobs that wait for a run to end, which wakes the ticker.
        wakeups = (next_wakeup(job, self._zone, policy) for job in jobs)
        self.next_wakeup = min((at for at in wakeups if at is not None and at > now), default=None)
        passed = self._clock.monotonic()
        if self._cleaned_at is None or passed - self._cleaned_at > CLEAN_SECONDS:
            self._cleaned_at = passed
            await self._claims.clean(now - self._options.keep_seconds)

    async def drain(self) -> None:
        """Tick until nothing is due and no run is in progress."""
        while True:
            await self.tick()
            if not self.running and not self._has_blocked_runs:
                return
            await self.pool.wait()

    async def run_requested(self, job_id: str) -> None:
        """Run one job whose run was requested, and wait for its end."""
        await self._start(job_id)
        while self.running:
            await self.pool.wait()

    async def run_forever(
        self, stop: asyncio.Event, heartbeat: "HeartbeatFile | None" = None
    ) -> None:
        """Tick at least every `interval` seconds and whenever a job is due, until `stop` is set.

        Runs that are still in progress then are left to the next process that ticks.
        """
        try:
            while not stop.is_set():
                self._change_token = self._jobs.change_token()
                try:
                    if heartbeat is not None and heartbeat.defers(self.owner, self._now()):
                        self.next_wakeup = None
                    else:
                        if heartbeat is not None:
                            heartbeat.write(self.owner, self._now(), self._options.interval)
                        await self.tick()
                except (HermesError, OSError) as error:
                    log.error("the tick for scheduled jobs failed: %s", error)
                    self.next_wakeup = None
                await self._sleep(stop)
        finally:
            await self.close()

    async def close(self) -> None:
        """Cancel the runs of this process; the next process that ticks continues them."""
        await self.pool.close()

    def _now(self) -> float:
        return self._clock.now().timestamp()

    async def _sleep(self, stop: asyncio.Event) -> None:
        """Sleep until a job is due, the jobs change, `wake` is called or `stop` is set."""
        seconds = self._options.interval
        if self.next_wakeup is not None:
            seconds = min(seconds, max(0.5, self.next_wakeup - self._now()))
        events = [asyncio.ensure_future(event.wait()) for event in (stop, self._wake)]
        try:
            while seconds > 0 and not any(event.done() for event in events):
                timer = asyncio.ensure_future(self._clock.sleep(min(POLL_SECONDS, seconds)))
                await asyncio.wait((*events, timer), return_when=asyncio.FIRST_COMPLETED)
                timer.cancel()
                seconds -= POLL_SECONDS
                # The machine may have been suspended, so the time is checked as well.
                is_due = self.next_wakeup is not None and self._now() >= self.next_wakeup
                if is_due or self._jobs.change_token() != self._change_token:
                    break
        finally:
            for event in events:
                event.cancel()
        self._wake.clear()

    async def _leave_to_others(self, delivery: ChatDelivery) -> None:
        """Find the jobs that another gateway runs, because it serves more of their chats, and the
        gateways that are dead."""
        found = await delivery.gateways()
        alive = [each for each in found.gateways if found.is_alive(each)]
        self._dead_gateways = {each.owner for each in found.gateways} - {e.owner for e in alive}
        others = [frozenset(msgspec.json.decode(each.platforms)) for each in alive]

        def is_for_others(job: Job) -> bool:
            here = len(job.platforms & delivery.platforms)
            return any(len(job.platforms & each) > here for each in others)

        self._other_jobs = frozenset(job.id for job in await self._jobs.all() if is_for_others(job))

    async def _follow_deliveries(self, delivery: ChatDelivery, now: float) -> None:
        """Record what became of queued answers, and deliver again what only this process can."""
        jobs = {job.id: job for job in await self._jobs.all()}
        since, queued = now - DELIVERY_SECONDS, f"%{QUEUED}%"
        for run in await self._claims.unconfirmed(since, queued):
            job = jobs.get(run.job_id)
            if job is None:
                continue
            if run.state == "ok":
                found = await delivery.confirm(job, run)
                if found != run:
                    await self._claims.confirm(run, found.state, found.delivered)
            elif job.platforms <= delivery.platforms and NOT_SENT in run.delivered:
                if run.attempt >= self._options.max_attempts:
                    continue
                until = now + self._options.lease_seconds
                claimed = await self._claims.retry_delivery(run, self.owner, now, until)
                if claimed is not None:
                    self.pool.start(job, claimed, ExitStack())

    async def _take_over(self, now: float) -> None:
        """Continue the runs of dead processes, and of other machines whose lease has expired."""
        lease_until = now + self._options.lease_seconds
        dead: list[str] = []
        for owner in await self._claims.owners():
            is_dead = False if owner == self.owner else is_owner_dead(owner)
            if is_dead is None and owner.partition("/")[0] in self._dead_gateways:
                is_dead = True  # on another machine
            if is_dead:
                dead.append(owner)
            elif is_dead is False:  # alive, even if its lease has expired by this clock
                await self._claims.renew(owner, lease_until)
        expiry = now if self._trusts_leases(now) else -1.0  # before any lease
        runs = await self._claims.take_over(
            self.owner, expiry, lease_until, dead=tuple(dead), other_jobs=tuple(self._other_jobs)
        )
        for run in runs:
            job = next((each for each in await self._jobs.all() if each.id == run.job_id), None)
            if job is None:
                lost = replace(run, state="lost", error="the job was removed", ended_at=self._now())
                await self._claims.report(lost)
            else:
                log.warning("taking over the run of %s at %s", job.name, run.instant)
                self.pool.start(job, run, ExitStack())

    def _trusts_leases(self, now: float) -> bool:
        """False right after a clock jump or suspend: other machines had no time to renew."""
        monotonic = self._clock.monotonic()
        if self._last_times is not None:
            last_now, last_monotonic = self._last_times
            jump = (now - last_now) - (monotonic - last_monotonic)
            if jump > self._options.lease_seconds / 2:
                self._leases_trusted_from = monotonic + self._options.lease_seconds
        self._last_times = now, monotonic
        return monotonic >= self._leases_trusted_from

    async def _history(self, job_id: str) -> RunHistory:
        runs = await self._claims.history(job_id, HISTORY_LIMIT)
        is_running = self.pool.is_running(job_id) or any(
            run.state not in ENDED_STATES for run in runs
        )
        return RunHistory(is_running, frozenset(run.instant for run in runs))

    async def _decide(self, job_id: str, now: float) -> None:
        history = await self._history(job_id)
        not_run: tuple[Run, ...] = ()

        def change(job: Job) -> Job:
            nonlocal not_run
            decision = decide(job, now, self._zone, history, self._options.policy)
            not_run = decision.not_run
            return decision.job

        await self._jobs.update(job_id, change)
        await self._record(not_run)

    async def _record(self, runs: tuple[Run, ...]) -> None:
        now = self._now()
        for run in runs:
            await self._claims.record(replace(run, claimed_at=now, ended_at=now))

    async def _start(self, job_id: str) -> None:
        """Claim and start the pending or requested run, unless the job is already running."""
        had_runs = bool(self.running)
        if self.pool.is_full or (await self._history(job_id)).is_running:
            self._has_blocked_runs |= had_runs
            return
        # Read the job again: it may have been paused, changed or removed since.
        job = await self._jobs.update(job_id, lambda current: current)
        if job is None:
            return
        if job.pending is not None:
            await self._record(missed_entries(job.id, job.pending.since, job.pending.missed))
            await self._claim(job, job.pending.instant)
        elif job.triggered_at is not None:
            await self._claim(job, job.triggered_at)

    async def _claim(self, job: Job, instant: float) -> None:
        had_runs = bool(self.running)
        with ExitStack() as stack:
            if job.workdir and not self.pool.lock_workdir(stack):
                self._has_blocked_runs |= had_runs
                return
            now = self._now()
            lease_until = now + self._options.lease_seconds
            run = await self._claims.claim(job.id, instant, self.owner, now, lease_until)
            if run is not None:
                self.pool.start(job, run, stack.pop_all())

        def clear(current: Job) -> Job:
            """Remove the pending or requested run, if it is still there."""
            if current.pending is not None and current.pending.instant == instant:
                return replace(current, pending=None)
            is_requested = current.triggered_at == instant
            return replace(current, triggered_at=None) if is_requested else current

        await self._jobs.update(job.id, clear)


class Heartbeat(msgspec.Struct, frozen=True):
    """The last tick of the process that runs the jobs of a home."""

    owner: str
    role: TickerRole
    at: float
    every: float  #: Maximum seconds between its ticks.

    def is_alive(self, now: float) -> bool:
        """True if the process still ticks; on other machines, if it did in the last 3 intervals."""
        dead = is_owner_dead(self.owner)
        return not dead if dead is not None else abs(now - self.at) < 3 * self.every


class HeartbeatFile:
    """`ticker.json`, where the ticking process announces itself."""

    def __init__(self, folder: Path, role: TickerRole) -> None:
        self._path, self._role = folder / "ticker.json", role

    def read(self) -> Heartbeat | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Heartbeat)
        except (OSError, msgspec.DecodeError):
            return None

    def defers(self, owner: str, now: float) -> bool:
        """True for a chat while a gateway ticks: a chat may be closed at any moment."""
        other = self.read()
        if self._role == "gateway" or other is None or other.owner == owner:
            return False
        return other.role == "gateway" and other.is_alive(now)

    def write(self, owner: str, now: float, interval: float) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        heartbeat = Heartbeat(owner, self._role, now, interval)
        files.write_bytes(self._path, msgspec.json.encode(heartbeat), mode=0o600)
