"""Fetch one page, or read a saved one, and print its links, tables, text or chosen elements.

  scrape.py https://example.org/list --links
  scrape.py page.html --tables                       (each table as CSV)
  scrape.py page.html --select "div.item h2 a" --attr href
  scrape.py page.html --rows "div.item" --field name=h2 --field price=.price --field url=a@href

Selectors: tag, .class, #id, [attr], [attr=value], combined (a.big[href]), descendants by blanks.
For addresses robots.txt is obeyed. Use --save to keep the page and work on the copy.
Exit code: 0 something was printed, 1 nothing matched, 2 an error, 3 robots.txt forbids it.
"""
# ruff: noqa: T201, SIM905 - prints its answer; long lists of words

from __future__ import annotations

import argparse
import codecs
import csv
import http.client
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
import urllib.robotparser
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

AGENT = "hermes-skill-scrape/1.0 (+one page at a time)"
SECONDS = 30
MOST_BYTES = 20_000_000
VOID = set("area base br col embed hr img input link meta source track wbr".split())
SILENT = {"script", "style", "noscript", "template", "head"}
BLOCK = set(
    "p div section article header footer li ul ol tr table h1 h2 h3 h4 h5 h6 br pre dt dd".split()
)
CLOSES = {
    "li": {"li"},
    "p": {"p"},
    "tr": {"tr", "td", "th"},
    "td": {"td", "th"},
    "th": {"td", "th"},
    "option": {"option"},
    "dt": {"dt", "dd"},
    "dd": {"dt", "dd"},
}
WALLS = {"table", "ul", "ol", "dl", "select", "body", "html"}
SIMPLE = re.compile(r"([a-zA-Z][\w-]*|\*)?((?:[.#][\w-]+|\[[\w-]+(?:=[^\]]+)?\])*)")
PART = re.compile(r"([.#])([\w-]+)|\[([\w-]+)(?:=([^\]]+))?\]")


class Problem(Exception):
    """Something the user has to correct, or a page that cannot be had."""


class Forbidden(Problem):
    """robots.txt says no."""


@dataclass
class Element:
    tag: str
    attrs: dict[str, str] = field(default_factory=dict)
    parent: Element | None = None
    children: list[Element | str] = field(default_factory=list)

    def elements(self) -> Iterator[Element]:
        """All below this one, in the order of the page."""
        left = [child for child in self.children[::-1] if isinstance(child, Element)]
        while left:
            each = left.pop()
            yield each
            left += [child for child in each.children[::-1] if isinstance(child, Element)]

    def text(self) -> str:
        return " ".join("".join(self._pieces()).split())

    def lines(self) -> str:
        """With line breaks where blocks begin and end."""
        rows = (" ".join(row.split()) for row in "".join(self._pieces()).split("\n"))
        return "\n".join(row for row in rows if row)

    def _pieces(self) -> Iterator[str]:
        left: list[Element | str] = self.children[::-1]
        while left:
            each = left.pop()
            if isinstance(each, str):
                yield each if each == "\n" else each.replace("\n", " ")
            elif each.tag not in SILENT:
                edge = "\n" if each.tag in BLOCK else " " if each.tag in ("td", "th") else ""
                left += [edge, *each.children[::-1]]
                yield edge


