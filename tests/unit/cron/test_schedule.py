"""Schedules: parsing, time zones and daylight saving."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import UsageError
from hermes.cron.schedule import (
    Schedule,
    count_between,
    format_timestamp,
    last_until,
    next_after,
    parse_schedule,
    parse_timestamp,
    resolve_timezone,
)

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
        ("every day at 9am", "cron", at("2026-01-16T09:00+01:00")),
        ("Weekdays at 8:30", "cron", at("2026-01-16T08:30+01:00")),
        ("in 20 minutes", "once", NOW + 1200),
        ("in an hour", "once", NOW + 3600),
        ("every monday at 9", "cron", at("2026-01-19T09:00+01:00")),
        ("Mondays at noon", "cron", at("2026-01-19T12:00+01:00")),
        ("every mon, wed and sun at 7", "cron", at("2026-01-18T07:00+01:00")),
        ("weekends at 10", "cron", at("2026-01-17T10:00+01:00")),
        ("weekly on friday at 17:00", "cron", at("2026-01-16T17:00+01:00")),
        ("monthly on the 1st at 9 am", "cron", at("2026-02-01T09:00+01:00")),
        ("every day at 9am and 6pm", "cron", at("2026-01-15T18:00+01:00")),
        ("each tuesday at 12am", "cron", at("2026-01-20T00:00+01:00")),
        ("tomorrow at 14:00", "once", at("2026-01-16T14:00+01:00")),
        ("today at 23:15", "once", at("2026-01-15T23:15+01:00")),
        ("at 9am", "once", at("2026-01-16T09:00+01:00")),
        ("on friday at 9", "once", at("2026-01-16T09:00+01:00")),
        ("next thursday at 9", "once", at("2026-01-22T09:00+01:00")),
        ("every 2 hours", "interval", NOW + 7200),
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
def test_valid_schedules(text: str, kind: str, first: float) -> None:
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
def test_invalid_schedules_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_schedule(text, NOW, BERLIN)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 0 31 2 *", "never happens"),
        ("0 0 30 feb *", "never happens"),
        ("0 0 1 13 *", "bad month"),
        ("0 0 32 * *", "bad day-of-month"),
        ("2020-01-01T00:00", "is in the past: it is now 2026-01-15 13:00 CET"),
        ("every soon", "is not an interval"),
        ("every foo at 9", "'every foo' does not name days"),
        ("every monday at 25:00", "'25:00' is not a time of day"),
        ("every day at 13pm", "'13pm' is not a time of day"),
        ("every weekday", "has no time of day"),
        ("every 2 days at 9", "mixes an interval with a time of day"),
        ("monthly on the 32nd at 9", "does not name days"),
        ("every day at 9:30 and 18:00", "has different minutes"),
        ("monday at 9", "can mean once or every week"),
        ("today at 9", "is in the past: it is now 2026-01-15 13:00 CET"),
        ("at teatime", "'teatime' is not a time of day"),
    ],
)
def test_error_names_the_reason(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_schedule(text, NOW, BERLIN)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "UTC"])
@pytest.mark.parametrize("text", ["0001-01-01T00:00", "9999-12-31T23:59", "9999-12-31T23:59-12:00"])
def test_ends_of_the_calendar_are_refused(text: str, zone: str) -> None:
    with pytest.raises(UsageError, match=r"in the past|too far"):
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


def test_skipped_local_time_fires_once_after_the_gap() -> None:
    start, end = "2026-03-28T12:00+01:00", "2026-03-30T12:00+02:00"
    assert walk("30 2 * * *", start, end) == ["29 03:00+0200", "30 02:30+0200"]
    assert walk("0,15,45 2 * * *", start, end)[0] == "29 03:00+0200"
    assert walk("*/20 2 * * *", start, end)[:2] == ["29 03:00+0200", "30 02:00+0200"]
    assert walk("0 2,3 * * *", start, end)[:2] == ["29 03:00+0200", "30 02:00+0200"]
    assert walk("0 */2 * * *", "2026-03-29T00:30+01:00", "2026-03-29T07:00+02:00") == [
        "29 03:00+0200", "29 04:00+0200", "29 06:00+0200",
    ]  # fmt: skip


def test_repeated_local_time_fires_once() -> None:
    start, end = "2026-10-24T12:00+02:00", "2026-10-26T12:00+01:00"
    assert walk("30 2 * * *", start, end) == ["25 02:30+0200", "26 02:30+0100"]
    assert walk("*/30 2 * * *", start, end)[:3] == [
        "25 02:00+0200", "25 02:30+0200", "26 02:00+0100",
    ]  # fmt: skip
    # also for who looks in the middle of the second time
    assert walk("45 2 * * *", "2026-10-25T02:10+01:00", end) == ["26 02:45+0100"]


def test_hourly_expression_follows_elapsed_time() -> None:
    found = walk("30 * * * *", "2026-10-25T01:00+02:00", "2026-10-25T03:45+01:00")
    assert found == ["25 01:30+0200", "25 02:30+0200", "25 02:30+0100", "25 03:30+0100"]
    assert len(walk("0 * * * *", "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00")) == 23


def test_gap_at_midnight_and_skipped_day() -> None:
    beirut, apia = ZoneInfo("Asia/Beirut"), ZoneInfo("Pacific/Apia")
    assert walk("0 0 * * *", "2026-03-28T12:00+02:00", "2026-03-30T12:00+03:00", beirut) == [
        "29 01:00+0300", "30 00:00+0300",
    ]  # fmt: skip
    assert walk("0 9 * * *", "2011-12-29T00:00-10:00", "2012-01-01T00:00+14:00", apia) == [
        "29 09:00-1000", "31 00:00+1400", "31 09:00+1400",
    ]  # fmt: skip


@given(
    minute=st.sampled_from(["0", "30", "*/15", "5,50", "*"]),
    hour=st.sampled_from(["*", "2", "1-3", "*/2", "2,3", "0"]),
    start=st.integers(at_start := int(at("2026-03-27T00:00Z")), at_start + 3 * 86_400),
    autumn=st.booleans(),
    zone=st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "UTC"]),
)
def test_instants_increase_and_last_until_finds_them(
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
        assert count_between(schedule, instants[0], each, place) == number
        assert next_after(schedule, each - 1, place) == each


def test_years_of_missed_instants_are_counted_quickly() -> None:
    every_minute = parse_schedule("* * * * *", NOW, BERLIN)
    later = NOW + 3 * 365 * 86_400
    assert later - last_until(every_minute, later, NOW + 30, BERLIN) < 60
    assert count_between(every_minute, NOW + 30, later, BERLIN) == 1000
    leap = parse_schedule("0 0 29 2 *", NOW, BERLIN)
    first = next_after(leap, NOW, BERLIN)
    assert first == at("2028-02-29T00:00+01:00")
    assert last_until(leap, first + 3 * 365 * 86_400, first, BERLIN) == first


@pytest.mark.parametrize(
    "text",
    [
        "30m",
        "every 2h",
        "0 9 * * 1-5",
        "2026-02-01T09:30",
        "@daily",
        "every 1h30m",
        "weekdays at 8:30",
        "tomorrow at 14:00",
    ],
)
def test_schedule_survives_storing(text: str) -> None:
    schedule = parse_schedule(text, NOW, BERLIN)
    assert Schedule.from_record(schedule.to_record(), 0.0, BERLIN) == schedule


def test_schedules_of_other_programs_are_read() -> None:
    made = float(int(NOW))
    every = Schedule.from_record({"kind": "interval", "minutes": 30}, made, BERLIN)
    assert next_after(every, made, BERLIN) == made + 1800
    once = Schedule.from_record(
        {"kind": "once", "run_at": "2026-02-01T10:00:00+01:00"}, made, BERLIN
    )
    assert once.at == at("2026-02-01T10:00+01:00")
    assert Schedule.from_record({"kind": "cron", "expr": "0 9 * * *"}, made, BERLIN).kind == "cron"
    assert Schedule.from_record("every 2h", made, BERLIN).seconds == 7200
    edited = Schedule.from_record(
        {"kind": "cron", "expr": "0 9 * * *", "display": "@daily"}, made, BERLIN
    )
    assert (edited.expr, edited.display) == ("0 9 * * *", "0 9 * * *")
    far = {"kind": "once", "run_at": 1e300}
    for unknown in (None, 5, {}, {"kind": "moon"}, {"expr": "60 * * * *"}, {"minutes": 1e300}, far):
        assert Schedule.from_record(unknown, made, BERLIN) is None


def test_timestamps_are_utc_with_z() -> None:
    assert format_timestamp(0.0) == "1970-01-01T00:00:00Z"
    assert format_timestamp(1.5) == "1970-01-01T00:00:01.500Z"
    assert parse_timestamp("1970-01-01T00:00:01.500Z") == 1.5
    assert parse_timestamp("nonsense") is None
    for wrong in (None, 1e300, -1, float("nan"), True, "0001-01-01T00:00", []):
        assert parse_timestamp(wrong) is None


def test_machine_time_zone_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(resolve_timezone("Asia/Tokyo")) == "Asia/Tokyo"
    monkeypatch.setenv("TZ", "America/New_York")
    assert str(resolve_timezone("")) == "America/New_York"
    monkeypatch.setenv("TZ", "No/Where")
    assert resolve_timezone("").utcoffset(datetime.now(UTC)) is not None
    monkeypatch.delenv("TZ")
    assert resolve_timezone("").utcoffset(datetime.now(UTC)) is not None
