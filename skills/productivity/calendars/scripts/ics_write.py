"""Write calendar files (.ics): add and remove events. A new event's UID is printed.

  ics_write.py add work.ics --title "Lunch" --start "2024-05-03 12:30" --zone Europe/Berlin
  ics_write.py add work.ics --title "Holiday" --start 2024-08-01 --end 2024-08-14   (whole days)
  ics_write.py add work.ics --title "Team" --start "2024-05-06 09:00" --zone Europe/Berlin
                   --repeat "FREQ=WEEKLY;BYDAY=MO,TH;COUNT=10" --alarm 15
  ics_write.py remove work.ics UID

Exit code: 0 done, 2 an error (then nothing was changed).
"""
# ruff: noqa: T201, UP017, DTZ007 - prints its answer; older Pythons; zones are added where they are known

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import uuid
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path

from ics import Problem, placed, positive, unfolded, zone_of


def escaped(text: str) -> str:
    return re.sub(r"([\\;,])", r"\\\1", text).replace("\n", "\\n")


def folded(row: str) -> str:
    """At most 75 bytes in a line, as the format wants, never inside a letter."""
    lines: list[str] = []
    now = ""
    for sign in row:
        if len((now + sign).encode()) > (75 if not lines else 74):
            lines.append(now)
            now = ""
        now += sign
    return "\r\n ".join([*lines, now])


def offset(value: timedelta | None) -> str:
    minutes = int((value or timedelta()).total_seconds()) // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}{abs(minutes) % 60:02}"


def zone_block(zone: tzinfo, name: str, year: int) -> list[str]:
    """A VTIMEZONE that holds for ten years."""
    rows = ["BEGIN:VTIMEZONE", f"TZID:{name}"]
    at = datetime(year, 1, 1, tzinfo=timezone.utc)
    before = at.astimezone(zone).utcoffset()
    changes = [(at, before, before)]
    for hour in range(10 * 366 * 24):
        now = (at + timedelta(hours=hour)).astimezone(zone).utcoffset()
        if now != before:
            changes.append((at + timedelta(hours=hour), before, now))
            before = now
    for when, old, new in changes:
        summer = bool(when.astimezone(zone).dst())
        kind = "DAYLIGHT" if summer else "STANDARD"
        local = (when + (old or timedelta())).strftime("%Y%m%dT%H%M%S")
        rows += [f"BEGIN:{kind}", f"DTSTART:{local}", f"TZOFFSETFROM:{offset(old)}"]
        rows += [f"TZOFFSETTO:{offset(new)}", f"END:{kind}"]
    return [*rows, "END:VTIMEZONE"]


def given(text: str) -> tuple[datetime, bool]:
    for form in ("%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"):
        try:
            return datetime.strptime(text, form), False
        except ValueError:
            continue
    try:
        return datetime.strptime(text, "%Y-%m-%d"), True
    except ValueError:
        raise Problem(f"{text!r} is no time; write 2024-05-03 12:30 or 2024-05-03") from None


def stamps(options: argparse.Namespace, zone: tzinfo | None) -> tuple[list[str], bool]:
    """The lines with start and end, and whether they name a time zone."""
    start, whole = given(options.start)
    if options.end:
        end, whole_end = given(options.end)
        if whole != whole_end:
            raise Problem("start and end are both days or both times")
        end += timedelta(days=1) if whole else timedelta()
    else:
        end = start + (timedelta(days=1) if whole else timedelta(minutes=options.minutes))
    if end <= start:
        raise Problem("the end lies before the start")
    if whole:
        return [f"DTSTART;VALUE=DATE:{start:%Y%m%d}", f"DTEND;VALUE=DATE:{end:%Y%m%d}"], False
    if options.repeat and zone:
        name = options.zone
        return [
            f"DTSTART;TZID={name}:{start:%Y%m%dT%H%M%S}",
            f"DTEND;TZID={name}:{end:%Y%m%dT%H%M%S}",
        ], True
    if options.repeat:
        raise Problem("an event that repeats needs --zone, such as Europe/Berlin")
    utc = [placed(each, zone).astimezone(timezone.utc) for each in (start, end)]
    return [f"DTSTART:{utc[0]:%Y%m%dT%H%M%SZ}", f"DTEND:{utc[1]:%Y%m%dT%H%M%SZ}"], False


