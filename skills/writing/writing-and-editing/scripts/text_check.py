"""Find what often makes a text hard to read. Plain text or Markdown; code and quotes are skipped.

It reports: sentences that are too long, doubled words, filler words, chains of nouns with "of",
passive voice, paragraphs that are too long, sentences that start alike, places left open (TODO,
XXX, "lorem ipsum"), blanks before commas. The word lists are for English and German;
lengths and doubled words work in every language.
Exit code: 0 nothing found, 1 something was found, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CODE = re.compile(r"\A---\n.*?\n---\n|^(```|~~~).*?^\1[^\n]*$|`[^`\n]+`|<!--.*?-->", re.S | re.M)
LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^)\n]*\)|https?://\S+")
BLOCK = re.compile(r"^ *(?:#{1,6} |\||[-*+] |\d+[.)] |> )", re.MULTILINE)
ABBREVIATION = re.compile(
    r"\b(?:e\.g|i\.e|etc|vs|Dr|Mr|Mrs|Ms|Prof|No|Fig|approx|z\.B|d\.h|bzw|usw|Nr|ca|St)\.", re.I
)
SENTENCE = re.compile(r"[^.!?…]+(?:[.!?…]+[\"”’)]*|$)", re.DOTALL)
WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
TWICE = re.compile(r"\b([^\W\d_]{2,})(\s+)\1\b", re.IGNORECASE)
RIGHT_TWICE = {"had", "that", "die", "der", "das", "sie", "wir", "blah", "bora", "very"}
FILLERS = re.compile(
    r"\b(?:very|really|quite|basically|actually|literally|simply|obviously|clearly|of course|"
    r"in order to|due to the fact that|at this point in time|it is important to note that|"
    r"needless to say|utili[sz]e[sd]?|leverag(?:e|es|ed|ing)|eigentlich|grundsätzlich|quasi|"
    r"sozusagen|gewissermaßen|im Rahmen von|zum jetzigen Zeitpunkt)\b",
    re.IGNORECASE,
)
PASSIVE = re.compile(
    r"\b(?:is|are|was|were|been|being|be)\s+(?:\w+ly\s+)?(?:\w{3,}ed|done|made|given|taken|shown|"
    r"written|seen|known|found|built|kept|sent|held)\b",
    re.IGNORECASE,
)
CHAIN = re.compile(r"\b\w+ of (?:the |a |an )?\w+ of (?:the |a |an )?\w+ of\b", re.IGNORECASE)
OPEN = re.compile(r"\b(?:TODO|FIXME|XXX|TBD)\b|lorem ipsum|\?\?\?", re.IGNORECASE)
BLANK = re.compile(r"\w +[,;.](?:\s|$)")
WIDEST = 90


class Finding(NamedTuple):
    line: int
    kind: str
    text: str


def readable(text: str) -> str:
    """The prose; everything else becomes blanks, so that line numbers stay right."""

    def blank(found: re.Match[str]) -> str:
        # A piece of code in a sentence stands for a word.
        return re.sub(r"[^\n]", "x" if found[0][0] == "`" and not found[1] else " ", found[0])

    text = CODE.sub(blank, text)
    text = LINK.sub(lambda found: found[1] or "link", text)
    return ABBREVIATION.sub(lambda found: found[0].replace(".", " "), text)


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each; headings, list items and rows of tables stand for themselves."""
    lines: list[str] = []
    start = 1
    for number, row in enumerate([*text.splitlines(), ""], 1):
        if lines and (not row.strip() or BLOCK.match(row)):
            yield start, "\n".join(lines)
            lines = []
        if row.strip():
            start = start if lines else number
            lines.append(row)


def line_at(start: int, text: str, place: int) -> int:
    return start + text.count("\n", 0, place)


def short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def by_pattern(start: int, text: str) -> Iterator[Finding]:
    named = (("filler", FILLERS), ("passive", PASSIVE), ("chain of nouns", CHAIN))
    for kind, pattern in (*named, ("left open", OPEN), ("blank before a mark", BLANK)):
        for found in pattern.finditer(text):
            yield Finding(line_at(start, text, found.start()), kind, short(found[0]))
    for found in TWICE.finditer(text):
        if found[1].lower() not in RIGHT_TWICE:
            yield Finding(line_at(start, text, found.start()), "doubled word", short(found[0]))


def by_sentence(start: int, text: str, most: int) -> Iterator[Finding]:
    openings: list[str] = []
    for found in SENTENCE.finditer(text):
        words = WORD.findall(found[0])
        if not words:
            continue
        line = line_at(start, text, found.start() + len(found[0]) - len(found[0].lstrip()))
        if len(words) > most:
            yield Finding(line, f"{len(words)} words in a sentence", short(found[0]))
        openings = [*openings[-2:], words[0].lower()]
        if len(openings) == 3 and len(set(openings)) == 1:
            yield Finding(line, "three sentences start alike", words[0])
            openings = []


def check(text: str, options: argparse.Namespace) -> tuple[list[Finding], str]:
    prose = readable(text)
    found: list[Finding] = []
    words = sentences = 0
    for start, paragraph in paragraphs(prose):
        if paragraph.lstrip().startswith(("|", ">")):
            continue
        here = len(WORD.findall(paragraph))
        words += here
        sentences += sum(bool(WORD.search(each)) for each in SENTENCE.findall(paragraph))
        if here > options.paragraph:
            found.append(Finding(start, f"{here} words in a paragraph", short(paragraph)))
        if not paragraph.startswith("#"):
            found += by_sentence(start, paragraph, options.sentence)
        found += by_pattern(start, paragraph)
    average = words / sentences if sentences else 0
    minutes = max(round(words / 220), 1)
    facts = f"{words} words, {sentences} sentences, {average:.1f} words each, {minutes} min to read"
    return sorted(found), facts


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="- is standard input")
    parser.add_argument("--sentence", type=int, default=30, help="most words of a sentence (30)")
    parser.add_argument(
        "--paragraph", type=int, default=130, help="most words of a paragraph (130)"
    )
    parser.add_argument(
        "--skip", action="append", default=[], help="a kind to leave out: passive …"
    )
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        named = str(options.file) != "-"
        data = options.file.read_bytes() if named else sys.stdin.buffer.read()
        found, facts = check(data.decode("utf-8-sig").replace("\r\n", "\n"), options)
    except UnicodeError:
        print(f"error: {options.file} is no UTF-8 text", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found = [each for each in found if not any(skip in each.kind for skip in options.skip)]
    for each in found:
        print(f"line {each.line}: {each.kind}: {each.text}")
    print(f"{facts}; {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
