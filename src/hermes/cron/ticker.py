"""Looks at what is due and has it run: each instant once, whoever else looks too.

In this order: what dead processes left is taken over; for each job that is due it is decided what
becomes of it (`due.py`); what was decided, or asked for by somebody, is claimed and begun. Runs are
tasks of their own: a look never waits for them.
"""

import asyncio
import logging
from contextlib import ExitStack
from datetime import tzinfo
from pathlib import Path

from msgspec.structs import replace

from hermes.core.errors import HermesError
from hermes.core.ports import Clock
from hermes.cron.book import Change, JobBook
from hermes.cron.crew import REMEMBERED, Crew, OnRun, Runner, TickerOptions, unseen
from hermes.cron.due import History, decide, missed_runs, needs_look, wakes_at
from hermes.cron.job import Job
from hermes.cron.owner import is_dead
from hermes.cron.presence import Presence
from hermes.store.claims import OVER, Claims, Run

log = logging.getLogger(__name__)

GLANCE = 2.0
"""Seconds after which a change of the jobs by another process is seen, at most."""
NEVER = -1.0
"""A moment at which no lease has run out."""


class Ticker:
    """One of a process. `folder` is that of locks (`<home>/cron`); `on_run` hears of each run that
    begins and of each that is over."""

    def __init__(
        self,
        book: JobBook,
        claims: Claims,
        runner: Runner,
        clock: Clock,
        zone: tzinfo,
        folder: Path,
        options: TickerOptions | None = None,
        on_run: OnRun = unseen,
    ) -> None:
        self._book, self._claims, self._clock, self._zone = book, claims, clock, zone
        self._options = options or TickerOptions()
        self._news = asyncio.Event()
        self.crew = Crew(book, claims, runner, clock, folder, self._options, on_run, self._news.set)
        self._times: tuple[float, float] | None = None
        self._trusted_from = 0.0
        self._cleaned_at: float | None = None
        self._seen: object = None
        """`JobBook.token` of the last look."""
        self._left = False
        """Whether the last look left something to do once a run of this process is over."""
        self.wakes_at: float | None = None
        """When the next job is due, as far as the last look knows."""

    @property
    def owner(self) -> str:
        return self.crew.owner

    @property
    def running(self) -> int:
        """How many runs are under way."""
        return len(self.crew.active)

    def wake(self) -> None:
        """Something may be due that the last look did not know."""
        self._news.set()

    async def tick(self) -> None:
        """One look. What is due has begun when this returns, as far as there is room."""
        now, options = self._now(), self._options
        self._left = False
        await self._take_over(now)
        for job in await self._book.all():
            if needs_look(job, now, self._zone, options.policy):
                await self._decide(job.id, now)
        jobs = await self._book.all()
        for job in jobs:
            if job.pending is not None or job.asked_at is not None:
                await self._begin(job.id)
        known = (wakes_at(job, self._zone, options.policy) for job in jobs)
        # What is due and waits for a run to end is looked at when that ends.
        self.wakes_at = min(
            (each for each in known if each is not None and each > now), default=None
        )
        await self._clean(now)

    async def drain(self) -> None:
        """Look, and look again, until nothing is due and every run is over."""
        while True:
            await self.tick()
            if not self.running and not self._left:
                return
            await self.crew.wait()

    async def run_forever(self, stop: asyncio.Event, presence: Presence | None = None) -> None:
        """Look every now and then, and when a job is due. Runs that are not over when `stop` is set
        are left to whoever looks next."""
        try:
            while not stop.is_set():
                self._seen = self._book.token()
                try:
                    await self._look(presence)
                except (HermesError, OSError) as error:
                    log.error("scheduled jobs: %s", error)
                    self.wakes_at = None
                await self._pause(stop)
        finally:
            await self.close()

    async def _look(self, presence: Presence | None) -> None:
        if presence is not None and presence.stands_back(self.owner, self._now()):
            self.wakes_at = None
            return
        if presence is not None:
            presence.announce(self.owner, self._now(), self._options.every)
        await self.tick()

    async def close(self) -> None:
        """End the runs of this process. They are not over: they go on elsewhere, or later."""
        await self.crew.close()

    def _now(self) -> float:
        return self._clock.now().timestamp()

    async def _pause(self, stop: asyncio.Event) -> None:
        """Until something is due, or somebody changed the jobs."""
        seconds = self._options.every
        if self.wakes_at is not None:
            seconds = min(seconds, max(0.5, self.wakes_at - self._now()))
        ends = [asyncio.ensure_future(each.wait()) for each in (stop, self._news)]
        try:
            while seconds > 0 and not any(each.done() for each in ends):
                slept = asyncio.ensure_future(self._clock.sleep(min(GLANCE, seconds)))
                await asyncio.wait((*ends, slept), return_when=asyncio.FIRST_COMPLETED)
                slept.cancel()
                seconds -= GLANCE
                due = self.wakes_at is not None and self._now() >= self.wakes_at  # it slept
                if due or self._book.token() != self._seen:
                    break
        finally:
            for each in ends:
                each.cancel()
        self._news.clear()

    async def _take_over(self, now: float) -> None:
        until = now + self._options.lease
        dead: list[str] = []
        for owner in await self._claims.run_owners():
            gone = False if owner == self.owner else is_dead(owner)
            if gone:
                dead.append(owner)
            elif gone is False:  # it lives, whatever the clock says of its lease
                await self._claims.renew_runs(owner, until)
        known = now if self._trusts_leases(now) else NEVER
        for run in await self._claims.take_over(self.owner, known, until, dead=tuple(dead)):
            await self._recover(run)

    def _trusts_leases(self, now: float) -> bool:
        """Not right after the clock jumped, or the machine slept: others had no time to renew."""
        passed = self._clock.monotonic()
        if self._times is not None:
            wall, monotonic = self._times
            if (now - wall) - (passed - monotonic) > self._options.lease / 2:
                self._trusted_from = passed + self._options.lease
        self._times = now, passed
        return passed >= self._trusted_from

    async def _recover(self, run: Run) -> None:
        job = next((each for each in await self._book.all() if each.id == run.job_id), None)
        if job is None:
            ended = replace(run, state="lost", error="the job is gone", ended_at=self._now())
            await self._claims.report_run(ended)
            return
        log.warning("the run of %s at %s is taken over", job.name, run.instant)
        self.crew.start(job, run, ExitStack())

    async def _history(self, job_id: str) -> History:
        runs = await self._claims.runs(job_id, REMEMBERED)
        busy = self.crew.busy(job_id) or any(run.state not in OVER for run in runs)
        return History(busy, frozenset(run.instant for run in runs))

    async def _decide(self, job_id: str, now: float) -> None:
        history = await self._history(job_id)
        notes: tuple[Run, ...] = ()

        def how(job: Job) -> Job:
            nonlocal notes
            decision = decide(job, now, self._zone, history, self._options.policy)
            notes = decision.notes
            return decision.job

        await self._book.change(job_id, how)
        await self._note(notes)

    async def _note(self, runs: tuple[Run, ...]) -> None:
        now = self._now()
        for run in runs:
            await self._claims.note_run(replace(run, claimed_at=now, ended_at=now))

    async def _begin(self, job_id: str) -> None:
        """Claim what was decided, or asked for. A job that runs waits."""
        running = bool(self.running)
        if self.crew.full or (await self._history(job_id)).busy:
            self._left |= running
            return
        job = await self._book.change(job_id, lambda it: it)  # paused, changed or gone meanwhile?
        if job is None:
            return
        if (pending := job.pending) is not None:
            await self._note(missed_runs(job.id, pending.since, pending.missed))
            await self._claim(job, pending.instant, lambda it: _claimed(it, pending.instant))
        elif (asked := job.asked_at) is not None:
            await self._claim(job, asked, lambda it: _answered(it, asked))

    async def _claim(self, job: Job, instant: float, clear: Change) -> None:
        running = bool(self.running)
        with ExitStack() as stack:
            if job.workdir and not self.crew.enter(stack):
                self._left |= running
                return
            now = self._now()
            until = now + self._options.lease
            run = await self._claims.claim_run(job.id, instant, self.owner, now, until)
            if run is not None:
                self.crew.start(job, run, stack.pop_all())
        await self._book.change(job.id, clear)

    async def _clean(self, now: float) -> None:
        """Once in a while."""
        passed = self._clock.monotonic()
        if self._cleaned_at is None or passed - self._cleaned_at > 6 * 3600:
            self._cleaned_at = passed
            await self._claims.clean_runs(now - self._options.keep)


def _claimed(job: Job, instant: float) -> Job:
    waits = job.pending is not None and job.pending.instant == instant
    return replace(job, pending=None) if waits else job


def _answered(job: Job, asked: float) -> Job:
    return replace(job, asked_at=None) if job.asked_at == asked else job