def add(options: argparse.Namespace) -> int:
    zone = zone_of(options.zone)
    uid = f"{uuid.uuid4()}@hermes"
    times, named = stamps(options, zone)
    rows = ["BEGIN:VEVENT", f"UID:{uid}", f"DTSTAMP:{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}"]
    rows += [*times, f"SUMMARY:{escaped(options.title)}"]
    rows += [f"LOCATION:{escaped(options.place)}"] if options.place else []
    rows += [f"DESCRIPTION:{escaped(options.text)}"] if options.text else []
    if options.repeat:
        if not re.fullmatch(
            r"FREQ=(DAILY|WEEKLY|MONTHLY|YEARLY)(;[A-Z]+=[\w,+-]+)*", options.repeat
        ):
            raise Problem("--repeat is a rule such as FREQ=WEEKLY;BYDAY=MO,TH;COUNT=10")
        rows.append(f"RRULE:{options.repeat}")
    if options.alarm is not None:
        rows += ["BEGIN:VALARM", "ACTION:DISPLAY", f"DESCRIPTION:{escaped(options.title)}"]
        rows += [f"TRIGGER:-PT{options.alarm}M", "END:VALARM"]
    rows.append("END:VEVENT")
    file = Path(options.file).expanduser()
    text = read(file) if file.exists() else ""
    if named and zone and f"TZID:{options.zone}" not in text.splitlines():
        rows = zone_block(zone, options.zone, given(options.start)[0].year) + rows
    save(file, with_rows(text, rows))
    print(uid)
    return 0


def with_rows(text: str, rows: list[str]) -> str:
    block = "".join(f"{folded(row)}\r\n" for row in rows)
    if not text.strip():
        head = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Hermes//calendars skill//EN\r\n"
        return f"{head}{block}END:VCALENDAR\r\n"
    place = text.upper().rfind("END:VCALENDAR")
    if place < 0 or "BEGIN:VCALENDAR" not in text[:2000].upper():
        raise Problem("this is no calendar file; nothing was changed")
    end = "\r\n" if "\r\n" in text else "\n"
    return text[:place] + block.replace("\r\n", end) + text[place:]


def read(file: Path) -> str:
    """The text as it is, so that writing it changes no other byte."""
    if file.exists() and not file.is_file():
        raise Problem(f"{file} is no file")
    return file.read_bytes().decode("utf-8", "surrogateescape")


def save(file: Path, text: str) -> None:
    target = file.resolve()  # a link stays a link
    temporary = target.with_name(target.name + ".new")
    temporary.write_bytes(text.encode("utf-8", "surrogateescape"))
    if target.exists():
        shutil.copymode(target, temporary)
    os.replace(temporary, target)  # noqa: PTH105 - replaces on every system


def remove(options: argparse.Namespace) -> int:
    file = Path(options.file).expanduser()
    text = read(file)
    blocks = re.compile(r"BEGIN:VEVENT\r?\n.*?END:VEVENT\r?\n?", re.DOTALL | re.IGNORECASE)

    def mine(block: str) -> bool:
        return any(name == "UID" and value == options.uid for name, _, value in unfolded(block))

    count = sum(mine(found[0]) for found in blocks.finditer(text))
    if not count:
        raise Problem(f"no event has the UID {options.uid!r}")
    save(file, blocks.sub(lambda found: "" if mine(found[0]) else found[0], text))
    print(f"{count} removed")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    it = actions.add_parser("add", help="a new event; prints its UID")
    it.set_defaults(run=add)
    it.add_argument("file", help="is made when it is missing")
    it.add_argument("--title", required=True)
    it.add_argument("--start", required=True, help="'2024-05-03 12:30', or a day")
    it.add_argument("--end", help="the same form; for days the last one")
    it.add_argument("--minutes", type=positive, default=60, help="length without --end (60)")
    it.add_argument("--zone", default="local", help="of the given times, such as Europe/Berlin")
    it.add_argument("--place", default="")
    it.add_argument("--text", default="")
    it.add_argument("--repeat", default="", help="FREQ=WEEKLY;BYDAY=MO,TH;COUNT=10")
    it.add_argument("--alarm", type=positive, help="minutes before")
    it = actions.add_parser("remove", help="an event with all its occurrences")
    it.set_defaults(run=remove)
    it.add_argument("file")
    it.add_argument("uid", help="as ics.py list --json shows it")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return int(options.run(options))
    except (Problem, OSError, ValueError, OverflowError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
