"""Decisions about due instants: run, missed or skipped, also when the clock jumps."""

from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from hermes.cron.due import (
    DueDecision,
    DuePolicy,
    RunHistory,
    decide,
    jitter_delay,
    needs_decision,
    next_wakeup,
)
from hermes.cron.job import Job, PendingRun
from hermes.cron.schedule import next_after, parse_schedule

UTC = ZoneInfo("UTC")
T0 = 1_800_000_000.0  # on the hour
HOUR = 3600.0
POLICY = DuePolicy()


def job(text: str = "every 1h", made: float = T0, **fields: object) -> Job:
    schedule = parse_schedule(text, made, UTC)
    following = next_after(schedule, made, UTC)
    facts = {"created_at": made, "schedule": schedule, "next_run_at": following, **fields}
    return Job(id="j", name="j", prompt="p", **facts)


def look(
    it: Job, now: float, history: RunHistory | None = None, policy: DuePolicy = POLICY
) -> DueDecision:
    return decide(it, now, UTC, history or RunHistory(), policy)


def test_due_instant_runs_and_next_run_is_set() -> None:
    early = look(job(), T0 + HOUR - 1)
    assert early.job == job()
    done = look(job(), T0 + HOUR + 5).job
    assert done.pending == PendingRun(T0 + HOUR, 0, T0 + HOUR)
    assert (done.next_run_at, done.completed, done.state) == (T0 + 2 * HOUR, 1, "scheduled")
    assert look(done, T0 + 5 * HOUR).job == done, "one at a time"


def test_missed_window_runs_once_at_its_last_instant() -> None:
    done = look(job(), T0 + 5.5 * HOUR)
    assert done.job.pending == PendingRun(T0 + 5 * HOUR, 4, T0 + HOUR)
    assert done.job.next_run_at == T0 + 6 * HOUR
    assert done.job.completed == 1


def test_catch_up_skip_waits_for_the_next_instant() -> None:
    skip = DuePolicy(catch_up="skip")
    late = look(job(), T0 + 5.5 * HOUR, policy=skip)
    assert late.job.pending is None
    (missed,) = late.not_run
    assert (missed.state, missed.instant) == ("missed", T0 + HOUR)
    assert "5 times" in missed.error
    on_time = look(job(), T0 + 5 * HOUR + 60, policy=skip)
    assert on_time.job.pending == PendingRun(T0 + 5 * HOUR, 4, T0 + HOUR)
    once = look(job("30m"), T0 + 5 * HOUR, policy=skip)
    assert once.job.pending == PendingRun(T0 + HOUR / 2, 0, T0 + HOUR / 2), "never left out"


def test_running_job_is_not_started_again() -> None:
    done = look(job(), T0 + 2 * HOUR, RunHistory(is_running=True))
    assert done.job.pending is None
    assert done.job.next_run_at == T0 + 3 * HOUR
    assert [(note.state, note.instant) for note in done.not_run] == [
        ("skipped", T0 + 2 * HOUR),
        ("missed", T0 + HOUR),
    ]
    assert done.job.completed == 0


def test_once_schedule_runs_once() -> None:
    done = look(job("30m", times=1), T0 + 3 * HOUR).job
    assert (done.state, done.next_run_at) == ("completed", None)
    again = replace(done, pending=None)
    for now in (T0, T0 + HOUR / 2, T0 + 9 * HOUR):
        assert look(again, now).job == again


def test_job_completes_after_its_number_of_runs() -> None:
    it = job(times=3)
    fired = []
    for hour in range(1, 7):
        it = look(it, T0 + hour * HOUR).job
        if it.pending:
            fired.append(hour)
        it = replace(it, pending=None)
    assert fired == [1, 2, 3]
    assert it.state == "completed"


def test_next_run_is_corrected_after_a_clock_that_was_ahead() -> None:
    ahead = look(job(), T0 + 1000 * HOUR).job
    ahead = replace(ahead, pending=None)
    assert ahead.next_run_at == T0 + 1001 * HOUR
    history = RunHistory(instants=frozenset({T0 + 1000 * HOUR}))
    back = look(ahead, T0 + 2.5 * HOUR, history).job
    assert back.next_run_at == T0 + 3 * HOUR
    assert back.pending is None
    assert look(back, T0 + 3 * HOUR, history).job.pending == PendingRun(
        T0 + 3 * HOUR, 0, T0 + 3 * HOUR
    )


def test_instant_does_not_run_again_after_clock_is_set_back() -> None:
    it = job(next_run_at=T0 + 4 * HOUR)
    history = RunHistory(instants=frozenset({T0 + 3 * HOUR}))
    back = look(it, T0 + 2.5 * HOUR, history).job
    assert back.next_run_at == T0 + 4 * HOUR, "the one in between is known"
    forced = replace(it, next_run_at=T0 + 3 * HOUR)
    onward = look(forced, T0 + 3 * HOUR, history).job
    assert (onward.pending, onward.next_run_at, onward.completed) == (None, T0 + 4 * HOUR, 0)


def test_record_without_next_run_is_completed_or_scheduled() -> None:
    plain = look(job(next_run_at=None), T0 + HOUR / 4).job
    assert plain.next_run_at == T0 + HOUR
    missed = job("30m", next_run_at=None)
    assert look(missed, T0 + HOUR).job.next_run_at == T0 + HOUR / 2, "it never ran: it is due"
    over = look(replace(missed, last_run_at=T0 + HOUR / 2), T0 + HOUR).job
    assert over.state == "completed"


@pytest.mark.parametrize("state", ["paused", "completed"])
def test_only_scheduled_jobs_run(state: str) -> None:
    it = job(state=state)
    assert look(it, T0 + 9 * HOUR).job == it
    assert next_wakeup(it, UTC, POLICY) is None
    assert not needs_decision(replace(it, state="scheduled", schedule=None), T0 + HOUR, UTC, POLICY)


def test_jitter_is_deterministic_and_not_used_for_once_schedules() -> None:
    policy = DuePolicy(jitter=300)
    it = job()
    later = jitter_delay(it, T0 + HOUR, UTC, policy)
    assert 0 < later < 300
    assert jitter_delay(it, T0 + HOUR, UTC, policy) == later
    assert jitter_delay(replace(it, id="k"), T0 + HOUR, UTC, policy) != later
    assert look(it, T0 + HOUR + later - 1, policy=policy).job.pending is None
    assert look(it, T0 + HOUR + later, policy=policy).job.pending.instant == T0 + HOUR
    assert next_wakeup(it, UTC, policy) == T0 + HOUR + later
    assert jitter_delay(job("30m"), T0 + HOUR / 2, UTC, policy) == 0


def test_jitter_never_makes_a_job_miss_its_next_instant() -> None:
    policy = DuePolicy(jitter=3600)
    for text in ("every 1m", "*/5 * * * *"):
        it = job(text)
        first = it.next_run_at
        gap = next_after(it.schedule, first, UTC) - first
        later = jitter_delay(it, first, UTC, policy)
        assert 0 < later <= gap / 2
        assert look(it, first + later, policy=policy).job.pending == PendingRun(first, 0, first)


def test_once_schedule_waits_while_its_job_is_running() -> None:
    it = job("30m", times=1)
    assert look(it, T0 + HOUR, RunHistory(is_running=True)).job == it
    assert look(it, T0 + HOUR + 9).job.pending == PendingRun(T0 + HOUR / 2, 0, T0 + HOUR / 2)
