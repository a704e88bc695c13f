"""Check training data for chat models: JSON Lines with `messages`, or `prompt`/`chosen`/`rejected`.

  check_chat_data.py train.jsonl
  check_chat_data.py train.jsonl --held-out eval.jsonl --words 4000

Finds broken lines, wrong roles, empty answers, repeated examples, pairs whose answers are equal,
overlap with the held-out file (same text, or a run of 13 words), and long examples.
Exit code: 0 nothing found, 1 findings, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROLES = {"system", "developer", "user", "assistant", "tool"}
RUN = 13
"""Words: as many in a row are the usual sign of an example that was copied."""
SHOWN = 5


def content_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def as_messages(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, str):
        return [{"role": "assistant", "content": value}]
    return value if isinstance(value, list) else []


def wrong_messages(messages: list[Any]) -> Iterator[str]:
    if not messages or not all(isinstance(each, dict) for each in messages):
        yield "no messages"
        return
    roles = [each.get("role") for each in messages]
    unknown = sorted({str(role) for role in roles if role not in ROLES})
    if unknown:
        yield f"unknown role {', '.join(unknown)}"
    if "system" in roles[1:]:
        yield "a system message that is not the first"
    if roles[-1] != "assistant":
        yield "does not end with an answer"
    if any(roles[at] == roles[at + 1] == "user" for at in range(len(roles) - 1)):
        yield "two questions in a row"
    for each in messages:
        said = content_of(each).strip() or each.get("tool_calls")
        if each.get("role") == "assistant" and not said:
            yield "an empty answer"


def wrong(row: dict[str, Any]) -> Iterator[str]:
    """What is wrong with one example."""
    if "messages" in row:
        yield from wrong_messages(as_messages(row["messages"]))
    elif {"chosen", "rejected"} <= set(row):
        chosen, rejected = (as_messages(row[name]) for name in ("chosen", "rejected"))
        yield from wrong_messages(chosen)
        if chosen == rejected:
            yield "chosen and rejected are equal"
    elif "prompt" not in row:
        yield "has no messages, prompt, or chosen and rejected"


def text_of(row: dict[str, Any]) -> str:
    parts = [as_messages(row.get(name)) for name in ("prompt", "messages", "chosen")]
    texts = [content_of(each) for part in parts for each in part if isinstance(each, dict)]
    return " ".join(" ".join(texts).lower().split())


def rows_of(file: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Line number and object; None for a line that is no JSON object."""
    with file.open(encoding="utf-8-sig") as opened:
        for number, line in enumerate(opened, 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    row = None
                yield number, row if isinstance(row, dict) else None


def runs(text: str) -> set[int]:
    words = re.findall(r"\w+", text)
    return {hash(tuple(words[at : at + RUN])) for at in range(len(words) - RUN + 1)}


def check(options: argparse.Namespace) -> tuple[int, list[tuple[str, list[int]]]]:
    held: set[int] = set()
    for _, row in rows_of(options.held_out) if options.held_out else ():
        text = text_of(row or {})
        held |= {hash(text), *runs(text)}
    found: dict[str, list[int]] = {}
    seen: Counter[str] = Counter()
    count = 0
    for number, row in rows_of(options.file):
        count += 1
        reasons = ["is no JSON object"] if row is None else list(wrong(row))
        text = text_of(row or {})
        seen[text] += 1
        if text and seen[text] > 1:
            reasons.append("was there before")
        if text and held & {hash(text), *runs(text)}:
            reasons.append("overlaps with the held-out file")
        if len(text.split()) > options.words:
            reasons.append(f"has more than {options.words} words")
        for reason in reasons:
            found.setdefault(reason, []).append(number)
    return count, sorted(found.items(), key=lambda item: -len(item[1]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the training data, JSON Lines")
    parser.add_argument("--held-out", type=Path, help="the evaluation data, never to be trained on")
    parser.add_argument("--words", type=int, default=3000, help="more are reported (3000)")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        count, found = check(options)
    except UnicodeError:
        print("error: the file is no UTF-8 text", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for reason, lines in found:
        places = ", ".join(map(str, lines[:SHOWN])) + (", …" if len(lines) > SHOWN else "")
        print(f"!! {len(lines)} x {reason}: line {places}")
    print(f"{count} examples, {len({n for _, lines in found for n in lines})} with findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
