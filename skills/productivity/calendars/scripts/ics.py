"""Read calendar files (.ics): list events, find free time.

  ics.py list work.ics home.ics --from 2024-05-01 --to 2024-05-08
  ics.py list https://example.org/public.ics --days 7 --search dentist --json
  ics.py free work.ics --days 5 --hours 09:00-17:00 --minutes 60

Repeating events are expanded (daily, weekly, monthly, yearly with BYDAY, BYMONTHDAY, BYMONTH,
BYSETPOS, COUNT, UNTIL, exceptions and moved ones). Times are shown in --zone, by default that of
this machine.
Exit code: 0 done, 1 nothing found, 2 an error.
"""
# ruff: noqa: T201, UP017, SIM905, DTZ007, DTZ901 - prints; older Pythons; zones are added later

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import sys
import urllib.request
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
UNDERSTOOD = set("FREQ INTERVAL COUNT UNTIL BYDAY BYMONTHDAY BYMONTH BYSETPOS WKST".split())
FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
WINDOWS = {
    "W. Europe Standard Time": "Europe/Berlin",
    "Central Europe Standard Time": "Europe/Budapest",
    "Romance Standard Time": "Europe/Paris",
    "GMT Standard Time": "Europe/London",
    "Eastern Standard Time": "America/New_York",
    "Central Standard Time": "America/Chicago",
    "Mountain Standard Time": "America/Denver",
    "Pacific Standard Time": "America/Los_Angeles",
    "India Standard Time": "Asia/Kolkata",
    "Tokyo Standard Time": "Asia/Tokyo",
    "China Standard Time": "Asia/Shanghai",
    "AUS Eastern Standard Time": "Australia/Sydney",
}
LINE = re.compile(r"([\w-]+)((?:;[\w-]+=(?:\"[^\"]*\"|[^;:\"]*))*):(.*)", re.DOTALL)
TEXTS = {
    "UID": "uid",
    "SUMMARY": "title",
    "LOCATION": "place",
    "DESCRIPTION": "text",
    "STATUS": "status",
    "TRANSP": "shown_as",
}
TIMES = {"DTEND", "EXDATE", "RDATE", "RECURRENCE-ID"}
DURATION = re.compile(r"([+-]?)P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
MOST_STEPS = 50_000
SECONDS = 30
MOST_BYTES = 50_000_000


class Problem(Exception):
    """Something the user has to correct."""


def warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


def zone_of(name: str) -> tzinfo | None:
    """None for the zone of this machine."""
    if not name or name == "local":
        return None
    tries = [WINDOWS.get(name, name), *(name.split("/", n)[-1] for n in range(1, name.count("/")))]
    for each in tries:
        try:
            return ZoneInfo(each.strip("/"))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            continue
    raise Problem(f"the time zone {name!r} is not known; write it as Europe/Berlin")


def placed(naive: datetime, zone: tzinfo | None) -> datetime:
    return naive.replace(tzinfo=zone) if zone else naive.astimezone()


@dataclass
class Event:
    """A VEVENT. `start` is without a zone; `zone` says where; whole days start at midnight."""

    uid: str = ""
    title: str = ""
    place: str = ""
    text: str = ""
    status: str = ""
    shown_as: str = ""
    start: datetime = datetime.min
    zone: tzinfo | None = None
    whole_day: bool = False
    length: timedelta = timedelta()
    rule: dict[str, str] = field(default_factory=dict)
    without: set[datetime] = field(default_factory=set)
    extra: list[datetime] = field(default_factory=list)
    replaces: datetime | None = None


@dataclass
class Hit:
    """One occurrence, in the zone that is shown."""

    start: datetime
    end: datetime
    event: Event


def unfolded(text: str) -> Iterator[tuple[str, dict[str, str], str]]:
    whole = re.sub(r"\r?\n[ \t]", "", text)
    for row in whole.splitlines():
        found = LINE.fullmatch(row)
        if found:
            pairs = re.findall(r";([\w-]+)=(\"[^\"]*\"|[^;:\"]*)", found[2])
            yield found[1].upper(), {n.upper(): v.strip('"') for n, v in pairs}, found[3]


def plain(value: str) -> str:
    return re.sub(r"\\([nN,;\\])", lambda m: "\n" if m[1] in "nN" else m[1], value)


def moment(
    value: str, params: dict[str, str], zone: tzinfo | None
) -> tuple[datetime, tzinfo | None, bool]:
    """Without its zone, the zone, and whether it is a whole day."""
    text = value.strip()
    try:
        if re.fullmatch(r"\d{8}", text):
            return datetime.strptime(text, "%Y%m%d"), zone, True
        naive = datetime.strptime(text.rstrip("Z"), "%Y%m%dT%H%M%S")
    except ValueError:
        raise Problem(f"{value!r} is no date of a calendar") from None
    if text.endswith("Z"):
        return naive, timezone.utc, False
    if "TZID" in params:
        try:
            return naive, zone_of(params["TZID"]), False
        except Problem as error:
            warn(f"{error}; the zone of this machine is taken")
    return naive, zone, False


def duration(value: str) -> timedelta:
    found = DURATION.fullmatch(value.strip())
    if not found:
        raise Problem(f"{value!r} is no duration")
    weeks, days, hours, minutes, secs = (int(part or 0) for part in found.groups()[1:])
    length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=secs)
    return -length if found[1] == "-" else length


