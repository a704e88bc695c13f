"""Schedules: parse what users write and compute the instants at which a schedule fires.

Everything here is pure. An instant is a float, in seconds since the epoch. A local time skipped by
daylight saving fires right after the gap; a local time that occurs twice fires the first time only.
Cron expressions whose hour is `*` follow elapsed time instead, so they fire in both hours.
"""

import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from hermes.config.environment import variable
from hermes.core.errors import UsageError

MIN_INTERVAL = 60
MAX_DURATION = 10 * 365 * 86_400
MAX_INSTANT = 200_000_000_000.0  #: In the year 8307, well within the range of `datetime`.
MAX_TEXT = 100
MAX_COUNTED = 1000  #: `count_between` stops here.
EXAMPLES = (
    "for example 30m (once), `every 2h`, `weekdays at 8:30`, `tomorrow at 14:00`, `0 9 * * 1-5` or"
    " 2030-01-31T09:00"
)
LOCALTIME = Path("/etc/localtime")

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_LENGTH = re.compile(
    r"(\d{1,9})\s*(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)(?![a-z])"
)
_DURATION = re.compile(rf"(?:{_LENGTH.pattern}\s*)+")
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_DAY_NAMES = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_DAY_GROUPS = {"day": "*", "weekday": "1-5", "workday": "1-5", "weekend": "6,0"}
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2}))?\s*(am|pm|a\.m\.|p\.m\.)?")
_NAMED_TIMES = {"noon": (12, 0), "midnight": (0, 0)}
_DAY_OF_MONTH = re.compile(r"(?:on )?(?:the )?(\d{1,2})(?:st|nd|rd|th)?")
_MONTHLY = re.compile(r"(?:every |each )month|monthly")
_AND = re.compile(r"\s*(?:,|\band\b|&)\s*")
TIME_HINT = "write a time of day as 14:30, 9am, noon or midnight"
_SEARCH_WINDOWS = (3600, 86_400, 8 * 86_400, 32 * 86_400, 367 * 86_400, 5 * 366 * 86_400)
"""Seconds that `last_until` searches backwards, one window after the other."""


class Schedule(msgspec.Struct, frozen=True):
    kind: Literal["once", "interval", "cron"]
    expr: str  #: Can be parsed again: a timestamp, `every 2h`, or a cron expression.
    display: str
    at: float = 0.0
    """For `once` the instant itself; for `interval` the instant that intervals count from."""
    seconds: int = 0  #: Length of an `interval`.

    def to_record(self) -> dict[str, Any]:
        """Return the `schedule` field of a job record."""
        record: dict[str, Any] = {"kind": self.kind, "expr": self.expr, "display": self.display}
        if self.kind == "once":
            record["run_at"] = format_timestamp(self.at)
        if self.kind == "interval":
            minutes = self.seconds / 60
            record["minutes"] = int(minutes) if minutes.is_integer() else minutes
            record["anchor"] = format_timestamp(self.at)
        return record

    @classmethod
    def from_record(cls, record: Any, created: float, zone: tzinfo) -> "Schedule | None":
        """Read a stored schedule, including those of other programs; None if it has no meaning."""
        if isinstance(record, str):
            record = {"expr": record}
        if not isinstance(record, dict):
            return None
        expr, display = str(record.get("expr") or ""), str(record.get("display") or "")
        if (at := parse_timestamp(record.get("run_at"))) is not None:
            return _once(at, zone, display)
        minutes = record.get("minutes")
        if isinstance(minutes, int | float) and 1 <= minutes * 60 <= MAX_DURATION:
            display = display or f"every {minutes:g}m"
            anchor = parse_timestamp(record.get("anchor"))
            start = created if anchor is None else anchor
            return cls("interval", expr or display, display, start, round(minutes * 60))
        # A phrase is kept as the display text, unless the expression was edited since.
        alias = ""
        with suppress(UsageError):
            alias = display if expr and _recurring_expression(display.lower()) == expr else ""
        for text in (alias, expr, display):
            with suppress(UsageError):
                return parse_schedule(text, created, zone)
        return None


