"""When a job runs: once, at intervals, or by a cron expression. Pure.

An instant is seconds since 1970. Local times that daylight saving skips happen right after the gap;
local times that come twice happen the first time. An expression whose hour is `*` goes by what
really passes: it happens each hour, also in the hour that comes twice.
"""

import re
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import Any, Literal

import msgspec
from cronsim import CronSim, CronSimError

from hermes.core.errors import UsageError

Kind = Literal["once", "interval", "cron"]

SHORTEST = 60
"""Seconds between two runs."""
LONGEST_TEXT = 100
LONGEST = 10 * 365 * 86_400
LAST_INSTANT = 200_000_000_000.0
"""Of the calendar, nearly."""
MOST_COUNTED = 1000
"""Missed instants beyond that are not counted."""
EXAMPLES = "write 30m (once), `every 2h`, `0 9 * * 1-5` or 2030-01-31T09:00"

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_LENGTH = re.compile(
    r"(\d{1,9})\s*(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)(?![a-z])"
)
_DURATION = re.compile(rf"(?:{_LENGTH.pattern}\s*)+")
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_LOOKS_BACK = (3600, 86_400, 8 * 86_400, 32 * 86_400, 367 * 86_400, 5 * 366 * 86_400)
"""How far `last_until` looks, step by step."""


class Schedule(msgspec.Struct, frozen=True):
    kind: Kind
    expr: str
    """As it can be parsed again: a timestamp, `every 2h`, or five fields."""
    display: str
    at: float = 0.0
    """once: when. interval: what it is counted from."""
    seconds: int = 0
    """interval"""


def parse_schedule(text: str, now: float, zone: tzinfo) -> Schedule:
    """What a person wrote. Raises `UsageError`."""
    words = " ".join(text.split())
    if len(words) > LONGEST_TEXT:
        raise UsageError(f"{words[:40]!r}… is no schedule", hint=EXAMPLES)
    lowered = words.lower()
    if not words:
        raise UsageError("the schedule is empty", hint=EXAMPLES)
    if lowered.startswith("every "):
        return _interval(words, lowered.removeprefix("every "), now)
    wait = lowered.removeprefix("in ")
    if (seconds := duration(wait)) is not None:
        return once(int(now) + seconds, zone, f"once in {wait}")
    if lowered in _NICKNAMES or len(words.split()) == 5:
        return _expression(_NICKNAMES.get(lowered, words), words, now, zone)
    return _moment(words, now, zone)


def duration(text: str) -> int | None:
    """Seconds of `30m`, `2 hours`, `1d 12h`; None when it is none of these."""
    words = text.strip().lower()
    if _DURATION.fullmatch(words) is None:
        return None
    seconds = sum(int(number) * _SECONDS[unit[0]] for number, unit in _LENGTH.findall(words))
    if not 0 < seconds <= LONGEST:
        raise UsageError(f"{text.strip()} is no time to wait", hint=EXAMPLES)
    return seconds


def once(at: float, zone: tzinfo, display: str = "") -> Schedule:
    return Schedule("once", iso(at), display or f"once at {local(at, zone)}", float(at))


