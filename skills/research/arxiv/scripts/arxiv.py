"""Search arXiv and print papers, through its public Atom API.

Plain words must all occur; a phrase is one argument in quotes; field prefixes (ti: au: abs: cat:)
may be written by hand. Examples:

  arxiv.py graph neural networks --category cs.LG --since 2024-01-01 --sort submitted
  arxiv.py "ti:chain of thought" --author wei --format markdown
  arxiv.py --id 1706.03762 --format bibtex
  arxiv.py --file feed.xml                     (an answer that was saved before)

Exit code: 0 papers were printed, 1 nothing was found, 2 an error.
"""
# ruff: noqa: T201, UP017 - prints its answer; runs on older Pythons too

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

API = "https://export.arxiv.org/api/query"
AGENT = "Mozilla/5.0 (compatible; hermes-skill-arxiv/1.0)"
ATOM = "{http://www.w3.org/2005/Atom}"
ARXIV = "{http://arxiv.org/schemas/atom}"
TOTAL = "{http://a9.com/-/spec/opensearch/1.1/}totalResults"
SORT = {"relevance": "relevance", "submitted": "submittedDate", "updated": "lastUpdatedDate"}
PREFIXED = re.compile(r"(ti|au|abs|co|jr|cat|rn|id|all|submittedDate):", re.IGNORECASE)
ID = re.compile(r"(\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(v\d+)?")
SECONDS = 30
MOST_BYTES = 20_000_000


class Problem(Exception):
    """Something the user has to correct, or a service that does not answer."""


@dataclass
class Paper:
    id: str
    version: str
    title: str
    authors: list[str]
    published: str
    updated: str
    categories: list[str]
    abstract: str
    comment: str
    journal: str
    doi: str

    @property
    def page(self) -> str:
        return f"https://arxiv.org/abs/{self.id}"

    @property
    def pdf(self) -> str:
        return f"https://arxiv.org/pdf/{self.id}{self.version}"


def words(node: ET.Element, tag: str) -> str:
    return " ".join((node.findtext(tag) or "").split())


def paper(entry: ET.Element) -> Paper:
    address = words(entry, f"{ATOM}id")
    if "/api/errors" in address:
        raise Problem(f"arXiv refused the query: {words(entry, f'{ATOM}summary')}")
    found = ID.search(address)
    if not found:
        raise Problem(f"an entry without an arXiv id: {address!r}")
    categories = [node.get("term", "") for node in entry.findall(f"{ATOM}category")]
    return Paper(
        id=found[1],
        version=found[2] or "",
        title=words(entry, f"{ATOM}title"),
        authors=[words(node, f"{ATOM}name") for node in entry.findall(f"{ATOM}author")],
        published=words(entry, f"{ATOM}published")[:10],
        updated=words(entry, f"{ATOM}updated")[:10],
        categories=categories,
        abstract=words(entry, f"{ATOM}summary"),
        comment=words(entry, f"{ARXIV}comment"),
        journal=words(entry, f"{ARXIV}journal_ref"),
        doi=words(entry, f"{ARXIV}doi"),
    )


def read_feed(data: bytes) -> tuple[list[Paper], int]:
    """The papers of an Atom feed, and how many there are in all."""
    if b"<!ENTITY" in data:
        raise Problem("the feed declares entities; it is not from arXiv")
    try:
        root = ET.fromstring(data)
    except ET.ParseError as error:
        raise Problem(f"no Atom feed: {error}; it begins with {data[:60]!r}") from None
    if root.tag != f"{ATOM}feed":
        raise Problem(f"no Atom feed, its root is <{root.tag}>")
    papers = [paper(entry) for entry in root.findall(f"{ATOM}entry")]
    return papers, int(root.findtext(TOTAL) or len(papers))


def term(word: str) -> str:
    """One argument as a condition of the query language."""
    if PREFIXED.match(word):
        field, _, text = word.partition(":")
        bare = text.startswith(('"', "[", "("))
        return f'{field}:"{text}"' if " " in text and not bare else word
    return f'all:"{word}"' if " " in word else f"all:{word}"


def query(options: argparse.Namespace) -> str:
    parts = [term(word) for word in options.words if word.upper() != "AND"]
    named = (("ti", options.title), ("au", options.author), ("cat", options.category))
    parts += [term(f"{field}:{value}") for field, values in named for value in values]
    if options.since:
        first = options.since.replace("-", "")
        last = datetime.now(timezone.utc).strftime("%Y%m%d")
        parts.append(f"submittedDate:[{first}0000 TO {last}2359]")
    return " AND ".join(parts)