def parse_schedule(text: str, now: float, zone: tzinfo) -> Schedule:
    """Parse a schedule as a user writes it. Raises `UsageError`."""
    words = " ".join(text.split())
    lowered = words.lower()
    if not words:
        raise UsageError("the schedule is empty", hint=EXAMPLES)
    if len(words) > MAX_TEXT:
        raise UsageError(f"{words[:40]!r}… is not a schedule", hint=EXAMPLES)
    if expr := _recurring_expression(lowered):
        return _parse_cron(expr, words, now, zone)
    if (at := _phrased_moment(lowered, now, zone)) is not None:
        return _once(at, zone)
    if lowered.startswith("every "):
        return _parse_interval(words, lowered.removeprefix("every "), now)
    wait = re.sub(r"^an? ", "1 ", lowered.removeprefix("in "))
    if (seconds := parse_duration(wait)) is not None:
        return _once(int(now) + seconds, zone, f"once in {wait}")
    if len(words.split()) == 5:
        return _parse_cron(words, words, now, zone)
    return _parse_moment(words, now, zone)


def _recurring_expression(text: str) -> str:
    """Return the cron expression of `@daily`, `every monday at 9` or `weekdays at 8:30`; "" if the
    text is something else. Raises `UsageError` for such a phrase with a wrong day or time."""
    if text in _ALIASES:
        return _ALIASES[text]
    days, separator, times = text.partition(" at ")
    month = _MONTHLY.match(days)
    every = re.sub(r"^(?:(?:every|each) |weekly (?:on )?)", "", days)
    weekday = "*" if month or days == "daily" else _day_field(every)
    is_plural = days.endswith(("days", "ends")) or "," in weekday
    if not (month or every != days or days == "daily" or (weekday and is_plural)):
        return ""
    if not separator:
        if weekday and every != "day":  # `every day` is an interval
            raise UsageError(f"{text!r} has no time of day", hint=f"for example `{text} at 9:00`")
        return ""
    if parse_duration(every) is not None:  # `every 2 days at 9` would depend on the month
        raise UsageError(
            f"{text!r} mixes an interval with a time of day",
            hint="use an interval (`every 2h`) or days (`every day at 9:00`)",
        )
    day = "*"
    if month:
        found = _DAY_OF_MONTH.fullmatch(days[month.end() :].strip() or "1")
        day = found[1] if found else ""
    if not weekday or not day or (day != "*" and not 1 <= int(day) <= 31):
        hint = "name days as in `every day`, `weekdays`, `every mon, wed` or `monthly on the 1st`"
        raise UsageError(f"{days!r} does not name days", hint=hint)
    clocks = [_parse_clock(each) for each in _AND.split(times)]
    if len({minute for _, minute in clocks}) > 1:
        raise UsageError(f"{times!r} has different minutes", hint="create a job for each time")
    hours = ",".join(str(hour) for hour in sorted({hour for hour, _ in clocks}))
    return f"{clocks[0][1]} {hours} {day} * {weekday}"


def _day_field(text: str) -> str:
    """Return the days of a week for a cron expression: `*`, `1-5` or `1,3`; "" for other words."""
    fields = []
    for word in filter(None, _AND.split(text.removeprefix("on "))):
        single = word.removesuffix("s") if word not in ("tues", "thurs") else word
        number = next((n for n, day in enumerate(_DAY_NAMES) if day.startswith(single)), None)
        field = _DAY_GROUPS.get(single) or (str(number) if len(single) > 2 else "None")
        if field == "None":
            return ""
        fields.append(field)
    return "*" if "*" in fields else ",".join(fields)


def _parse_clock(text: str) -> tuple[int, int]:
    """Return hour and minute of `9`, `9:30pm` or `noon`. Raises `UsageError`."""
    text = text.strip()
    if text in _NAMED_TIMES:
        return _NAMED_TIMES[text]
    found = _CLOCK.fullmatch(text)
    hour, minute = (int(found[1]), int(found[2] or 0)) if found else (24, 0)
    half = (found[3] or "")[:1] if found else ""
    if half:
        hour = hour % 12 + (12 if half == "p" else 0) if 1 <= hour <= 12 else 24
    if hour > 23 or minute > 59:
        raise UsageError(f"{text!r} is not a time of day", hint=TIME_HINT)
    return hour, minute


