"""The scripts of the skill calendars: repeating events, zones, free time, writing."""

import json
import re
from pathlib import Path

import pytest

from tests.bundled_skills.conftest import Run
from tests.cases import cases

CASES = cases(__file__)

BERLIN = ("--zone", "Europe/Berlin")


def calendar(folder: Path, *events: str) -> None:
    body = "".join(f"BEGIN:VEVENT\n{event}\nEND:VEVENT\n" for event in events)
    (folder / "a.ics").write_text(f"BEGIN:VCALENDAR\nVERSION:2.0\n{body}END:VCALENDAR\n")


def listed(run: Run, first: str, last: str, *more: str) -> list[str]:
    done = run("calendars/ics.py", "list", "a.ics", "--from", first, "--to", last, *BERLIN, *more)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def days(run: Run, folder: Path, rule: str, start: str = "20240131T100000Z") -> list[str]:
    calendar(folder, f"UID:1\nDTSTART:{start}\nDURATION:PT30M\nSUMMARY:X\nRRULE:{rule}")
    return [line[:10] for line in listed(run, "2024-01-01", "2025-12-31")]


@pytest.mark.parametrize(("rule", "expected"), CASES["rules give the days that people expect"])
def test_rules_give_the_days_that_people_expect(run, tmp_path, rule, expected):
    assert days(run, tmp_path, rule) == expected


def test_a_weekly_event_keeps_its_hour_when_the_clocks_change(run: Run, tmp_path: Path) -> None:
    calendar(
        tmp_path,
        "UID:1\nDTSTART;TZID=W. Europe Standard Time:20240325T090000\nDURATION:PT1H\n"
        "SUMMARY:Team\nRRULE:FREQ=WEEKLY",
    )
    assert listed(run, "2024-03-25", "2024-04-01") == [
        "2024-03-25 Mo 09:00-10:00  Team  [repeats]",
        "2024-04-01 Mo 09:00-10:00  Team  [repeats]",
    ]


def test_exceptions_and_moved_occurrences(run: Run, tmp_path: Path) -> None:
    calendar(
        tmp_path,
        "UID:1\nDTSTART;TZID=Europe/Berlin:20240501T090000\nDURATION:PT1H\nSUMMARY:Tea\n"
        "RRULE:FREQ=DAILY;COUNT=4\nEXDATE:20240502T070000Z",
        "UID:1\nRECURRENCE-ID;TZID=Europe/Berlin:20240503T090000\nDTSTART;TZID=Europe/Berlin:"
        "20240503T150000\nDURATION:PT1H\nSUMMARY:Tea\\, late\nLOCATION:Long na\n me\n"
        "STATUS:TENTATIVE",
    )
    assert listed(run, "2024-05-01", "2024-05-31") == [
        "2024-05-01 We 09:00-10:00  Tea  [repeats]",
        "2024-05-03 Fr 15:00-16:00  Tea, late  (Long name)  (TENTATIVE)",
        "2024-05-04 Sa 09:00-10:00  Tea  [repeats]",
    ]


def test_whole_days_and_searches(run: Run, tmp_path: Path) -> None:
    calendar(
        tmp_path,
        "UID:h\nDTSTART;VALUE=DATE:20240501\nDTEND;VALUE=DATE:20240504\nSUMMARY:Holiday",
        "UID:b\nDTSTART;VALUE=DATE:20240502\nSUMMARY:Birthday",
    )
    assert listed(run, "2024-05-03", "2024-05-03") == ["2024-05-01 We to 2024-05-03  Holiday"]
    found = json.loads(
        "\n".join(listed(run, "2024-05-01", "2024-05-09", "--search", "birth", "--json"))
    )
    assert [each["uid"] for each in found] == ["b"]


