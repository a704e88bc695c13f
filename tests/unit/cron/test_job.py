"""Limits of a job that several users changed; and no content of a record breaks a tick."""

from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hermes.cron.due import DuePolicy, RunHistory, decide, needs_decision, next_wakeup
from hermes.cron.job import Job, JobLimits, intersect_toolsets

MOMENTS = st.one_of(
    st.none(),
    st.integers(-(10**13), 10**13),
    st.floats(),
    st.booleans(),
    st.sampled_from(["0001-01-01T00:00Z", "9999-12-31T23:59Z", "1969-12-31", "x", "2026-11-16"]),
)
TEXTS = st.sampled_from(["every 2h", "0 9 * * *", "* * * * *", "0 0 29 2 *", "30m", "@daily", ""])
SCHEDULES = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["once", "interval", "cron", 5]),
        "expr": TEXTS,
        "display": TEXTS,
        "run_at": MOMENTS,
        "minutes": st.floats() | st.integers(-5, 10**9) | st.text(max_size=3),
        "anchor": MOMENTS,
    },
)
THINGS = st.sampled_from(
    [None, True, 0, 7, -1, "a, b", [], ["a", 5], {}, {"times": "x", "user": 1}]
)
FIELDS = set(Job(id="x").to_record()) - {"id", "schedule"}
TIMES = ("next_run_at", "last_run_at", "created_at", "asked_at")
PENDING = st.fixed_dictionaries({"instant": MOMENTS, "missed": THINGS, "since": MOMENTS})
RECORDS = st.fixed_dictionaries(
    {"id": st.just("x"), "schedule": SCHEDULES | TEXTS | THINGS},
    optional={
        **dict.fromkeys(FIELDS, THINGS),
        **dict.fromkeys(TIMES, MOMENTS),
        "pending": PENDING,
    },
)


@given(
    record=RECORDS,
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Pacific/Apia"]),
    now=st.floats(1, 4e9),
    jitter=st.sampled_from([0.0, 300.0]),
)
def test_any_record_can_be_decided_and_stored(
    record: dict[str, Any], zone: str, now: float, jitter: float
) -> None:
    place, policy = ZoneInfo(zone), DuePolicy(jitter=jitter)
    job = Job.from_record(record, place)
    looked_at = decide(job, now, place, RunHistory(), policy).job
    assert isinstance(looked_at.targets, tuple)
    next_wakeup(looked_at, place, policy)
    needs_decision(looked_at, now, place, policy)
    written = msgspec.json.encode(looked_at.to_record())
    again = Job.from_record(msgspec.json.decode(written), place)
    assert again.next_run_at == looked_at.next_run_at
    assert (again.pending is None) == (looked_at.pending is None)


def test_toolsets_are_intersected() -> None:
    for some, others, both in (
        ((), (), ()),
        (("web",), (), ("web",)),
        (("terminal", "web"), ("web", "todo"), ("web",)),
        (("terminal",), ("web",), ("-all",)),
        (("all",), ("web", "todo"), ("web", "todo")),
        (("all", "-terminal"), ("*",), ("all", "*", "-terminal")),
        (("all", "-terminal"), ("terminal", "web"), ("terminal", "web", "-terminal")),
        (("-all",), ("all",), ("-all",)),
    ):
        assert set(intersect_toolsets(some, others)) == set(both), (some, others)
        assert set(intersect_toolsets(others, some)) == set(both), (some, others)


def test_more_confined_backend_is_used() -> None:
    for chat, job, both in (
        ("sandbox", "", "sandbox"),
        ("local", "sandbox", "sandbox"),
        ("local", "", ""),
        ("local", "local", "local"),
    ):
        one, other = JobLimits(backend=chat), JobLimits(backend=job)
        assert one.intersect(other).backend == other.intersect(one).backend == both
    assert JobLimits(backend="docker").intersect(JobLimits(backend="sandbox")).backend == "docker"


def test_user_folder_and_lower_budget_are_kept() -> None:
    guest = JobLimits(user="telegram:7", folder="/w/7", day_usd=2.0)
    assert JobLimits(day_usd=1.0).intersect(guest) == JobLimits(
        user="telegram:7", folder="/w/7", day_usd=1.0
    )
    assert JobLimits().intersect(guest) == guest
    assert guest.intersect(JobLimits(day_usd=0.0)).day_usd == 0.0