def _phrased_moment(text: str, now: float, zone: tzinfo) -> float | None:
    """Return the instant of `tomorrow at 14:00`, `on friday at 9` or `at noon`; None for other
    texts. Raises `UsageError`."""
    day, separator, clock = f" {text}".partition(" at ")
    day = day.strip().removeprefix("on ")
    is_next = day.startswith("next ")
    if not separator:
        return None
    weekday = _day_field(day.removeprefix("next "))
    if day not in ("", "today", "tomorrow") and not weekday.isdigit():
        return None
    if weekday.isdigit() and not is_next and not text.startswith("on "):
        hint = f"write `every {text}` or `on {text}`"
        raise UsageError(f"{text!r} can mean once or every week", hint=hint)
    hour, minute = _parse_clock(clock)
    start = datetime.fromtimestamp(int(now), zone).replace(
        hour=hour, minute=minute, second=0, tzinfo=None
    )
    ahead = 1 if day == "tomorrow" else 0
    if weekday.isdigit():
        ahead = (int(weekday) - start.isoweekday()) % 7
    at = _wall_clock_instant(start + timedelta(days=ahead), zone)
    if at <= now and day == "today":
        raise UsageError(
            f"{text} is in the past: it is now {format_local(now, zone)}", hint=EXAMPLES
        )
    if at <= now:  # of the next day, or the next week
        later = timedelta(days=7 if weekday.isdigit() else 1)
        at = _wall_clock_instant(start + timedelta(days=ahead) + later, zone)
    return float(int(at))


def parse_duration(text: str) -> int | None:
    """Return the seconds of `30m`, `2 hours` or `1d 12h`; None if `text` is not a duration.

    Raises `UsageError` for a duration that is out of range.
    """
    words = text.strip().lower()
    if _DURATION.fullmatch(words) is None:
        return None
    seconds = sum(int(number) * _UNIT_SECONDS[unit[0]] for number, unit in _LENGTH.findall(words))
    if not 0 < seconds <= MAX_DURATION:
        raise UsageError(f"{text.strip()} must be between 1 second and 10 years", hint=EXAMPLES)
    return seconds


