"""Profile a CSV or TSV file: encoding, delimiter, and for each column its type, gaps and values.

Reads the whole file once, row by row. Numbers may use a decimal point or comma. Also reports rows
with too many or too few fields, duplicate rows, mixed types and blanks around values.
Exit code: 0 done, 1 done but rows were broken, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import re
import sys
from array import array
from collections import Counter
from pathlib import Path
from typing import Any, Iterator  # noqa: UP035 - runs on older Pythons too

MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "?", "#n/a"}
BOOLEANS = {"true", "false", "yes", "no", "t", "f", "y", "n"}
INTEGER = re.compile(r"[+-]?\d+")
DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?")
COMMA = re.compile(r"[+-]?\d+,\d+")
GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
LOCAL_DATE = re.compile(r"\d{1,2}[./]\d{1,2}[./]\d{2,4}")
ENCODINGS = [(b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")]
DELIMITERS = ",;\t|"
MOST_DISTINCT = 10_000
MOST_ROWS_REMEMBERED = 1_000_000


class Problem(Exception):
    """Something the user has to correct."""


def kind_of(value: str) -> str:
    """The narrowest type of one value that is not missing."""
    if INTEGER.fullmatch(value):
        digits = value.lstrip("+-")
        return "code" if len(digits) > 1 and digits[0] == "0" else "integer"
    for kind, pattern in (
        ("decimal", DECIMAL),
        ("grouped number", GROUPED),
        ("decimal comma", COMMA),
        ("date", DATE),
        ("local date", LOCAL_DATE),
    ):
        if pattern.fullmatch(value):
            return kind
    return "boolean" if value.lower() in BOOLEANS else "text"


def number(value: str, kind: str) -> float | None:
    if kind in ("integer", "decimal"):
        return float(value)
    if kind == "grouped number":
        return float(value.replace(",", ""))
    return float(value.replace(",", ".")) if kind == "decimal comma" else None


class Column:
    """What was seen in one column."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = self.missing = self.blanks = self.longest = 0
        self.kinds: Counter[str] = Counter()
        self.values: Counter[str] = Counter()
        self.overflow = False
        self.numbers = array("d")
        self.first = self.last = ""

    def add(self, raw: str) -> None:
        self.count += 1
        value = raw.strip()
        self.blanks += value != raw
        if value.lower() in MISSING:
            self.missing += 1
            return
        kind = kind_of(value)
        self.kinds[kind] += 1
        self.longest = max(self.longest, len(value))
        found = number(value, kind)
        if found is not None and math.isfinite(found):
            self.numbers.append(found)
        if kind == "date":
            self.first = min(self.first or value, value)
            self.last = max(self.last, value)
        if value in self.values or len(self.values) < MOST_DISTINCT:
            self.values[value] += 1
        else:
            self.overflow = True

    @property
    def kind(self) -> str:
        kinds = set(self.kinds)
        if not kinds:
            return "empty"
        if len(kinds) == 1:
            return kinds.pop()
        if kinds == {"integer", "decimal"}:
            return "decimal"
        if kinds <= {"integer", "decimal", "grouped number"}:
            return "grouped number"
        if kinds <= {"code", "integer"}:
            return "code"
        # More words than anything else: text in which some values look like numbers.
        return "text" if 2 * self.kinds["text"] > sum(self.kinds.values()) else "mixed"

    def report(self, top: int) -> dict[str, Any]:
        out: dict[str, Any] = {
            "name": self.name,
            "type": self.kind,
            "missing": self.missing,
            "distinct": f">{MOST_DISTINCT}" if self.overflow else len(self.values),
        }
        if self.kind in ("mixed", "text") and len(self.kinds) > 1:
            out["mixed"] = dict(self.kinds.most_common())
        if self.numbers and self.kind not in ("text", "code"):
            out.update(numeric(self.numbers))
        if self.first:
            out["from"], out["to"] = self.first, self.last
        if self.blanks:
            out["blanks_around"] = self.blanks
        if not self.overflow and len(self.values) == self.count - self.missing > 1:
            out["unique"] = True
        else:
            out["top"] = dict(self.values.most_common(top))
        return out


def numeric(values: array[float]) -> dict[str, float]:
    ordered = sorted(values)
    count = len(ordered)
    mean = math.fsum(ordered) / count
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in ordered) / count)
    out = {"min": ordered[0], "p25": quantile(ordered, 0.25), "median": quantile(ordered, 0.5)}
    out.update({"p75": quantile(ordered, 0.75), "max": ordered[-1], "mean": mean, "std": spread})
    out["sum"] = math.fsum(ordered)
    return {name: round(value, 6) for name, value in out.items()}


