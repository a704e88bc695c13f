"""What becomes of an instant: run, missed, skipped, known; whatever the clock does."""

from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from hermes.cron.due import Decision, History, Policy, decide, needs_look, put_off, wakes_at
from hermes.cron.job import Job, Pending
from hermes.cron.schedule import next_after, parse_schedule

UTC = ZoneInfo("UTC")
T0 = 1_800_000_000.0  # on the hour
HOUR = 3600.0
POLICY = Policy()


def job(text: str = "every 1h", made: float = T0, **fields: object) -> Job:
    schedule = parse_schedule(text, made, UTC)
    following = next_after(schedule, made, UTC)
    facts = {"created_at": made, "schedule": schedule, "next_run_at": following, **fields}
    return Job(id="j", name="j", prompt="p", **facts)


def look(it: Job, now: float, history: History | None = None, policy: Policy = POLICY) -> Decision:
    return decide(it, now, UTC, history or History(), policy)


def test_an_instant_that_is_due_is_run_and_the_next_is_known() -> None:
    early = look(job(), T0 + HOUR - 1)
    assert early.job == job()
    done = look(job(), T0 + HOUR + 5).job
    assert done.pending == Pending(T0 + HOUR, 0, T0 + HOUR)
    assert (done.next_run_at, done.completed, done.state) == (T0 + 2 * HOUR, 1, "scheduled")
    assert look(done, T0 + 5 * HOUR).job == done, "one at a time"


def test_a_missed_window_is_one_run_at_its_last_instant() -> None:
    done = look(job(), T0 + 5.5 * HOUR)
    assert done.job.pending == Pending(T0 + 5 * HOUR, 4, T0 + HOUR)
    assert done.job.next_run_at == T0 + 6 * HOUR
    assert done.job.completed == 1


def test_who_does_not_want_to_catch_up_waits_for_the_next() -> None:
    skip = Policy(catch_up="skip")
    late = look(job(), T0 + 5.5 * HOUR, policy=skip)
    assert late.job.pending is None
    (missed,) = late.notes
    assert (missed.state, missed.instant) == ("missed", T0 + HOUR)
    assert "5 times" in missed.error
    on_time = look(job(), T0 + 5 * HOUR + 60, policy=skip)
    assert on_time.job.pending == Pending(T0 + 5 * HOUR, 4, T0 + HOUR)
    once = look(job("30m"), T0 + 5 * HOUR, policy=skip)
    assert once.job.pending == Pending(T0 + HOUR / 2, 0, T0 + HOUR / 2), "never left out"


def test_a_job_that_still_runs_is_not_run_beside_itself() -> None:
    done = look(job(), T0 + 2 * HOUR, History(busy=True))
    assert done.job.pending is None
    assert done.job.next_run_at == T0 + 3 * HOUR
    assert [(note.state, note.instant) for note in done.notes] == [
        ("skipped", T0 + 2 * HOUR),
        ("missed", T0 + HOUR),
    ]
    assert done.job.completed == 0


def test_what_runs_once_runs_once() -> None:
    done = look(job("30m", times=1), T0 + 3 * HOUR).job
    assert (done.state, done.next_run_at) == ("completed", None)
    again = replace(done, pending=None)
    for now in (T0, T0 + HOUR / 2, T0 + 9 * HOUR):
        assert look(again, now).job == again


def test_a_job_ends_after_so_many_runs() -> None:
    it = job(times=3)
    fired = []
    for hour in range(1, 7):
        it = look(it, T0 + hour * HOUR).job
        if it.pending:
            fired.append(hour)
        it = replace(it, pending=None)
    assert fired == [1, 2, 3]
    assert it.state == "completed"


def test_a_clock_that_was_far_ahead_is_forgiven_and_nothing_runs_twice() -> None:
    ahead = look(job(), T0 + 1000 * HOUR).job
    ahead = replace(ahead, pending=None)
    assert ahead.next_run_at == T0 + 1001 * HOUR
    history = History(instants=frozenset({T0 + 1000 * HOUR}))
    back = look(ahead, T0 + 2.5 * HOUR, history).job
    assert back.next_run_at == T0 + 3 * HOUR
    assert back.pending is None
    assert look(back, T0 + 3 * HOUR, history).job.pending == Pending(
        T0 + 3 * HOUR, 0, T0 + 3 * HOUR
    )


def test_an_instant_that_was_run_before_the_clock_was_set_back_is_not_run_again() -> None:
    it = job(next_run_at=T0 + 4 * HOUR)
    history = History(instants=frozenset({T0 + 3 * HOUR}))
    back = look(it, T0 + 2.5 * HOUR, history).job
    assert back.next_run_at == T0 + 4 * HOUR, "the one in between is known"
    forced = replace(it, next_run_at=T0 + 3 * HOUR)
    onward = look(forced, T0 + 3 * HOUR, history).job
    assert (onward.pending, onward.next_run_at, onward.completed) == (None, T0 + 4 * HOUR, 0)


def test_records_that_do_not_say_when_are_completed_or_scheduled() -> None:
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
    assert wakes_at(it, UTC, POLICY) is None
    assert not needs_look(replace(it, state="scheduled", schedule=None), T0 + HOUR, UTC, POLICY)


def test_jitter_puts_off_by_the_same_time_for_everybody_and_never_what_runs_once() -> None:
    policy = Policy(jitter=300)
    it = job()
    later = put_off(it, T0 + HOUR, UTC, policy)
    assert 0 < later < 300
    assert put_off(it, T0 + HOUR, UTC, policy) == later
    assert put_off(replace(it, id="k"), T0 + HOUR, UTC, policy) != later
    assert look(it, T0 + HOUR + later - 1, policy=policy).job.pending is None
    assert look(it, T0 + HOUR + later, policy=policy).job.pending.instant == T0 + HOUR
    assert wakes_at(it, UTC, policy) == T0 + HOUR + later
    assert put_off(job("30m"), T0 + HOUR / 2, UTC, policy) == 0


def test_jitter_never_makes_a_job_miss_its_next_instant() -> None:
    policy = Policy(jitter=3600)
    for text in ("every 1m", "*/5 * * * *"):
        it = job(text)
        first = it.next_run_at
        gap = next_after(it.schedule, first, UTC) - first
        later = put_off(it, first, UTC, policy)
        assert 0 < later <= gap / 2
        assert look(it, first + later, policy=policy).job.pending == Pending(first, 0, first)


def test_what_runs_once_is_not_skipped_because_it_runs_just_now() -> None:
    it = job("30m", times=1)
    assert look(it, T0 + HOUR, History(busy=True)).job == it
    assert look(it, T0 + HOUR + 9).job.pending == Pending(T0 + HOUR / 2, 0, T0 + HOUR / 2)
