"""What is due, and what becomes of it. Pure: one look at a job, at one moment.

Whether an instant is run is decided once, by whoever changes the job's record first; the decision
stands in the record (`pending`) until the instant is claimed. So nothing is lost when the process
that decided ends before it claims, and nothing is decided twice.
"""

import hashlib
from datetime import tzinfo
from typing import Literal

import msgspec
from msgspec.structs import replace

from hermes.cron.job import Job, Pending
from hermes.cron.schedule import MOST_COUNTED, Schedule, between, last_until, next_after
from hermes.store.claims import Run


class Policy(msgspec.Struct, frozen=True):
    catch_up: Literal["once", "skip"] = "once"
    grace: float = 120.0
    """Seconds after which an instant counts as missed."""
    jitter: float = 0.0
    """Most seconds a run is put off."""


class History(msgspec.Struct, frozen=True):
    """What is known of a job's runs."""

    busy: bool = False
    """One is not over."""
    instants: frozenset[float] = frozenset()
    """Those that were claimed or written down."""


class Decision(msgspec.Struct, frozen=True):
    job: Job
    notes: tuple[Run, ...] = ()
    """Instants that are not run."""


def needs_look(job: Job, now: float, zone: tzinfo, policy: Policy) -> bool:
    """Whether `decide` may change something."""
    if job.state != "scheduled" or job.schedule is None or job.pending is not None:
        return False
    if job.next_run_at is None:
        return True
    if now >= job.next_run_at:
        return now >= job.next_run_at + put_off(job, job.next_run_at, zone, policy)
    return _healed(job, now, zone) is not None


def decide(job: Job, now: float, zone: tzinfo, history: History, policy: Policy) -> Decision:
    """The job with the instant that is to be run, if there is one, and with its next."""
    schedule = job.schedule
    if schedule is None or not needs_look(job, now, zone, policy):
        return Decision(job)
    if job.next_run_at is None:
        return _unscheduled(job, schedule, now, zone)
    if now < job.next_run_at:
        earlier = _healed(job, now, zone)
        if earlier is None or earlier in history.instants:
            return Decision(job)
        return Decision(replace(job, next_run_at=earlier))
    first = job.next_run_at
    last = last_until(schedule, now, first, zone)
    onward = _onward(job, next_after(schedule, now, zone))
    if last in history.instants:
        return Decision(onward)  # the clock was set back: it was run before
    missed = between(schedule, first, last, zone)
    if history.busy and schedule.kind == "once":
        return Decision(job)  # it has no other instant: it waits
    if history.busy:
        return Decision(onward, (_skipped(job, last), *missed_runs(job.id, first, missed)))
    late = now - last > policy.grace + policy.jitter
    if late and policy.catch_up == "skip" and schedule.kind != "once":
        return Decision(onward, missed_runs(job.id, first, missed + 1))
    begun = replace(onward, completed=job.completed + 1, pending=Pending(last, missed, first))
    return Decision(replace(begun, state="completed", next_run_at=None) if begun.ended else begun)


def _onward(job: Job, following: float | None) -> Job:
    state = "scheduled" if following is not None else "completed"
    return replace(job, next_run_at=following, state=state)


def _unscheduled(job: Job, schedule: Schedule, now: float, zone: tzinfo) -> Decision:
    """A record that does not say when it runs next, such as one written by hand."""
    if job.ended:
        return Decision(_onward(job, None))
    waits = schedule.kind == "once" and job.last_run_at is None
    return Decision(_onward(job, next_after(schedule, schedule.at - 1 if waits else now, zone)))


def _healed(job: Job, now: float, zone: tzinfo) -> float | None:
    """An instant that comes before the one the job waits for: the clock was wrong when that was
    worked out. What was run already is not run again."""
    if job.schedule is None or job.next_run_at is None or job.schedule.kind == "once":
        return None
    following = next_after(job.schedule, now, zone)
    return following if following is not None and following < job.next_run_at else None


def put_off(job: Job, instant: float, zone: tzinfo, policy: Policy) -> float:
    """Seconds, the same for everybody who asks, and never so many that the next instant comes near.
    What runs once is not put off."""
    if not policy.jitter or job.schedule is None or job.schedule.kind == "once":
        return 0.0
    following = next_after(job.schedule, instant, zone)
    most = policy.jitter if following is None else min(policy.jitter, (following - instant) / 2)
    chance = hashlib.sha256(f"{job.id}:{instant}".encode()).digest()
    return most * int.from_bytes(chance[:4]) / 2**32


def wakes_at(job: Job, zone: tzinfo, policy: Policy) -> float | None:
    """When there is something to do for it."""
    if job.state != "scheduled" or job.next_run_at is None or job.schedule is None:
        return None
    return job.next_run_at + put_off(job, job.next_run_at, zone, policy)


def _skipped(job: Job, instant: float) -> Run:
    return Run(job.id, instant, "skipped", error="the run before it was still going on")


def missed_runs(job_id: str, first: float, count: int) -> tuple[Run, ...]:
    """One line of history, however many there were."""
    if not count:
        return ()
    number = f"{count} or more" if count >= MOST_COUNTED else str(count)
    told = "nobody was there to run it"
    return (Run(job_id, first, "missed", error=told if count == 1 else f"{told}, {number} times"),)
