"""Show the shape of unknown JSON: every path with its types, how often it occurs, and an example.

Reads a JSON document or JSON lines from a file, or - for standard input. Lists are shown as [];
the paths can be used in jq as they are. Objects with very many keys that look like ids are shown
as one entry {key}.
Exit code: 0 done, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator  # noqa: UP035 - runs on older Pythons too

WIDEST = 60
MANY_KEYS = 25
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Problem(Exception):
    """Something the user has to correct."""


@dataclass
class Seen:
    """What was found at one path."""

    types: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def add(self, value: Any) -> None:
        self.types[kind(value)] += 1
        if isinstance(value, list):
            self.lengths.append(len(value))
        elif not isinstance(value, dict) and value is not None and len(self.examples) < 3:
            text = json.dumps(value, ensure_ascii=False)
            if text not in self.examples:
                self.examples.append(text if len(text) <= WIDEST else text[: WIDEST - 3] + "...")


def kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}
    return names[type(value)]


def key_path(path: str, key: str) -> str:
    plain = f".{key}" if PLAIN.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"
    if path == "." and plain.startswith("."):
        return plain
    return path + plain


def walk(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    yield path, value
    if depth == 0:
        return
    if isinstance(value, list):
        for item in value:
            yield from walk(item, "." + "[]" if path == "." else path + "[]", depth - 1)
    elif isinstance(value, dict):
        # A table keyed by ids would fill the screen with paths that say the same.
        table = len(value) > MANY_KEYS and len({kind(item) for item in value.values()}) == 1
        for key, item in value.items():
            place = path.rstrip(".") + ".{key}" if table else key_path(path, key)
            yield from walk(item, place, depth - 1)


def documents(text: str) -> list[Any]:
    """The document, or each line of JSON lines."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError as error:
        reason = explain(text, error)
    rows = [row for row in text.splitlines() if row.strip()]
    found = []
    for number, row in enumerate(rows, 1):
        try:
            found.append(json.loads(row))
        except json.JSONDecodeError as error:
            if number > 1:
                reason = f"line {number}: {error.msg}: {row[:WIDEST]!r}"
            raise Problem(reason) from None
    if not found:
        raise Problem(reason)
    return found


def explain(text: str, error: json.JSONDecodeError) -> str:
    start = text.lstrip()[:40]
    if not start:
        return "there is no input"
    if start.startswith("<"):
        return f"this is HTML or XML, not JSON: {start!r} (an error page? look at the status code)"
    around = text[max(0, error.pos - 20) : error.pos + 20]
    return f"no JSON: {error.msg} at line {error.lineno}, column {error.colno}, near {around!r}"


def lines(shape: dict[str, Seen]) -> Iterator[str]:
    for path, seen in shape.items():
        types = "|".join(name for name, _ in seen.types.most_common())
        count = sum(seen.types.values())
        facts = f"{path}  {types}  x{count}"
        if seen.lengths:
            facts += f"  length {min(seen.lengths)}..{max(seen.lengths)}"
        if seen.types["null"]:
            facts += f"  null x{seen.types['null']}"
        yield facts + (f"  e.g. {', '.join(seen.examples)}" if seen.examples else "")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", help="a JSON or JSON-lines file; - is standard input")
    parser.add_argument("--depth", type=int, default=12, help="levels to go down (12)")
    parser.add_argument("--paths", type=int, default=200, help="most paths to print (200)")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        data = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
        found = documents(data.decode("utf-8-sig"))
    except UnicodeError:
        print(f"error: {options.file} is no UTF-8 text", file=sys.stderr)
        return 2
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RecursionError:
        print("error: nested too deeply to be looked at", file=sys.stderr)
        return 2
    except ValueError as error:  # such as a number of thousands of digits
        print(f"error: {error}", file=sys.stderr)
        return 2
    shape: dict[str, Seen] = {}
    for document in found:
        for path, value in walk(document, ".", options.depth):
            shape.setdefault(path, Seen()).add(value)
    if len(found) > 1:
        print(f"{len(found)} JSON lines")
    for number, line in enumerate(lines(shape)):
        if number == options.paths:
            print(f"... {len(shape) - number} more paths (--paths, --depth)")
            break
        print(line)
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
