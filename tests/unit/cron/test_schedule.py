"""When jobs run: the four ways to write it, time zones and daylight saving."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.core.errors import UsageError
from hermes.cron.schedule import (
    Schedule,
    between,
    from_record,
    instant_of,
    iso,
    last_until,
    next_after,
    parse_schedule,
    to_record,
)
from hermes.cron.zone import zone_of

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 1, 15, 12, 0, 30, tzinfo=UTC).timestamp()


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def walk(text: str, start: str, end: str, zone: ZoneInfo = BERLIN) -> list[str]:
    """The local times at which it happens."""
    schedule = parse_schedule(text, at(start), zone)
    found, instant = [], next_after(schedule, at(start), zone)
    while instant is not None and instant <= at(end):
        found.append(datetime.fromtimestamp(instant, zone).strftime("%d %H:%M%z"))
        instant = next_after(schedule, instant, zone)
    return found


@pytest.mark.parametrize(
    ("text", "kind", "first"),
    [
        ("30m", "once", NOW + 1800),
        ("2 hours", "once", NOW + 7200),
        ("1d", "once", NOW + 86_400),
        ("in 30 minutes", "once", NOW + 1800),
        ("In 1h30m", "once", NOW + 5400),
        ("1 day 2 hours", "once", NOW + 93_600),
        ("every 2h", "interval", NOW + 7200),
        ("every 1h 30m", "interval", NOW + 5400),
        ("Every  90 minutes", "interval", NOW + 5400),
        ("every day", "interval", NOW + 86_400),
        ("0 9 * * 1-5", "cron", at("2026-01-16T09:00+01:00")),
        ("@daily", "cron", at("2026-01-16T00:00+01:00")),
        ("0 9 * * MON", "cron", at("2026-01-19T09:00+01:00")),
        ("0 9 * FEB-apr mon-Fri", "cron", at("2026-02-02T09:00+01:00")),
        ("0 9 * * 7", "cron", at("2026-01-18T09:00+01:00")),
        ("10-50/20 13 * * *", "cron", at("2026-01-15T13:10+01:00")),
        ("0 0 13 * 5", "cron", at("2026-01-16T00:00+01:00")),
        ("0 0 17 * 1", "cron", at("2026-01-17T00:00+01:00")),
        ("0 0 29 2 *", "cron", at("2028-02-29T00:00+01:00")),
        ("@annually", "cron", at("2027-01-01T00:00+01:00")),
        ("2026-02-01", "once", at("2026-02-01T00:00+01:00")),
        ("2026-02-01T09:30", "once", at("2026-02-01T09:30+01:00")),
        ("2026-02-01 09:30:00+00:00", "once", at("2026-02-01T09:30+00:00")),
        ("2026-02-01T09:30Z", "once", at("2026-02-01T09:30+00:00")),
    ],
)
def test_what_people_write(text: str, kind: str, first: float) -> None:
    schedule = parse_schedule(text, NOW, BERLIN)
    assert schedule.kind == kind
    assert next_after(schedule, NOW, BERLIN) == first


@pytest.mark.parametrize(
    "text",
    [
        "", "soon", "every", "every soon", "every 30s", "0m", "99999999999d", "60 * * * *",
        "* * * *", "* * * * * *", "0 0 30 2 *", "0 0 31 2,4 *", "2020-01-01T00:00", "0 9 * * *\0",
        "1/0 * * * *", "x" * 10_000, "9999-99-99", "-5m", "@reboot", "1mo", "in", "in a while",
        "1h3", "0001-01-01T00:00", "9999-12-31T23:59", "30", "every monday", "0 0 1 13 *",
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_schedule(text, NOW, BERLIN)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0 0 31 2 *", "never happens"),
        ("0 0 30 feb *", "never happens"),
        ("0 0 1 13 *", "bad month"),
        ("0 0 32 * *", "bad day-of-month"),
        ("2020-01-01T00:00", "has passed: it is 2026-01-15 13:00 CET"),
        ("every day at 9am", "is no interval"),
    ],
)
def test_why_it_makes_no_sense_is_said(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse_schedule(text, NOW, BERLIN)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "UTC"])
@pytest.mark.parametrize("text", ["0001-01-01T00:00", "9999-12-31T23:59", "9999-12-31T23:59-12:00"])
def test_the_ends_of_the_calendar_are_refused_everywhere(text: str, zone: str) -> None:
    with pytest.raises(UsageError, match=r"has passed|too far"):
        parse_schedule(text, NOW, ZoneInfo(zone))


def test_the_examples_in_hints_can_be_copied() -> None:
    with pytest.raises(UsageError) as caught:
        parse_schedule("whenever", NOW, BERLIN)
    last = caught.value.hint.split()[-1]
    assert parse_schedule(last, NOW, BERLIN).kind == "once"


def test_intervals_are_counted_from_when_the_job_was_made() -> None:
    schedule = parse_schedule("every 2h", NOW, BERLIN)
    late = NOW + 7200 + 1234  # a run that took long changes nothing
    assert next_after(schedule, late, BERLIN) == NOW + 2 * 7200
    assert next_after(schedule, NOW - 10 * 86_400, BERLIN) == NOW + 7200


def test_a_local_time_that_is_skipped_happens_once_right_after_the_gap() -> None:
    start, end = "2026-03-28T12:00+01:00", "2026-03-30T12:00+02:00"
    assert walk("30 2 * * *", start, end) == ["29 03:00+0200", "30 02:30+0200"]
    assert walk("0,15,45 2 * * *", start, end)[0] == "29 03:00+0200"
    assert walk("*/20 2 * * *", start, end)[:2] == ["29 03:00+0200", "30 02:00+0200"]
    assert walk("0 2,3 * * *", start, end)[:2] == ["29 03:00+0200", "30 02:00+0200"]
    assert walk("0 */2 * * *", "2026-03-29T00:30+01:00", "2026-03-29T07:00+02:00") == [
        "29 03:00+0200", "29 04:00+0200", "29 06:00+0200",
    ]  # fmt: skip


def test_a_local_time_that_comes_twice_happens_once() -> None:
    start, end = "2026-10-24T12:00+02:00", "2026-10-26T12:00+01:00"
    assert walk("30 2 * * *", start, end) == ["25 02:30+0200", "26 02:30+0100"]
    assert walk("*/30 2 * * *", start, end)[:3] == [
        "25 02:00+0200", "25 02:30+0200", "26 02:00+0100",
    ]  # fmt: skip
    # also for who looks in the middle of the second time
    assert walk("45 2 * * *", "2026-10-25T02:10+01:00", end) == ["26 02:45+0100"]


def test_what_happens_every_hour_goes_by_what_really_passes() -> None:
    found = walk("30 * * * *", "2026-10-25T01:00+02:00", "2026-10-25T03:45+01:00")
    assert found == ["25 01:30+0200", "25 02:30+0200", "25 02:30+0100", "25 03:30+0100"]
    assert len(walk("0 * * * *", "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00")) == 23


def test_a_gap_at_midnight_and_a_day_that_was_left_out() -> None:
    beirut, apia = ZoneInfo("Asia/Beirut"), ZoneInfo("Pacific/Apia")
    assert walk("0 0 * * *", "2026-03-28T12:00+02:00", "2026-03-30T12:00+03:00", beirut) == [
        "29 01:00+0300", "30 00:00+0300",
    ]  # fmt: skip
    assert walk("0 9 * * *", "2011-12-29T00:00-10:00", "2012-01-01T00:00+14:00", apia) == [
        "29 09:00-1000", "31 00:00+1400", "31 09:00+1400",
    ]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    minute=st.sampled_from(["0", "30", "*/15", "5,50", "*"]),
    hour=st.sampled_from(["*", "2", "1-3", "*/2", "2,3", "0"]),
    start=st.integers(at_start := int(at("2026-03-27T00:00Z")), at_start + 3 * 86_400),
    autumn=st.booleans(),
    zone=st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "UTC"]),
)
def test_instants_only_go_forward_and_what_is_last_is_found(
    minute: str, hour: str, start: int, autumn: bool, zone: str
) -> None:
    place = ZoneInfo(zone)
    start += 211 * 86_400 if autumn else 0
    schedule = Schedule("cron", f"{minute} {hour} * * *", "")
    instants, instant = [], next_after(schedule, start, place)
    while instant is not None and instant <= start + 40 * 3600:
        instants.append(instant)
        instant = next_after(schedule, instant, place)
    assert instants == sorted(set(instants))
    assert all(each > start for each in instants)
    for number, each in enumerate(instants[:6]):
        assert last_until(schedule, each + 30, instants[0], place) == each
        assert between(schedule, instants[0], each, place) == number
        assert next_after(schedule, each - 1, place) == each


def test_what_was_missed_for_years_is_found_quickly() -> None:
    every_minute = parse_schedule("* * * * *", NOW, BERLIN)
    later = NOW + 3 * 365 * 86_400
    assert later - last_until(every_minute, later, NOW + 30, BERLIN) < 60
    assert between(every_minute, NOW + 30, later, BERLIN) == 1000
    leap = parse_schedule("0 0 29 2 *", NOW, BERLIN)
    first = next_after(leap, NOW, BERLIN)
    assert first == at("2028-02-29T00:00+01:00")
    assert last_until(leap, first + 3 * 365 * 86_400, first, BERLIN) == first


@pytest.mark.parametrize(
    "text", ["30m", "every 2h", "0 9 * * 1-5", "2026-02-01T09:30", "@daily", "every 1h30m"]
)
def test_a_schedule_is_the_same_after_it_was_stored(text: str) -> None:
    schedule = parse_schedule(text, NOW, BERLIN)
    assert from_record(to_record(schedule), 0.0, BERLIN) == schedule


def test_schedules_of_other_writers_are_understood() -> None:
    made = float(int(NOW))
    every = from_record({"kind": "interval", "minutes": 30}, made, BERLIN)
    assert next_after(every, made, BERLIN) == made + 1800
    once = from_record({"kind": "once", "run_at": "2026-02-01T10:00:00+01:00"}, made, BERLIN)
    assert once.at == at("2026-02-01T10:00+01:00")
    assert from_record({"kind": "cron", "expr": "0 9 * * *"}, made, BERLIN).kind == "cron"
    assert from_record("every 2h", made, BERLIN).seconds == 7200
    edited = from_record({"kind": "cron", "expr": "0 9 * * *", "display": "@daily"}, made, BERLIN)
    assert (edited.expr, edited.display) == ("0 9 * * *", "0 9 * * *")
    far = {"kind": "once", "run_at": 1e300}
    for unknown in (None, 5, {}, {"kind": "moon"}, {"expr": "60 * * * *"}, {"minutes": 1e300}, far):
        assert from_record(unknown, made, BERLIN) is None


def test_timestamps_are_utc_with_z() -> None:
    assert iso(0.0) == "1970-01-01T00:00:00Z"
    assert iso(1.5) == "1970-01-01T00:00:01.500Z"
    assert instant_of("1970-01-01T00:00:01.500Z") == 1.5
    assert instant_of("nonsense") is None
    for wrong in (None, 1e300, -1, float("nan"), True, "0001-01-01T00:00", []):
        assert instant_of(wrong) is None


def test_the_machine_has_a_zone_with_daylight_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(zone_of("Asia/Tokyo")) == "Asia/Tokyo"
    monkeypatch.setenv("TZ", "America/New_York")
    assert str(zone_of("")) == "America/New_York"
    monkeypatch.setenv("TZ", "No/Where")
    assert zone_of("").utcoffset(datetime.now(UTC)) is not None
    monkeypatch.delenv("TZ")
    assert zone_of("").utcoffset(datetime.now(UTC)) is not None