def address(options: argparse.Namespace) -> str:
    values = {"start": options.start, "max_results": options.max}
    if options.id:
        values["id_list"] = ",".join(plain_id(each) for each in options.id)
    search = query(options)
    if search:
        values.update(search_query=search, sortBy=SORT[options.sort], sortOrder="descending")
    elif not options.id:
        raise Problem("nothing to search for: give words, --title, --author, --category or --id")
    return f"{options.api}?{urllib.parse.urlencode(values)}"


def plain_id(text: str) -> str:
    """The id in `arXiv:1706.03762v5` or the address of a page."""
    found = ID.search(text)
    if not found:
        raise Problem(f"{text!r} is no arXiv id such as 1706.03762 or hep-th/9901001")
    return found[0]


def fetch(url: str) -> bytes:
    try:
        request = urllib.request.Request(url, headers={"User-Agent": AGENT})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return bytes(answer.read(MOST_BYTES))
    except urllib.error.HTTPError as error:
        wait = " Wait at least 3 seconds between calls." if error.code in (429, 503) else ""
        raise Problem(f"arXiv answered {error.code} {error.reason}.{wait}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Problem(f"no answer from {url.partition('?')[0]}: {error}") from None


def as_text(found: Paper, width: int) -> str:
    authors = ", ".join(found.authors[:6]) + (" et al." if len(found.authors) > 6 else "")
    dates = found.published
    if found.updated != found.published:
        dates += f" (updated {found.updated})"
    lines = [
        f"{found.id}{found.version}  {found.title}",
        f"    {authors}",
        f"    {dates}  [{', '.join(found.categories)}]",
        *(f"    {note}" for note in (found.journal, found.comment) if note),
        f"    {found.page}  {found.pdf}",
    ]
    if width:
        cut = found.abstract if len(found.abstract) <= width else found.abstract[:width] + " …"
        lines.append(f"    {cut}")
    return "\n".join(lines) + "\n"


def as_markdown(found: Paper, width: int) -> str:
    authors = ", ".join(found.authors[:3]) + (" et al." if len(found.authors) > 3 else "")
    line = f"- [{found.title}]({found.page}) ({authors}, {found.published[:4]}, arXiv:{found.id})"
    return line + (f"\n  {found.abstract[:width]}" if width else "")


def as_bibtex(found: Paper, _: int) -> str:
    last = re.sub(r"\W", "", found.authors[0].split()[-1].lower()) if found.authors else "anon"
    first_word = next(iter(re.findall(r"[A-Za-z]{4,}", found.title)), "paper").lower()
    fields = {
        "title": f"{{{found.title}}}",
        "author": " and ".join(found.authors),
        "year": found.published[:4],
        "eprint": found.id,
        "archivePrefix": "arXiv",
        "primaryClass": found.categories[0] if found.categories else "",
        "doi": found.doi,
        "journal": found.journal,
        "url": found.page,
    }
    body = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items() if value)
    return f"@misc{{{last}{found.published[:4]}{first_word},\n{body}}}\n"


def as_json(found: Paper, _: int) -> str:
    return json.dumps({**asdict(found), "page": found.page, "pdf": found.pdf}, ensure_ascii=False)


FORMS = {"text": as_text, "markdown": as_markdown, "bibtex": as_bibtex, "json": as_json}


def day(text: str) -> str:
    datetime.strptime(text, "%Y-%m-%d")  # noqa: DTZ007 - only checked
    return text


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "words", nargs="*", help="words, phrases or conditions such as abs:attention"
    )
    parser.add_argument("--title", action="append", default=[], help="words of the title")
    parser.add_argument("--author", action="append", default=[], help="may be given several times")
    parser.add_argument("--category", action="append", default=[], help="such as cs.CL")
    parser.add_argument("--id", action="append", default=[], help="an arXiv id or address")
    parser.add_argument("--since", type=day, help="submitted on this day or later, YYYY-MM-DD")
    parser.add_argument("--sort", choices=SORT, default="relevance")
    parser.add_argument("--max", type=int, default=10, help="papers of one answer (10)")
    parser.add_argument("--start", type=int, default=0, help="skip this many, for the next page")
    parser.add_argument("--format", choices=FORMS, default="text")
    parser.add_argument("--abstract", type=int, default=300, help="characters of it (300; 0 none)")
    parser.add_argument("--file", type=Path, help="read a saved feed instead of asking arXiv")
    parser.add_argument("--api", default=API, help="address of the API")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        data = options.file.read_bytes() if options.file else fetch(address(options))
        papers, total = read_feed(data)
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for each in papers:
        print(FORMS[options.format](each, options.abstract))
    print(f"{len(papers)} of {total} papers", file=sys.stderr)
    return 0 if papers else 1


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
