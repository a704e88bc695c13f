"""Summarise a log: levels, time span, lines by hour, and messages grouped by their shape.

Reads plain text, JSON lines and access logs (common or combined form), also compressed with gzip;
- is standard input. Numbers, addresses, ids and quoted values are masked, so that lines which
differ only there count as one message.
Exit code: 0 done, 1 no line matched, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import re
import sys
import zlib
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Iterator, NamedTuple  # noqa: UP035 - runs on older Pythons too

ACCESS = re.compile(
    r'^(?P<client>\S+) \S+ \S+ \[(?P<time>[^\]]+)\] "(?P<request>[^"]*)" (?P<status>\d{3}) \S+'
)
TIMES = [
    (
        re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?"),
        ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"),
    ),
    (re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"), ("%Y/%m/%d %H:%M:%S",)),
    (re.compile(r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d"), ("%d/%b/%Y:%H:%M:%S",)),
    (re.compile(r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"), ("%Y %b %d %H:%M:%S",)),
]
LEVELS = ["fatal", "error", "warning", "info", "debug"]
LEVEL = re.compile(
    r"\b(?:(?P<fatal>fatal|crit(?:ical)?|emerg|alert|panic)|(?P<error>err(?:or)?|severe|exception)"
    r"|(?P<warning>warn(?:ing)?)|(?P<info>info|notice)|(?P<debug>debug|trace))\b",
    re.IGNORECASE,
)
MASKS = [
    (
        re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I),
        "<uuid>",
    ),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<ip>"),
    (re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.]+\b"), "<mail>"),
    (re.compile(r"\b(?:0x[0-9a-f]+|(?=[0-9a-f]*\d)[0-9a-f]{4,})\b", re.I), "<hex>"),
    (re.compile(r"\"[^\"]*\"|'[^']*'"), "<text>"),
    (re.compile(r"\d+"), "#"),
]
MESSAGE_KEYS = ("message", "msg", "event", "error", "text", "MESSAGE")
LEVEL_KEYS = ("level", "severity", "lvl", "levelname", "PRIORITY")
TIME_KEYS = ("time", "timestamp", "ts", "@timestamp", "date")
WIDTH = 160
LONGEST = 1000
"""Characters of a message that are compared."""


class Line(NamedTuple):
    """What is known of one line."""

    number: int
    file: str
    when: datetime | None
    level: str
    message: str
    status: str = ""
    path: str = ""
    client: str = ""


@dataclass
class Group:
    """Lines of one shape."""

    count: int = 0
    level: str = ""
    example: str = ""
    place: str = ""
    first: str = ""
    last: str = ""

    def add(self, line: Line) -> None:
        when = line.when.isoformat(" ") if line.when else ""
        if not self.count:
            self.level, self.example = line.level, line.message[:WIDTH]
            self.place, self.first = f"{line.file}:{line.number}", when
        self.count += 1
        self.last = when


@dataclass
class Summary:
    lines: int = 0
    first: datetime | None = None
    last: datetime | None = None
    levels: Counter[str] = field(default_factory=Counter)
    hours: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    clients: Counter[str] = field(default_factory=Counter)
    groups: dict[str, Group] = field(default_factory=dict)

    def add(self, line: Line) -> None:
        self.lines += 1
        self.levels[line.level or "unknown"] += 1
        if line.when:
            self.first = min(self.first or line.when, line.when)
            self.last = max(self.last or line.when, line.when)
            self.hours[line.when.strftime("%Y-%m-%d %H:00")] += 1
        if line.status:
            self.statuses[line.status] += 1
            self.clients[line.client] += 1
            self.paths[f"{line.status[0]}xx {line.path}"] += 1
        self.groups.setdefault(shape(line.message), Group()).add(line)


def shape(message: str) -> str:
    """The message with everything masked that differs from line to line."""
    message = message[:LONGEST]
    for pattern, mask in MASKS:
        message = pattern.sub(mask, message)
    return message[:WIDTH]


def time_in(text: str) -> tuple[datetime | None, str]:
    """The first time in the text, without its zone, and the text without it."""
    for pattern, forms in TIMES:
        found = pattern.search(text[:80])
        if not found:
            continue
        value = found.group().replace("T", " ", 1) if found.group()[0].isdigit() else found.group()
        if not value[0].isdigit():  # syslog leaves the year out
            value = f"{datetime.now().year} {value}"  # noqa: DTZ005 - logs are compared as written
        for form in forms:
            try:
                when = datetime.strptime(value, form)  # noqa: DTZ007 - the same
            except ValueError:
                continue
            rest = text[: found.start()] + text[found.end() :]
            return when, re.sub(
                r"^[\s.,\dZ+:\[\]-]*(?=[A-Za-z\[{(<\"'])", "", rest, count=1
            ).strip()
    return None, text.strip()


def level_of(text: str) -> str:
    found = LEVEL.search(text[:200])
    return found.lastgroup or "" if found else ""


def from_access(found: re.Match[str], file: str, number: int) -> Line:
    when, _ = time_in(found["time"])
    parts = found["request"].split(" ")
    path = (parts[1] if len(parts) > 1 else found["request"]).split("?")[0]
    status = found["status"]
    level = {"5": "error", "4": "warning"}.get(status[0], "info")
    message = f"{status} {parts[0]} {path}"
    return Line(number, file, when, level, message, status, path, found["client"])


def from_record(record: dict[str, Any], file: str, number: int) -> Line:
    def first(keys: tuple[str, ...]) -> str:
        return next((str(record[key]) for key in keys if record.get(key) not in (None, "")), "")

    message = first(MESSAGE_KEYS) or json.dumps(record, sort_keys=True)
    when, _ = time_in(first(TIME_KEYS))
    return Line(number, file, when, level_of(first(LEVEL_KEYS)), message)


def read_line(text: str, file: str, number: int) -> Line:
    access = ACCESS.match(text)
    if access:
        return from_access(access, file, number)
    if text.startswith("{"):
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            return from_record(record, file, number)
    when, message = time_in(text)
    return Line(number, file, when, level_of(message), message)


def rows(name: str) -> Iterator[tuple[int, str]]:
    if name == "-":
        stream: Any = sys.stdin.buffer
    else:
        with Path(name).open("rb") as opened:
            packed = opened.read(2) == b"\x1f\x8b"
        stream = gzip.open(name, "rb") if packed else Path(name).open("rb")  # noqa: SIM115 - closed below
    with io.TextIOWrapper(stream, encoding="utf-8", errors="replace") as lines:
        for number, row in enumerate(lines, 1):
            if row.strip():
                yield number, row.rstrip("\n")


def wanted(line: Line, options: argparse.Namespace) -> bool:
    if options.level and line.level not in LEVELS[: LEVELS.index(options.level) + 1]:
        return False
    if options.since and (line.when is None or line.when < options.since):
        return False
    if options.until and (line.when is None or line.when >= options.until):
        return False
    return not options.grep or bool(options.grep.search(line.message))


def as_json(summary: Summary, top: int) -> str:
    groups = sorted(summary.groups.values(), key=lambda group: -group.count)[:top]
    return json.dumps(
        {
            "lines": summary.lines,
            "first": summary.first.isoformat(" ") if summary.first else None,
            "last": summary.last.isoformat(" ") if summary.last else None,
            "levels": dict(summary.levels),
            "hours": dict(sorted(summary.hours.items())),
            "statuses": dict(summary.statuses),
            "paths": dict(summary.paths.most_common(top)),
            "clients": dict(summary.clients.most_common(top)),
            "messages": [vars(group) for group in groups],
        },
        indent=2,
    )


def as_text(summary: Summary, top: int) -> Iterator[str]:
    span = f", {summary.first} to {summary.last}" if summary.first else ", no times found"
    yield f"{summary.lines} lines{span}"
    yield "levels: " + ", ".join(f"{name} {count}" for name, count in summary.levels.most_common())
    if summary.statuses:
        yield "status: " + ", ".join(f"{code} {n}" for code, n in sorted(summary.statuses.items()))
        yield from table("paths", summary.paths, top)
        yield from table("clients", summary.clients, top)
    if summary.hours:
        most = max(summary.hours.values())
        yield "by hour:"
        for hour, count in sorted(summary.hours.items())[-48:]:
            yield f"  {hour} {count:>8} {'#' * max(1, 40 * count // most)}"
    yield "messages:"
    ranked = sorted(
        summary.groups.values(),
        key=lambda group: (LEVELS.index(group.level) if group.level else len(LEVELS), -group.count),
    )
    for group in ranked[:top]:
        seen = f" [{group.first} .. {group.last}]" if group.first else ""
        yield f"  {group.count:>6} x {group.level or '-'}{seen} {group.place}"
        yield f"           {group.example}"
    if len(ranked) > top:
        yield f"  ... {len(ranked) - top} more kinds of message"


def table(title: str, counts: Counter[str], top: int) -> Iterator[str]:
    yield f"{title}:"
    yield from (f"  {count:>6} {name}" for name, count in counts.most_common(top))


def moment(text: str) -> datetime:
    when, _ = time_in(text if ":" in text else f"{text} 00:00")
    if when is None:
        raise argparse.ArgumentTypeError(f"not a time: {text!r}; write it as 2024-05-31 14:00")
    return when


def expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"not a regular expression: {error}") from None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", help="log files, .gz too; - is standard input")
    parser.add_argument("--since", type=moment, help="from this time on, as in the log")
    parser.add_argument("--until", type=moment, help="before this time")
    parser.add_argument("--level", choices=LEVELS, help="this level and worse")
    parser.add_argument("--grep", type=expression, help="only messages that match")
    parser.add_argument("--top", type=int, default=10, help="entries of each list (10)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    summary = Summary()
    try:
        for name in options.files:
            for number, row in rows(name):
                line = read_line(row, name, number)
                if wanted(line, options):
                    summary.add(line)
    except (OSError, EOFError, zlib.error) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not summary.lines:
        print("no line matched", file=sys.stderr)
        return 1
    if options.json:
        print(as_json(summary, options.top))
    else:
        print("\n".join(as_text(summary, options.top)))
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
