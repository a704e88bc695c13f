"""Decide which instants of a job run. Pure: one job at one moment.

The first process that updates the job's record decides, and its decision stays in the record as
`pending` until the instant is claimed. A process that dies in between therefore loses nothing, and
no instant is decided twice.
"""

import hashlib
from datetime import tzinfo
from typing import Literal

import msgspec
from msgspec.structs import replace

from hermes.cron.job import Job, PendingRun
from hermes.cron.schedule import MAX_COUNTED, count_between, last_until, next_after
from hermes.store import Run


class DuePolicy(msgspec.Struct, frozen=True):
    catch_up: Literal["once", "skip"] = "once"
    grace: float = 120.0  #: Seconds after which an instant counts as missed.
    jitter: float = 0.0  #: Maximum delay of a run in seconds.


class RunHistory(msgspec.Struct, frozen=True):
    is_running: bool = False
    instants: frozenset[float] = frozenset()  #: Instants that were claimed, skipped or missed.


class DueDecision(msgspec.Struct, frozen=True):
    job: Job  #: With `pending` set if an instant is to run, and with its next run.
    not_run: tuple[Run, ...] = ()  #: History entries for instants that are skipped or missed.


def needs_decision(job: Job, now: float, zone: tzinfo, policy: DuePolicy) -> bool:
    """True if `decide` may change the job."""
    if job.state != "scheduled" or job.schedule is None or job.pending is not None:
        return False
    if job.next_run_at is None:
        return True
    if now >= job.next_run_at:
        return now >= job.next_run_at + jitter_delay(job, job.next_run_at, zone, policy)
    return _earlier_instant(job, now, zone) is not None


def decide(
    job: Job, now: float, zone: tzinfo, history: RunHistory, policy: DuePolicy
) -> DueDecision:
    """Decide what to do about the instants of `job` that are due at `now`."""
    schedule = job.schedule
    if schedule is None or not needs_decision(job, now, zone, policy):
        return DueDecision(job)
    if job.next_run_at is None:
        # The record does not name the next instant.
        never_ran = schedule.kind == "once" and job.last_run_at is None
        following = next_after(schedule, schedule.at - 1 if never_ran else now, zone)
        return DueDecision(_advance(job, None if job.is_exhausted else following))
    if now < job.next_run_at:
        earlier = _earlier_instant(job, now, zone)
        if earlier is None or earlier in history.instants:
            return DueDecision(job)
        return DueDecision(replace(job, next_run_at=earlier))
    first = job.next_run_at
    last = last_until(schedule, now, first, zone)
    advanced = _advance(job, next_after(schedule, now, zone))
    if last in history.instants:
        return DueDecision(advanced)  # it ran before the clock was set back
    missed = count_between(schedule, first, last, zone)
    if history.is_running and schedule.kind == "once":
        return DueDecision(job)  # it has no other instant, so it waits
    if history.is_running:
        skipped = Run(job.id, last, "skipped", error="the previous run was still in progress")
        return DueDecision(advanced, (skipped, *missed_entries(job.id, first, missed)))
    is_late = now - last > policy.grace + policy.jitter
    if is_late and policy.catch_up == "skip" and schedule.kind != "once":
        return DueDecision(advanced, missed_entries(job.id, first, missed + 1))
    pending = PendingRun(last, missed, first)
    started = replace(advanced, completed=job.completed + 1, pending=pending)
    return DueDecision(_advance(started, None) if started.is_exhausted else started)


def jitter_delay(job: Job, instant: float, zone: tzinfo, policy: DuePolicy) -> float:
    """Return the delay of a run in seconds: at most half the time to the next instant.

    It depends on job and instant only, so every process computes the same. Jobs that run once are
    not delayed.
    """
    if not policy.jitter or job.schedule is None or job.schedule.kind == "once":
        return 0.0
    following = next_after(job.schedule, instant, zone)
    limit = policy.jitter if following is None else min(policy.jitter, (following - instant) / 2)
    digest = hashlib.sha256(f"{job.id}:{instant}".encode()).digest()
    return limit * int.from_bytes(digest[:4]) / 2**32


def next_wakeup(job: Job, zone: tzinfo, policy: DuePolicy) -> float | None:
    """Return when the job has to be looked at again; None if it is not scheduled."""
    if job.state != "scheduled" or job.next_run_at is None or job.schedule is None:
        return None
    return job.next_run_at + jitter_delay(job, job.next_run_at, zone, policy)


def missed_entries(job_id: str, first: float, count: int) -> tuple[Run, ...]:
    """Return one history entry for all `count` missed instants, or none if `count` is 0."""
    if not count:
        return ()
    error = "no process was running the jobs"
    if count > 1:
        error += f" ({count}{' or more' * (count >= MAX_COUNTED)} times)"
    return (Run(job_id, first, "missed", error=error),)


def _advance(job: Job, following: float | None) -> Job:
    state = "scheduled" if following is not None else "completed"
    return replace(job, next_run_at=following, state=state)


def _earlier_instant(job: Job, now: float, zone: tzinfo) -> float | None:
    """Return an instant before `job.next_run_at`, which was then computed with a wrong clock."""
    if job.schedule is None or job.next_run_at is None or job.schedule.kind == "once":
        return None
    following = next_after(job.schedule, now, zone)
    return following if following is not None and following < job.next_run_at else None
