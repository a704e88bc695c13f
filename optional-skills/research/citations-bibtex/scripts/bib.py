"""Check a BibTeX file, find entries nobody cites, fetch BibTeX for a DOI.

  bib.py check refs.bib
  bib.py check refs.bib --text paper.tex --text chapter.md   (cited but missing, never cited)
  bib.py doi 10.1038/nature14539 >> refs.bib
Exit code: 0 nothing found, 1 something was found, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import http.client
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

DOI_HOST = "https://doi.org"
AGENT = "hermes-skill-bib/1.0"
SECONDS = 30
START = re.compile(r"@\s*(\w+)\s*[{(]", re.MULTILINE)
DOI = re.compile(r"10\.\d{4,9}/[^\s\"<>{}]+")
LATEX = re.compile(r"\\(?:[a-zA-Z]*cite[a-zA-Z]*|nocite)\*?(?:\[[^\]]*\])*\{([^}]+)\}")
PANDOC = re.compile(r"(?<![\w.])-?@([A-Za-z][\w:.#$%&+?<>~/-]*[\w])")
NEEDED = {
    "article": ("author", "title", "journal", "year"),
    "book": ("title", "publisher", "year"),
    "inproceedings": ("author", "title", "booktitle", "year"),
    "incollection": ("author", "title", "booktitle", "publisher", "year"),
    "phdthesis": ("author", "title", "school", "year"),
    "mastersthesis": ("author", "title", "school", "year"),
    "techreport": ("author", "title", "institution", "year"),
}
SAME = {"journal": "journaltitle", "year": "date", "school": "institution"}


class Problem(Exception):
    """Something the user has to correct, or a service that does not answer."""


@dataclass
class Item:
    kind: str
    key: str
    line: int
    fields: dict[str, str] = field(default_factory=dict)


def items(text: str) -> Iterator[Item]:
    for found in START.finditer(text):
        kind = found[1].lower()
        if kind in ("comment", "preamble", "string"):
            continue
        line = text.count("\n", 0, found.start()) + 1
        body = braced(text, found.end(), line)
        key, _, rest = body.partition(",")
        yield Item(kind, key.strip(), line, dict(pairs(rest)))


def braced(text: str, start: int, line: int) -> str:
    depth = 1
    for place in range(start, len(text)):
        sign = text[place]
        if text[place - 1] == "\\":
            continue
        depth += (sign in "{(" and (sign == "{" or depth == 0)) - (sign == "}")
        if depth == 0:
            return text[start:place]
        if sign == "@" and text[place - 1] == "\n" and START.match(text, place):
            break
    raise Problem(f"line {line}: the entry is not closed; count its braces")


def pairs(body: str) -> Iterator[tuple[str, str]]:
    place = 0
    while True:
        found = re.compile(r"\s*,?\s*([\w-]+)\s*=\s*").match(body, place)
        if not found:
            return
        place = end_of_value(body, found.end())
        value = body[found.end() : place].strip().rstrip(",").strip()
        yield found[1].lower(), " ".join(value.strip('{}"').split())


def end_of_value(body: str, place: int) -> int:
    depth, quoted = 0, False
    while place < len(body):
        sign = body[place]
        if sign == '"' and depth == 0:
            quoted = not quoted
        depth += (sign == "{") - (sign == "}")
        if sign == "," and depth == 0 and not quoted:
            return place
        place += 1
    return place


def plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\\[a-z]+", "", text.lower()))


def form(found: list[Item]) -> Iterator[str]:
    keys: dict[str, int] = {}
    dois: dict[str, str] = {}
    titles: dict[str, str] = {}
    for item in found:
        where = f"line {item.line}: {item.key or '(no key)'}"
        if not item.key:
            yield f"{where}: the entry has no key"
        if item.key.lower() in keys:
            yield f"{where}: the key is used in line {keys[item.key.lower()]} too"
        keys.setdefault(item.key.lower(), item.line)
        for name in NEEDED.get(item.kind, ("title",)):
            if not item.fields.get(name) and not item.fields.get(SAME.get(name, "")):
                yield f"{where}: {item.kind} without {name}"
        year = item.fields.get("year", "")
        if year and not re.fullmatch(r"\d{4}", year):
            yield f"{where}: the year {year!r} is no number"
        for kind, seen, value in (
            ("DOI", dois, item.fields.get("doi", "").lower()),
            ("title", titles, plain(item.fields.get("title", ""))),
        ):
            if value and value in seen:
                yield f"{where}: the same {kind} as {seen[value]}"
            if value:
                seen.setdefault(value, item.key)


def text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise Problem(f"{file} is no UTF-8 text") from None


def cited(files: list[Path]) -> set[str]:
    found: set[str] = set()
    for file in files:
        text = text_of(file)
        found |= {key.strip() for group in LATEX.findall(text) for key in group.split(",")}
        if file.suffix.lower() != ".tex":
            found |= set(PANDOC.findall(text))
    return found - {"*"}


def check(options: argparse.Namespace) -> int:
    found = list(items(text_of(options.file)))
    lines = list(form(found))
    if options.text:
        keys, used = {item.key for item in found}, cited(options.text)
        lines += [f"{key}: cited, but not in the file" for key in sorted(used - keys)]
        lines += [f"{key}: never cited" for key in sorted(keys - used)]
    print("\n".join([*lines, f"{len(found)} entries, {len(lines)} findings"]))
    return 1 if lines else 0


def doi(options: argparse.Namespace) -> int:
    found = DOI.search(urllib.parse.unquote(options.doi))
    if not found:
        raise Problem(f"{options.doi!r} is no DOI such as 10.1038/nature14539")
    url = f"{options.host}/{urllib.parse.quote(found[0].rstrip('.,;'))}"
    headers = {"Accept": "application/x-bibtex", "User-Agent": AGENT}
    try:
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            text = answer.read(1_000_000).decode("utf-8", "replace").strip()
    except urllib.error.HTTPError as error:
        reason = "it is not registered" if error.code == 404 else f"{error.code} {error.reason}"
        raise Problem(f"{found[0]}: {reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Problem(f"no answer from {options.host}: {error}") from None
    if not text.startswith("@"):
        raise Problem(f"{found[0]}: the answer is no BibTeX; this kind of DOI has none")
    print(re.sub(r", (?=\w+=\{)", ",\n  ", text))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    it = actions.add_parser("check", help="look for mistakes")
    it.set_defaults(run=check)
    it.add_argument("file", type=Path, help="the .bib file")
    it.add_argument("--text", action="append", default=[], type=Path, help="a text that cites")
    it = actions.add_parser("doi", help="BibTeX for a DOI")
    it.set_defaults(run=doi)
    it.add_argument("doi", help="the DOI or its address")
    it.add_argument("--host", default=DOI_HOST, help="the resolver")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return int(options.run(options))
    except BrokenPipeError:
        raise
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