def test_free_time_lies_between_events(run: Run, tmp_path: Path) -> None:
    calendar(
        tmp_path,
        "UID:1\nDTSTART:20240503T080000Z\nDTEND:20240503T090000Z\nSUMMARY:A",
        "UID:2\nDTSTART:20240503T083000Z\nDTEND:20240503T100000Z\nSUMMARY:B",
        "UID:3\nDTSTART:20240503T110000Z\nDTEND:20240503T120000Z\nSUMMARY:C\nTRANSP:TRANSPARENT",
    )
    done = run(
        "calendars/ics.py", "free", "a.ics", "--from", "2024-05-03", "--to", "2024-05-05", *BERLIN
    )
    assert done.stdout == "2024-05-03 Fr 09:00-10:00\n2024-05-03 Fr 12:00-17:00\n"


def test_unsupported_entries_are_reported(run: Run, tmp_path: Path) -> None:
    calendar(
        tmp_path,
        "UID:1\nDTSTART:20240503T080000Z\nSUMMARY:Odd\nRRULE:FREQ=HOURLY",
        "UID:2\nSUMMARY:No start",
        "UID:3\nDTSTART;TZID=Mars/Base:20240503T080000\nSUMMARY:Far",
    )
    done = run("calendars/ics.py", "list", "a.ics", "--from", "2024-05-03", *BERLIN)
    assert "'Odd' is not understood" in done.stderr
    assert "has no start" in done.stderr
    assert "'Mars/Base' is not known" in done.stderr
    assert done.stdout.count("\n") == 2


def test_a_written_series_names_its_zone_and_reads_back(run: Run, tmp_path: Path) -> None:
    done = run(
        "calendars/ics_write.py", "add", "a.ics", "--title", "Tea; ünd " + "lang " * 30, *BERLIN,
        "--start", "2024-10-21 09:00", "--repeat", "FREQ=WEEKLY;COUNT=2", "--alarm", "10",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = (tmp_path / "a.ics").read_bytes()
    assert max(map(len, data.split(b"\r\n"))) <= 75
    assert b"TZOFFSETFROM:+0200\r\nTZOFFSETTO:+0100" in data
    rows = listed(run, "2024-10-01", "2024-11-30")
    assert [row[:25] for row in rows] == ["2024-10-21 Mo 09:00-10:00", "2024-10-28 Mo 09:00-10:00"]
    assert "Tea; ünd lang" in rows[0]


def test_an_event_is_added_and_removed_without_touching_the_rest(run: Run, tmp_path: Path) -> None:
    calendar(tmp_path, 'UID:old\nDTSTART:20240503T080000Z\nSUMMARY:Old\nX-OWN;A="b:c":kept')
    done = run(
        "calendars/ics_write.py", "add", "a.ics", "--title", "New", "--start", "2024-05-03",
        "--end", "2024-05-04", "--place", "Here",
    )  # fmt: skip
    uid = done.stdout.strip()
    assert "2024-05-03 Fr to 2024-05-04  New  (Here)" in listed(run, "2024-05-03", "2024-05-04")
    removed = run("calendars/ics_write.py", "remove", "a.ics", uid)
    assert removed.stdout == "1 removed\n"
    text = (tmp_path / "a.ics").read_text()
    assert 'X-OWN;A="b:c":kept' in text
    assert not re.search("SUMMARY:New", text)


@pytest.mark.parametrize(("arguments", "text"), CASES["wrong events are not written"])
def test_wrong_events_are_not_written(run, tmp_path, arguments, text):
    done = run("calendars/ics_write.py", "add", "a.ics", "--title", "X", *arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert not (tmp_path / "a.ics").exists()


def test_a_file_that_is_not_a_calendar_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.ics").write_text("my notes")
    done = run("calendars/ics_write.py", "add", "a.ics", "--title", "X", "--start", "2024-05-03")
    assert "no calendar file" in done.stderr
    assert (tmp_path / "a.ics").read_text() == "my notes"
    assert run("calendars/ics.py", "list", "a.ics").returncode == 2
