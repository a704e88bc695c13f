"""Check the quotations and references of a report against the sources that were saved.

The report is Markdown. Sources are numbered: `[1]` in the text, and a line in the list of sources
such as `[1] Title. https://example.org/page (read 2024-05-01)` or `1. Title https://…`. A quotation
is text in double quotes that is followed by its number: "two of three failed" [1]. The text of
source 1 was saved as `1.txt`, `1-some-name.md` or `1.html` in the folder of sources.

It finds: quotations that are not in their source, numbers without an entry, entries that nobody
cites, entries without an address, sources without a saved text.
Exit code: 0 all is well, 1 something was found, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import difflib
import html
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HEADING = re.compile(r"^#+ *(sources|references|quellen|bibliography)\b.*$", re.IGNORECASE | re.M)
ENTRY = re.compile(r"^ *(?:[-*] +)?(?:\[(\d+)\]:?|(\d+)[.)]) +(.*)$", re.MULTILINE)
CITED = re.compile(r"\[(\d+(?:\s*[,;]\s*\d+)*)\](?!\()")
QUOTED = re.compile(r"[\"“„]([^\"“”„]{8,}?)[\"”“]\s*[.,;]?\s*\[(\d+)\]", re.DOTALL)
TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]+>", re.DOTALL | re.IGNORECASE)
ELLIPSIS = re.compile(r"\s*(?:\[?…\]?|\[?\.\.\.\]?)\s*")
SAME = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00a0": " "})
CLOSE = 0.6
LONGEST = 2000
"""Characters of a sentence that is compared; a page without full stops would take hours."""


class Problem(Exception):
    """Something the user has to correct."""


def plain(text: str) -> str:
    """For comparison: one kind of quotes, dashes and blanks, small letters."""
    return " ".join(text.translate(SAME).replace("\u00ad", "").lower().split())


def saved(folder: Path) -> dict[int, str]:
    """The text of each source by its number."""
    if not folder.is_dir():
        raise Problem(f"{folder} is no folder")
    found: dict[int, str] = {}
    for file in sorted(folder.iterdir()):
        number = re.match(r"0*(\d+)(?=\D|$)", file.name)
        if file.is_file() and number:
            text = file.read_text(encoding="utf-8", errors="replace")
            if file.suffix.lower() in (".html", ".htm"):
                text = html.unescape(TAG.sub(" ", text))
            found[int(number[1])] = found.get(int(number[1]), "") + "\n" + text
    return found


def parts(report: str) -> tuple[str, dict[int, str]]:
    """The text before the list of sources, and its entries."""
    headings = list(HEADING.finditer(report))
    if not headings:
        raise Problem("the report has no heading `Sources` or `References`")
    body, tail = report[: headings[-1].start()], report[headings[-1].end() :]
    return body, {int(a or b): text.strip() for a, b, text in ENTRY.findall(tail)}


def missing(quotation: str, text: str) -> str:
    """The first piece of a quotation that is not in the text; "" when all are."""
    pieces = [piece for piece in ELLIPSIS.split(plain(quotation).strip(" .,;")) if piece]
    return next((piece for piece in pieces if piece not in text), "")


def nearest(piece: str, text: str) -> str:
    """What stands in the text instead, when there is something like it."""
    sentences = re.split(r"(?<=[.!?]) ", text)
    scored = [
        (difflib.SequenceMatcher(None, piece, each, autojunk=False).ratio(), each)
        for each in sentences
        if len(each) <= LONGEST and set(piece.split()) & set(each.split())
    ]
    best = max(scored, default=(0.0, ""))
    return best[1][:160] if best[0] >= CLOSE else ""


def findings(body: str, entries: dict[int, str], sources: dict[int, str]) -> Iterator[str]:
    texts = {number: plain(text) for number, text in sources.items()}
    for found in QUOTED.finditer(body):
        quotation, number = " ".join(found[1].split()), int(found[2])
        line = body.count("\n", 0, found.start()) + 1
        if number in texts:
            piece = missing(quotation, texts[number])
            if piece:
                like = nearest(piece, texts[number])
                hint = f'; the source says: "{like}"' if like else ""
                yield f'line {line}: not in source {number}: "{piece}"{hint}'
    cited = {int(n) for group in CITED.findall(body) for n in re.findall(r"\d+", group)}
    for number in sorted(cited - set(entries)):
        yield f"[{number}] is cited, but not in the list of sources"
    for number in sorted(set(entries) - cited):
        yield f"source {number} is never cited"
    for number, text in sorted(entries.items()):
        if "://" not in text and "doi" not in text.lower():
            yield f"source {number} has no address"
        if number not in sources:
            yield f"source {number} was not saved"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path, help="the Markdown file")
    parser.add_argument("sources", type=Path, help="the folder with 1.txt, 2-name.md, …")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        body, entries = parts(options.report.read_text(encoding="utf-8"))
        sources = saved(options.sources)
    except UnicodeError:
        print(f"error: {options.report} is no UTF-8 text", file=sys.stderr)
        return 2
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found = list(findings(body, entries, sources))
    for line in found:
        print(line)
    quotations = len(QUOTED.findall(body))
    print(f"{quotations} quotations, {len(entries)} sources, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