def quantile(ordered: list[float], part: float) -> float:
    place = part * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def encoding_of(data: bytes) -> str:
    for mark, name in ENCODINGS:
        if data.startswith(mark):
            return name
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character may be cut in two at the end of the sample.
        return "utf-8" if error.start > len(data) - 4 else "cp1252"
    return "utf-8"


def delimiter_of(sample: str) -> str:
    """The delimiter that gives the same number of fields, more than one, in most lines."""
    best, score = ",", 0.0
    for mark in DELIMITERS:
        counts = [len(row) for row in csv.reader(io.StringIO(sample), delimiter=mark) if row][:200]
        if counts:
            usual, hits = Counter(counts).most_common(1)[0]
            value = hits / len(counts) * (usual > 1) * (1 + usual / 100)
            if value > score:
                best, score = mark, value
    return best


def rows_of(path: Path, encoding: str, delimiter: str) -> Iterator[list[str]]:
    with path.open(encoding=encoding, newline="", errors="replace") as file:
        yield from (row for row in csv.reader(file, delimiter=delimiter) if row)


def profile(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    with path.open("rb") as file:
        sample = file.read(1 << 18)
    if not sample.strip():
        raise Problem(f"{path} is empty")
    if sample.startswith(b"PK\x03\x04"):
        raise Problem(f"{path} is a zip or Excel file, not CSV; convert it first")
    encoding = options.encoding or encoding_of(sample)
    text = sample.decode(encoding, "replace")
    if "\0" in text:
        raise Problem(f"{path} is binary, or --encoding is needed (utf-16?)")
    delimiter = options.delimiter or delimiter_of(text.rpartition("\n")[0] or text)
    rows = rows_of(path, encoding, delimiter)
    head = next(rows, None)
    if head is None:
        raise Problem(f"{path} has no rows")
    columns = [Column(name.strip() or f"column {i}") for i, name in enumerate(head, 1)]
    count = duplicates = 0
    broken: list[int] = []
    seen: set[int] = set()
    for count, row in enumerate(rows, 1):
        if len(row) != len(columns):
            broken.append(count + 1)
        key = hash(tuple(row))
        duplicates += key in seen
        if len(seen) < MOST_ROWS_REMEMBERED:
            seen.add(key)
        for column, value in zip(columns, row):  # noqa: B905 - broken rows are counted above
            column.add(value)
    names = Counter(column.name for column in columns)
    return {
        "file": str(path),
        "encoding": encoding,
        "delimiter": delimiter,
        "rows": count,
        "broken_rows": len(broken),
        "broken_at_row": broken[:10],
        "duplicate_rows": duplicates,
        "repeated_names": [name for name, times in names.items() if times > 1],
        "columns": [column.report(options.top) for column in columns],
    }


def as_text(found: dict[str, Any]) -> Iterator[str]:
    delimiter = {"\t": "tab"}.get(found["delimiter"], found["delimiter"])
    size = f"{found['rows']} rows, {len(found['columns'])} columns"
    yield f"{found['file']}: {size}, encoding {found['encoding']}, delimiter {delimiter}"
    if found["broken_rows"]:
        places = ", ".join(map(str, found["broken_at_row"]))
        yield f"!! {found['broken_rows']} rows with another number of fields, first at row {places}"
    if found["duplicate_rows"]:
        yield f"!! {found['duplicate_rows']} duplicate rows"
    if found["repeated_names"]:
        yield f"!! column names used twice: {', '.join(found['repeated_names'])}"
    for column in found["columns"]:
        facts = {key: value for key, value in column.items() if key not in ("name", "type", "top")}
        shown = ", ".join(f"{key.replace('_', ' ')} {short(value)}" for key, value in facts.items())
        yield f"- {column['name'][:80]} ({column['type']}): {shown}"
        if column.get("top"):
            top = ", ".join(f"{value[:40]!r} x{count}" for value, count in column["top"].items())
            yield f"    top: {top}"


def short(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{count} {kind}" for kind, count in value.items()) + ")"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "file", type=Path, help="the CSV or TSV file, its first row holds the names"
    )
    parser.add_argument("--delimiter", help="one character (default: found by itself)")
    parser.add_argument(
        "--encoding", help="such as utf-8, cp1252, utf-16 (default: found by itself)"
    )
    parser.add_argument("--top", type=int, default=5, help="most frequent values to show (5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    csv.field_size_limit(1 << 28)
    try:
        found = profile(options.file, options)
    except (Problem, OSError, LookupError, csv.Error, UnicodeError, TypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found, indent=2) if options.json else "\n".join(as_text(found)))
    return 1 if found["broken_rows"] else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