def next_after(schedule: Schedule, instant: float, zone: tzinfo) -> float | None:
    """The first instant of the schedule after this one; None when there is none."""
    match schedule.kind:
        case "once":
            return schedule.at if schedule.at > instant else None
        case "interval":
            passed = max(0, int((instant - schedule.at) // schedule.seconds))
            return schedule.at + (passed + 1) * schedule.seconds
        case "cron":
            return next(_instants(schedule.expr, instant, zone), None)


def last_until(schedule: Schedule, instant: float, first: float, zone: tzinfo) -> float:
    """The last instant of the schedule from `first`, which is one, until this one."""
    if schedule.kind == "once" or instant <= first:
        return first
    if schedule.kind == "interval":
        passed = int((instant - schedule.at) // schedule.seconds)
        return max(first, schedule.at + passed * schedule.seconds)
    for back in _LOOKS_BACK:
        found = deque(_until(schedule, max(first, instant - back) - 1, instant, zone), maxlen=1)
        if found:
            return max(first, found[0])
    return first


def between(schedule: Schedule, first: float, last: float, zone: tzinfo) -> int:
    """How many instants there are from `first`, which is one, to before `last`; not more than
    `MOST_COUNTED`."""
    if last <= first:
        return 0
    found = _until(schedule, first, last - 1, zone)
    return 1 + sum(1 for _ in islice(found, MOST_COUNTED - 1))


def _until(schedule: Schedule, after: float, until: float, zone: tzinfo) -> Iterator[float]:
    instant = next_after(schedule, after, zone)
    while instant is not None and instant <= until:
        yield instant
        instant = next_after(schedule, instant, zone)


def _interval(words: str, length: str, now: float) -> Schedule:
    seconds = duration(length)
    if seconds is None and duration(f"1 {length}") is not None:
        seconds = duration(f"1 {length}")  # every hour
    if seconds is None:
        raise UsageError(
            f"{words!r} is no interval",
            hint="write `every 2h`, or for a time of day a cron expression such as `0 9 * * mon`",
        )
    if seconds < SHORTEST:
        raise UsageError("a job cannot run more often than every minute")
    return Schedule("interval", words, words, float(int(now)), seconds)


def _expression(expr: str, words: str, now: float, zone: tzinfo) -> Schedule:
    try:
        found = next(_instants(expr, now, zone), None)
    except CronSimError as error:
        if _has_other_months(expr, now, zone):
            raise UsageError(f"{expr!r} never happens: no such month has that day") from error
        raise UsageError(
            f"{expr!r} is no cron expression: {str(error).lower()}",
            hint="minute, hour, day of month, month, day of week, such as `0 9 * * 1-5`",
        ) from error
    if found is None:
        raise UsageError(f"{expr!r} never happens")
    return Schedule("cron", expr, words)


def _has_other_months(expr: str, now: float, zone: tzinfo) -> bool:
    minute, hour, day, month, weekday = expr.split()
    try:
        CronSim(f"0 0 1 {month} *", datetime.fromtimestamp(int(now), zone))
        return any(_instants(f"{minute} {hour} {day} * {weekday}", now, zone))
    except CronSimError:
        return False


def _moment(words: str, now: float, zone: tzinfo) -> Schedule:
    try:
        at = datetime.fromisoformat(words)
    except ValueError:
        raise UsageError(f"{words!r} is no schedule", hint=EXAMPLES) from None
    try:
        instant = float(int(at.timestamp() if at.tzinfo else _instant(at, zone)))
    except OverflowError:  # the first or last day there is
        instant = 0.0 if at.year < 1970 else LAST_INSTANT
    if instant >= LAST_INSTANT:
        raise UsageError(f"{words} is too far away", hint=EXAMPLES)
    if instant <= now:
        raise UsageError(f"{words} has passed: it is {local(now, zone)}", hint=EXAMPLES)
    return once(instant, zone)


def _instants(expr: str, after: float, zone: tzinfo) -> Iterator[float]:
    """Those of a cron expression after an instant. Raises `CronSimError`."""
    start = datetime.fromtimestamp(int(after // 1), zone)
    by_the_clock = expr.split()[1] not in ("*", "*/1")
    found = CronSim(expr, start.replace(tzinfo=None) if by_the_clock else start)
    previous = after
    for moment in found:
        instant = _instant(moment, zone) if by_the_clock else moment.timestamp()
        if instant > previous:  # two that are skipped may both happen right after the gap
            yield instant
            previous = instant


def _instant(naive: datetime, zone: tzinfo) -> float:
    """When a clock on the wall shows `naive` for the first time, or the end of the gap it is in."""
    for _ in range(2 * 24 * 60):  # a whole day was skipped once
        aware = naive.replace(tzinfo=zone, fold=0)
        if aware.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == naive:
            return aware.timestamp()
        naive = naive.replace(second=0) + timedelta(minutes=1)
    raise ValueError(f"{zone} skips {naive}")


def local(instant: float, zone: tzinfo) -> str:
    """For people."""
    return datetime.fromtimestamp(instant, zone).strftime("%Y-%m-%d %H:%M %Z").strip()


def iso(instant: float) -> str:
    """UTC with Z, and milliseconds where there are some."""
    moment = datetime.fromtimestamp(round(instant, 3), UTC)
    spec = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=spec).replace("+00:00", "Z")


def instant_of(text: Any) -> float | None:
    """Seconds since 1970 of a stored timestamp; None when it is none."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return round(float(text), 3) if 0 <= text < LAST_INSTANT else None
    try:
        moment = datetime.fromisoformat(text)
        return instant_of((moment if moment.tzinfo else moment.astimezone()).timestamp())
    except (TypeError, ValueError, OverflowError):
        return None


def to_record(schedule: Schedule) -> dict[str, Any]:
    found: dict[str, Any] = {
        "kind": schedule.kind,
        "expr": schedule.expr,
        "display": schedule.display,
    }
    if schedule.kind == "once":
        found["run_at"] = iso(schedule.at)
    if schedule.kind == "interval":
        minutes = schedule.seconds / 60
        found |= {"minutes": int(minutes) if minutes.is_integer() else minutes}
        found |= {"anchor": iso(schedule.at)}
    return found


def from_record(record: Any, created: float, zone: tzinfo) -> Schedule | None:
    """A stored schedule, also one of another writer; None when it says nothing we know."""
    if isinstance(record, str):
        record = {"expr": record}
    if not isinstance(record, dict):
        return None
    at = instant_of(record.get("run_at"))
    if at is not None:
        return once(at, zone, str(record.get("display") or ""))
    minutes = record.get("minutes")
    if isinstance(minutes, int | float) and 1 <= minutes * 60 <= LONGEST:
        words = str(record.get("display") or f"every {minutes:g}m")
        anchor = instant_of(record.get("anchor"))
        return Schedule(
            "interval",
            str(record.get("expr") or words),
            words,
            created if anchor is None else anchor,
            round(minutes * 60),
        )
    display = str(record.get("display") or "")
    expr = str(record.get("expr") or "")
    for text in (display if _NICKNAMES.get(display.lower()) == expr else "", expr, display):
        try:
            return parse_schedule(text, created, zone)
        except UsageError:
            continue
    return None