def next_after(schedule: Schedule, instant: float, zone: tzinfo) -> float | None:
    """Return the first instant of the schedule after this one; None if there is none."""
    match schedule.kind:
        case "once":
            return schedule.at if schedule.at > instant else None
        case "interval":
            passed = max(0, int((instant - schedule.at) // schedule.seconds))
            return schedule.at + (passed + 1) * schedule.seconds
        case "cron":
            return next(_cron_instants(schedule.expr, instant, zone), None)


def last_until(schedule: Schedule, until: float, first: float, zone: tzinfo) -> float:
    """Return the last instant from `first`, which is itself an instant, up to `until`."""
    if schedule.kind == "once" or until <= first:
        return first
    if schedule.kind == "interval":
        passed = int((until - schedule.at) // schedule.seconds)
        return max(first, schedule.at + passed * schedule.seconds)
    # Cron expressions can only be iterated forwards, so growing windows before `until` are tried.
    for window in _SEARCH_WINDOWS:
        found = deque(_instants(schedule, max(first, until - window) - 1, until, zone), maxlen=1)
        if found:
            return max(first, found[0])
    return first


def count_between(schedule: Schedule, first: float, last: float, zone: tzinfo) -> int:
    """Count the instants from `first`, which is one, until before `last`, up to `MAX_COUNTED`."""
    if last <= first:
        return 0
    rest = _instants(schedule, first, last - 1, zone)
    return 1 + sum(1 for _ in islice(rest, MAX_COUNTED - 1))


def resolve_timezone(name: str) -> tzinfo:
    """Return the zone of the `timezone` setting; "" means the zone of this machine."""
    if name:
        return ZoneInfo(name)
    # The tzinfo of `astimezone()` is a fixed offset. A named zone also knows daylight saving.
    if named := variable("TZ"):
        with suppress(OSError, ValueError, KeyError):  # a rule such as `EST5EDT,M3.2.0`
            if key := named.removeprefix(":"):
                return ZoneInfo(key)
    else:
        with suppress(OSError, ValueError), LOCALTIME.open("rb") as file:
            key = str(LOCALTIME.resolve()).partition("/zoneinfo/")[2]
            return ZoneInfo.from_file(file, key=key or None)
    return datetime.now(UTC).astimezone().tzinfo or UTC


def format_local(instant: float, zone: tzinfo) -> str:
    """Format an instant for people: `2030-01-31 09:00 CET`."""
    return datetime.fromtimestamp(instant, zone).strftime("%Y-%m-%d %H:%M %Z").strip()


def format_timestamp(instant: float) -> str:
    """Format an instant for records: UTC with `Z`, and milliseconds if there are any."""
    moment = datetime.fromtimestamp(round(instant, 3), UTC)
    spec = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=spec).replace("+00:00", "Z")


def parse_timestamp(value: Any) -> float | None:
    """Read a stored timestamp or number; None if it is invalid or out of range."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return round(float(value), 3) if 0 <= value < MAX_INSTANT else None
    try:
        moment = datetime.fromisoformat(value)
        return parse_timestamp((moment if moment.tzinfo else moment.astimezone()).timestamp())
    except (TypeError, ValueError, OverflowError):
        return None


def _once(at: float, zone: tzinfo, display: str = "") -> Schedule:
    display = display or f"once at {format_local(at, zone)}"
    return Schedule("once", format_timestamp(at), display, float(at))


def _parse_interval(words: str, length: str, now: float) -> Schedule:
    seconds = parse_duration(length) or parse_duration(f"1 {length}")  # `every hour`
    if seconds is None:
        raise UsageError(
            f"{words!r} is not an interval",
            hint="use `every 2h`, or days and a time such as `every monday at 9:00`",
        )
    if seconds < MIN_INTERVAL:
        raise UsageError("a job cannot run more often than once a minute")
    return Schedule("interval", words, words, float(int(now)), seconds)


def _parse_cron(expr: str, words: str, now: float, zone: tzinfo) -> Schedule:
    try:
        found = next(_cron_instants(expr, now, zone), None)
    except CronSimError as error:
        if _has_valid_day(expr, now, zone):
            raise UsageError(f"{expr!r} never happens: no such month has that day") from error
        raise UsageError(
            f"{expr!r} is not a cron expression: {str(error).lower()}",
            hint="minute, hour, day of month, month, day of week, such as `0 9 * * 1-5`",
        ) from error
    if found is None:
        raise UsageError(f"{expr!r} never happens")
    return Schedule("cron", expr, words)


def _has_valid_day(expr: str, now: float, zone: tzinfo) -> bool:
    """True if a rejected expression would be valid in other months, as `0 0 30 2 *` would."""
    minute, hour, day, month, weekday = expr.split()
    try:
        CronSim(f"0 0 1 {month} *", datetime.fromtimestamp(int(now), zone))
        return any(_cron_instants(f"{minute} {hour} {day} * {weekday}", now, zone))
    except CronSimError:
        return False


def _parse_moment(words: str, now: float, zone: tzinfo) -> Schedule:
    try:
        at = datetime.fromisoformat(words)
    except ValueError:
        raise UsageError(f"{words!r} is not a schedule", hint=EXAMPLES) from None
    try:
        instant = float(int(at.timestamp() if at.tzinfo else _wall_clock_instant(at, zone)))
    except OverflowError:  # on the first or the last day that `datetime` can represent
        instant = 0.0 if at.year < 1970 else MAX_INSTANT
    if instant >= MAX_INSTANT:
        raise UsageError(f"{words} is too far in the future", hint=EXAMPLES)
    if instant <= now:
        raise UsageError(
            f"{words} is in the past: it is now {format_local(now, zone)}", hint=EXAMPLES
        )
    return _once(instant, zone)


def _instants(schedule: Schedule, after: float, until: float, zone: tzinfo) -> Iterator[float]:
    instant = next_after(schedule, after, zone)
    while instant is not None and instant <= until:
        yield instant
        instant = next_after(schedule, instant, zone)


def _cron_instants(expr: str, after: float, zone: tzinfo) -> Iterator[float]:
    """Yield the instants of a cron expression after an instant. Raises `CronSimError`."""
    start = datetime.fromtimestamp(int(after // 1), zone)
    by_wall_clock = expr.split()[1] not in ("*", "*/1")
    previous = after
    for moment in CronSim(expr, start.replace(tzinfo=None) if by_wall_clock else start):
        instant = _wall_clock_instant(moment, zone) if by_wall_clock else moment.timestamp()
        if instant > previous:  # two skipped times may both map to the end of the gap
            yield instant
            previous = instant


def _wall_clock_instant(naive: datetime, zone: tzinfo) -> float:
    """Return when clocks in `zone` first show `naive`, or when the gap that skips it ends."""
    for _ in range(2 * 24 * 60):  # Samoa once skipped a whole day
        aware = naive.replace(tzinfo=zone, fold=0)
        if aware.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == naive:
            return aware.timestamp()
        naive = naive.replace(second=0) + timedelta(minutes=1)
    raise ValueError(f"{zone} skips {naive}")