def event_of(lines: list[tuple[str, dict[str, str], str]], zone: tzinfo | None) -> Event:
    event = Event()
    for name, params, value in lines:
        if name in TEXTS:
            setattr(event, TEXTS[name], plain(value).strip())
        elif name == "DTSTART":
            event.start, event.zone, event.whole_day = moment(value, params, zone)
        elif name == "RRULE":
            event.rule = dict(
                part.upper().split("=", 1) for part in value.split(";") if "=" in part
            )
    if event.start == datetime.min:
        raise Problem(f"the event {event.title or event.uid!r} has no start")
    event.length = timedelta(days=1 if event.whole_day else 0)
    for name, params, value in lines:
        if name == "DURATION":
            event.length = duration(value)
        elif name in TIMES:
            values = [each for each in value.split(",") if "/" not in each]
            add_times(event, name, [inside(event, each, params, zone) for each in values])
    return event


def add_times(event: Event, name: str, times: list[datetime]) -> None:
    if name == "EXDATE":
        event.without |= set(times)
    elif name == "RDATE":
        event.extra += times
    elif name == "DTEND" and times:
        event.length = times[0] - event.start
    elif times:
        event.replaces = times[0]


def inside(event: Event, value: str, params: dict[str, str], zone: tzinfo | None) -> datetime:
    """A time of an event, in the zone of its start."""
    naive, own, whole = moment(value, params, zone)
    if whole or event.whole_day or own == event.zone:
        return naive
    return placed(naive, own).astimezone(event.zone).replace(tzinfo=None)


def read_events(text: str, zone: tzinfo | None) -> list[Event]:
    if "BEGIN:VCALENDAR" not in text[:2000].upper():
        raise Problem("this is no calendar file")
    events: list[Event] = []
    lines: list[tuple[str, dict[str, str], str]] = []
    stack: list[str] = []
    for name, params, value in unfolded(text):
        if name == "BEGIN":
            stack.append(value.upper())
            if value.upper() == "VEVENT":
                lines = []
        elif name == "END":
            stack = stack[:-1]
            if value.upper() == "VEVENT":
                try:
                    events.append(event_of(lines, zone))
                except (Problem, ValueError) as error:
                    warn(f"an event is left out: {error}")
        elif stack[-1:] == ["VEVENT"]:
            lines.append((name, params, value))
    return events


def numbers(rule: dict[str, str], key: str) -> list[int]:
    return [int(part) for part in rule.get(key, "").split(",") if part]


def weekdays(rule: dict[str, str]) -> list[tuple[int, int]]:
    """(which one, 0 for each; day of the week)"""
    found = re.findall(r"([+-]?\d*)(MO|TU|WE|TH|FR|SA|SU)", rule.get("BYDAY", ""))
    return [(int(n or 0), DAYS.index(name)) for n, name in found]


def month_days(rule: dict[str, str], year: int, month: int, start: datetime) -> list[date]:
    last = monthrange(year, month)[1]
    every = [date(year, month, n) for n in range(1, last + 1)]
    chosen = every
    by_day, by_number = weekdays(rule), numbers(rule, "BYMONTHDAY")
    if by_number:
        wanted = {n if n > 0 else last + 1 + n for n in by_number}
        chosen = [day for day in chosen if day.day in wanted]
    if by_day:
        fits = set()
        for which, name in by_day:
            same = [day for day in every if day.weekday() == name]
            picked = (
                same if not which else same[which - 1 : which] if which > 0 else same[which:][:1]
            )
            fits |= set(picked)
        chosen = [day for day in chosen if day in fits]
    if not by_day and not by_number:
        chosen = [day for day in every if day.day == start.day]
    return chosen