class Tree(HTMLParser):
    """Builds elements, as forgiving as a browser in the common cases."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("#root")
        self.at = self.root

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        closes = CLOSES.get(tag, set())
        place: Element | None = self.at if closes else None
        while place and place.tag not in WALLS:
            if place.tag in closes and place.parent:
                self.at = place.parent
            place = place.parent
        made = Element(tag, {name: value or "" for name, value in attrs}, self.at)
        self.at.children.append(made)
        if tag not in VOID:
            self.at = made

    def handle_endtag(self, tag: str) -> None:
        place: Element | None = self.at
        while place and place.tag != tag:
            place = place.parent
        if place and place.parent:
            self.at = place.parent

    def handle_data(self, data: str) -> None:
        self.at.children.append(data)


def parse(page: str) -> Element:
    tree = Tree()
    tree.feed(page)
    tree.close()
    return tree.root


def simple(selector: str) -> tuple[str, list[tuple[str, str, str]]]:
    """A tag ("*" for any) and its conditions: (kind, name, value)."""
    found = SIMPLE.fullmatch(selector)
    if not found or not selector:
        raise Problem(f"the selector {selector!r} is not understood; see --help")
    conditions = [
        (mark or "[", name or key, value.strip("\"'"))
        for mark, name, key, value in PART.findall(found[2])
    ]
    return (found[1] or "*").lower(), conditions


def fits(element: Element, wanted: tuple[str, list[tuple[str, str, str]]]) -> bool:
    tag, conditions = wanted
    if tag not in ("*", element.tag):
        return False
    for kind, name, value in conditions:
        if kind == "." and name not in element.attrs.get("class", "").split():
            return False
        if kind == "#" and element.attrs.get("id") != name:
            return False
        if kind == "[" and (name not in element.attrs or value not in ("", element.attrs[name])):
            return False
    return True


def select(root: Element, selector: str) -> list[Element]:
    chain = [simple(part) for part in selector.split()]
    if not chain:
        raise Problem("the selector is empty")
    every = root.elements()
    return [each for each in every if fits(each, chain[-1]) and _above(each, root, chain[:-1])]


def _above(
    element: Element, root: Element, chain: list[tuple[str, list[tuple[str, str, str]]]]
) -> bool:
    left = list(chain)
    place = element.parent
    while left and place and place is not root:
        if fits(place, left[-1]):
            left.pop()
        place = place.parent
    return not left


def table_rows(table: Element) -> list[list[str]]:
    """Cells as text; a cell that spans is repeated, tables inside cells are text."""
    rows: list[list[str]] = []
    below: dict[int, tuple[int, str]] = {}
    for row in (each for each in table.elements() if each.tag == "tr"):
        if next(p for p in _parents(row) if p.tag == "table") is not table:
            continue
        cells: list[str] = []
        kept, below = below, {}
        own = [c for c in row.children if isinstance(c, Element) and c.tag in ("td", "th")]
        while own or len(cells) in kept:
            if len(cells) in kept:
                left, text = kept.pop(len(cells))
                if left > 1:
                    below[len(cells)] = (left - 1, text)
                cells.append(text)
                continue
            cell = own.pop(0)
            for _ in range(span(cell, "colspan")):
                if span(cell, "rowspan") > 1:
                    below[len(cells)] = (span(cell, "rowspan") - 1, cell.text())
                cells.append(cell.text())
        rows.append(cells)
    width = max(map(len, rows), default=0)
    return [row + [""] * (width - len(row)) for row in rows if any(row)]


def _parents(element: Element) -> Iterator[Element]:
    while element.parent:
        element = element.parent
        yield element


def span(cell: Element, name: str) -> int:
    text = cell.attrs.get(name, "1")
    return min(max(int(text), 1), 1000) if text.isdigit() else 1


def allowed(url: str) -> bool:
    parts = urllib.parse.urlsplit(url)
    address = urllib.parse.urlunsplit((parts.scheme, parts.netloc, "/robots.txt", "", ""))
    try:
        text = fetch(address)[0]
    except Problem as error:
        if "answered 4" in str(error):
            return True  # no rules
        raise
    rules = urllib.robotparser.RobotFileParser()
    rules.parse(text.splitlines())
    return rules.can_fetch(AGENT, url)


def fetch(url: str) -> tuple[str, str]:
    """The page and its final address."""
    try:
        request = urllib.request.Request(
            url, headers={"User-Agent": AGENT, "Accept": "text/html,*/*"}
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            data = answer.read(MOST_BYTES)
            charset = answer.headers.get_content_charset() or declared(data)
            return data.decode(charset, "replace"), answer.geturl()
    except urllib.error.HTTPError as error:
        raise Problem(f"{url} answered {error.code} {error.reason}") from None
    except LookupError as error:
        raise Problem(f"{url}: {error}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Problem(f"no answer from {url}: {error}") from None


def declared(data: bytes) -> str:
    if data.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    found = re.search(rb"<meta[^>]+charset=[\"']?([\w-]+)", data[:4000], re.IGNORECASE)
    return found[1].decode() if found else "utf-8"


def load(options: argparse.Namespace) -> tuple[str, str]:
    if not re.match(r"https?://", options.page):
        data = sys.stdin.buffer.read() if options.page == "-" else Path(options.page).read_bytes()
        return data.decode(declared(data), "replace"), options.base
    if options.save and options.save.exists() and not options.force:
        raise Problem(f"{options.save} is already there; use --force to replace it")
    if not allowed(options.page):
        raise Forbidden(f"robots.txt does not allow {options.page}")
    page, url = fetch(options.page)
    if options.save:
        # The mark at its start says UTF-8, whatever the page says of itself.
        options.save.write_text(page, encoding="utf-8-sig")
    return page, options.base or url


def absolute(base: str, address: str) -> str:
    try:
        return urllib.parse.urljoin(base, address)
    except ValueError:  # no address, such as http://[
        return address


def links(root: Element, base: str) -> list[list[str]]:
    found: dict[str, str] = {}
    for each in select(root, "a[href]"):
        url = absolute(base, each.attrs["href"].strip()).partition("#")[0]
        if url and not url.lower().startswith(("javascript:", "mailto:", "tel:")):
            found[url] = found.get(url) or each.text()
    return [[url, text] for url, text in found.items()]


def value(element: Element, attr: str, base: str) -> str:
    if not attr:
        return element.text()
    text = element.attrs.get(attr, "")
    return absolute(base, text) if attr in ("href", "src") and text else text


def records(root: Element, options: argparse.Namespace, base: str) -> list[dict[str, str]]:
    found = []
    for row in select(root, options.rows):
        record = {}
        for rule in options.field:
            name, _, rest = rule.partition("=")
            selector, _, attr = rest.partition("@")
            inside = select(row, selector) if selector else [row]
            record[name] = value(inside[0], attr, base) if inside else ""
        found.append(record)
    return found


def show(rows: list[list[str]], form: str) -> None:
    if form == "json":
        print(json.dumps(rows, ensure_ascii=False))
    else:
        csv.writer(sys.stdout, lineterminator="\n").writerows(rows)


def work(options: argparse.Namespace) -> bool:
    """True when something was printed."""
    page, base = load(options)
    root = parse(page)
    if options.tables:
        tables = [rows for each in select(root, "table") if (rows := table_rows(each))]
        for number, rows in enumerate(tables, 1):
            if options.tables in ("all", str(number)):
                print(f"# table {number}: {len(rows)} rows", file=sys.stderr)
                show(rows, options.format)
        return bool(tables) and (options.tables == "all" or int(options.tables) <= len(tables))
    if options.links:
        found = links(root, base)
        show(found, options.format)
        return bool(found)
    if options.rows:
        kept = records(root, options, base)
        if options.format == "json":
            print(json.dumps(kept, ensure_ascii=False, indent=1))
        else:
            names = [rule.partition("=")[0] for rule in options.field]
            show([names, *([each[name] for name in names] for each in kept)], "csv")
        return bool(kept)
    if options.select:
        values = [value(each, options.attr, base) for each in select(root, options.select)]
        print("".join(f"{each}\n" for each in values), end="")
        return bool(values)
    text = root.lines()
    print(text)
    return bool(text)


def number(text: str) -> str:
    return text if text == "all" else str(int(text))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", help="an address, a file, or - for standard input")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--text", action="store_true", help="the readable text (this is the default)")
    what.add_argument("--links", action="store_true", help="address and text of each link")
    what.add_argument("--tables", nargs="?", const="all", type=number, metavar="N")
    what.add_argument("--select", metavar="SELECTOR", help="text of the elements that fit")
    what.add_argument("--rows", metavar="SELECTOR", help="one record for each element that fits")
    parser.add_argument("--attr", default="", help="with --select: this attribute, not the text")
    parser.add_argument("--field", action="append", default=[], metavar="NAME=SELECTOR[@ATTR]")
    parser.add_argument("--format", choices=("csv", "json"), default="csv")
    parser.add_argument("--base", default="", help="address of a saved page, for relative links")
    parser.add_argument("--save", type=Path, help="keep the fetched page in this file")
    parser.add_argument("--force", action="store_true", help="replace the file of --save")
    options = parser.parse_args()
    if options.rows and not options.field:
        parser.error("--rows needs at least one --field")
    if not all(re.match(r"[^=]+=", rule) for rule in options.field):
        parser.error("--field is written as NAME=SELECTOR or NAME=SELECTOR@ATTR")
    return options


def main() -> int:
    options = arguments()
    try:
        return 0 if work(options) else 1
    except BrokenPipeError:
        raise
    except (Problem, OSError, LookupError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3 if isinstance(error, Forbidden) else 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