def periods(rule: dict[str, str], start: datetime) -> Iterator[list[date]]:
    """The candidate days of each period, from that of the start on."""
    step = max(int(rule.get("INTERVAL", "1")), 1)
    first, months = start.date(), numbers(rule, "BYMONTH")
    for number in range(MOST_STEPS):
        count = number * step
        if rule["FREQ"] == "DAILY":
            day = first + timedelta(days=count)
            names, by_number = {name for _, name in weekdays(rule)}, numbers(rule, "BYMONTHDAY")
            ok = (not names or day.weekday() in names) and (not by_number or day.day in by_number)
            days = [day] if ok else []
        elif rule["FREQ"] == "WEEKLY":
            offset = (first.weekday() - DAYS.index(rule.get("WKST", "MO"))) % 7
            week = first - timedelta(days=offset) + timedelta(weeks=count)
            names = {name for _, name in weekdays(rule)} or {first.weekday()}
            days = [week + timedelta(days=n) for n in range(7)]
            days = [day for day in days if day.weekday() in names]
        elif rule["FREQ"] == "MONTHLY":
            index = first.month - 1 + count
            days = month_days(rule, first.year + index // 12, index % 12 + 1, start)
        else:
            days = []
            for month in sorted(months) or [first.month]:
                days += month_days(rule, first.year + count, month, start)
        days = [day for day in days if not months or day.month in months]
        chosen = numbers(rule, "BYSETPOS")
        if chosen:
            places = {n - 1 if n > 0 else len(days) + n for n in chosen}
            days = [day for place, day in enumerate(days) if place in places]
        yield days


def starts(event: Event, last: datetime) -> Iterator[datetime]:
    """The starts of an event up to `last`, exceptions left out, in its own zone."""
    rule = event.rule
    found: set[datetime] = {event.start, *event.extra}
    strange = set(rule) - UNDERSTOOD
    by_day_of_year = rule.get("FREQ") == "YEARLY" and "BYDAY" in rule and "BYMONTH" not in rule
    if rule and (strange or rule.get("FREQ") not in FREQUENCIES or by_day_of_year):
        warn(f"the rule of {event.title!r} is not understood, only its start is shown")
    elif rule:
        until = datetime.max
        if "UNTIL" in rule:
            until = inside(event, rule["UNTIL"], {}, event.zone)
            if len(rule["UNTIL"]) == 8:
                until += timedelta(days=1, seconds=-1)
        found |= set(repeated(event, min(last, until)))
    for each in sorted(found):
        if each not in event.without and each.date() <= last.date():
            yield each


def repeated(event: Event, last: datetime) -> Iterator[datetime]:
    left = int(event.rule.get("COUNT", str(MOST_STEPS)))
    try:
        for days in periods(event.rule, event.start):
            for day in days:
                each = datetime.combine(day, event.start.time())
                if each < event.start:
                    continue
                if left <= 0 or each > last:
                    return
                left -= 1
                yield each
            if days and datetime.combine(days[0], time()) > last:
                return
    except (OverflowError, ValueError):
        return  # beyond the last year there is


def occurrences(
    events: list[Event], first: datetime, last: datetime, zone: tzinfo | None
) -> list[Hit]:
    moved = {(e.uid, e.replaces) for e in events if e.replaces}
    found = []
    for event in events:
        own = event.zone if event.zone else zone
        limit = last.astimezone(own).replace(tzinfo=None) + timedelta(days=1)
        for start in [event.start] if event.replaces else starts(event, limit):
            if not event.replaces and (event.uid, start) in moved:
                continue
            here = zone if event.whole_day else event.zone
            begin = placed(start, here).astimezone(zone)
            end = placed(start + event.length, here).astimezone(zone)
            if begin < last and (end > first or (end == begin and begin >= first)):
                found.append(Hit(begin, end, event))
    return sorted(found, key=lambda hit: (hit.start, hit.end, hit.event.title))


def load(name: str) -> str:
    if re.match(r"(https?|webcal)://", name):
        url = re.sub(r"^webcal", "https", name)
        request = urllib.request.Request(url, headers={"User-Agent": "hermes-skill-ics/1.0"})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return str(answer.read(MOST_BYTES).decode("utf-8-sig", "replace"))
    return Path(name).expanduser().read_text(encoding="utf-8-sig", errors="replace")


def window(options: argparse.Namespace, zone: tzinfo | None) -> tuple[datetime, datetime]:
    now = datetime.now(timezone.utc).astimezone(zone)
    first = options.first or now.date()
    last = options.last or first + timedelta(days=options.days - 1)
    if last < first:
        raise Problem("--to lies before --from")
    return (
        placed(datetime.combine(first, time()), zone),
        placed(datetime.combine(last + timedelta(days=1), time()), zone),
    )


def shown(hit: Hit) -> str:
    event, day = hit.event, f"{hit.start:%Y-%m-%d} {DAYS[hit.start.weekday()].title()}"
    if event.whole_day:
        last = hit.end - timedelta(days=1)
        when = "whole day  " if last.date() <= hit.start.date() else f"to {last:%Y-%m-%d}"
    else:
        far = "" if hit.end.date() == hit.start.date() else f"{hit.end:%Y-%m-%d} "
        when = f"{hit.start:%H:%M}-{far}{hit.end:%H:%M}"
    notes = [event.place, event.status if event.status not in ("", "CONFIRMED") else ""]
    tail = "".join(f"  ({note})" for note in notes if note)
    return f"{day} {when}  {event.title or '(no title)'}{tail}{'  [repeats]' if event.rule else ''}"


def as_json(hit: Hit) -> dict[str, object]:
    event = hit.event
    return {
        "start": hit.start.isoformat(),
        "end": hit.end.isoformat(),
        "whole_day": event.whole_day,
        "title": event.title,
        "place": event.place,
        "text": event.text,
        "status": event.status,
        "repeats": bool(event.rule),
        "uid": event.uid,
    }


def found_in(
    options: argparse.Namespace, zone: tzinfo | None
) -> tuple[list[Hit], datetime, datetime]:
    first, last = window(options, zone)
    hits: list[Hit] = []
    for name in options.files:
        hits += occurrences(read_events(load(name), zone), first, last, zone)
    return sorted(hits, key=lambda hit: (hit.start, hit.end)), first, last


def listed(options: argparse.Namespace) -> int:
    hits, _, _ = found_in(options, zone_of(options.zone))
    word = options.search.lower()
    hits = [h for h in hits if word in f"{h.event.title}\n{h.event.place}\n{h.event.text}".lower()]
    if options.json:
        print(json.dumps([as_json(hit) for hit in hits], ensure_ascii=False, indent=1))
    else:
        print("".join(f"{shown(hit)}\n" for hit in hits), end="")
    return 0 if hits else 1


def free(options: argparse.Namespace) -> int:
    zone = zone_of(options.zone)
    hits, first, last = found_in(options, zone)
    busy = [
        h
        for h in hits
        if h.event.shown_as.upper() != "TRANSPARENT" and h.event.status.upper() != "CANCELLED"
    ]
    opens, closes = options.hours
    any_slot, day = False, first.date()
    while day < last.date():
        at, end = (placed(datetime.combine(day, part), zone) for part in (opens, closes))
        gaps = []
        for hit in [h for h in busy if h.start < end and h.end > at]:
            gaps.append((at, min(hit.start, end)))
            at = max(at, hit.end)
        for begin, stop in [*gaps, (at, end)]:
            if stop - begin >= timedelta(minutes=options.minutes) and (
                day.weekday() < 5 or options.weekends
            ):
                any_slot = True
                print(f"{day} {DAYS[day.weekday()].title()} {begin:%H:%M}-{stop:%H:%M}")
        day += timedelta(days=1)
    return 0 if any_slot else 1


def hours(text: str) -> tuple[time, time]:
    opens, closes = (time.fromisoformat(part) for part in text.split("-"))
    if opens >= closes:
        raise ValueError(text)
    return opens, closes


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    for name, run, text in (("list", listed, "events of some days"), ("free", free, "free time")):
        it = actions.add_parser(name, help=text)
        it.set_defaults(run=run)
        it.add_argument("files", nargs="+", help="files or addresses")
        it.add_argument(
            "--from", dest="first", type=date.fromisoformat, help="YYYY-MM-DD, today when left out"
        )
        it.add_argument("--to", dest="last", type=date.fromisoformat, help="the last day")
        it.add_argument("--days", type=positive, default=7, help="instead of --to (7)")
        it.add_argument("--zone", default="local", help="such as Europe/Berlin")
        if name == "list":
            it.add_argument("--search", default="", help="only with this word")
            it.add_argument("--json", action="store_true")
        else:
            it.add_argument("--hours", type=hours, default="09:00-17:00")
            it.add_argument("--minutes", type=positive, default=30, help="at least this long (30)")
            it.add_argument("--weekends", action="store_true")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return int(options.run(options))
    except BrokenPipeError:
        raise
    except (Problem, OSError, ValueError, OverflowError, http.client.HTTPException) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
