"""Read news feeds: RSS, Atom and RDF, from addresses, files or an OPML list.

  feeds.py https://example.org/feed.xml --since 24h
  feeds.py --opml subscriptions.opml --since 2d --match "climate|energy" --format markdown
  feeds.py https://example.org/feed.xml --seen seen.json     (only what was not printed before)
  feeds.py https://example.org/                              (a page: its feeds are found and read)

Feeds that fail are named on standard error; the others are still read.
Exit code: 0 entries were printed, 1 there are none, 2 an error or every feed failed.
"""
# ruff: noqa: T201, UP017 - prints its answer; runs on older Pythons too

from __future__ import annotations

import argparse
import email.utils
import html
import http.client
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

AGENT = "hermes-skill-feeds/1.0"
SECONDS = 20
MOST_BYTES = 10_000_000
MOST_SEEN = 20_000
UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}
ALTERNATE = re.compile(r"<link\b[^>]*>", re.IGNORECASE)
EARLIEST = datetime.min.replace(tzinfo=timezone.utc)


class Problem(Exception):
    """A feed that cannot be read, or something the user has to correct."""


@dataclass
class Entry:
    feed: str
    title: str
    url: str
    when: datetime | None
    text: str
    id: str


def local(tag: str) -> str:
    return tag.rpartition("}")[2].lower()


def child(node: ET.Element, *names: str) -> ET.Element | None:
    """The first child with one of these names, in the order of the names."""
    for name in names:
        found = next((each for each in node if local(each.tag) == name), None)
        if found is not None and ("".join(found.itertext()).strip() or found.get("href")):
            return found
    return None


def text(node: ET.Element, *names: str) -> str:
    found = child(node, *names)
    return "" if found is None else "".join(found.itertext()).strip()


def plain(markup: str) -> str:
    """HTML, also when it was escaped twice, as one line."""
    bare = re.sub(r"<[^>]+>", " ", html.unescape(markup))
    return " ".join(html.unescape(bare).split())


def time_of(written: str) -> datetime | None:
    if not written:
        return None
    try:
        found = email.utils.parsedate_to_datetime(written)
    except (TypeError, ValueError):
        clean = re.sub(r"\.\d+", "", written.strip()).replace("Z", "+00:00")
        try:
            found = datetime.fromisoformat(clean)
        except ValueError:
            return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def link(node: ET.Element) -> str:
    links = [each for each in node if local(each.tag) == "link"]
    best = [each for each in links if each.get("rel", "alternate") == "alternate"] or links
    for each in best:
        address = each.get("href") or (each.text or "")
        if address.strip():
            return address.strip()
    guid = child(node, "guid")
    permanent = guid is not None and guid.get("isPermaLink", "true") == "true"
    return text(node, "guid") if permanent and text(node, "guid").startswith("http") else ""


def entries(data: bytes, base: str) -> list[Entry]:
    if b"<!ENTITY" in data:
        raise Problem("it declares entities")
    try:
        root = ET.fromstring(data.lstrip())
    except ET.ParseError as error:
        raise Problem(f"no valid XML: {error}") from None
    if local(root.tag) not in ("rss", "rdf", "feed"):
        raise Problem(f"<{local(root.tag)}> is no feed")
    channel = child(root, "channel")
    name = plain(text(root if channel is None else channel, "title")) or base
    found = []
    for node in root.iter():
        if local(node.tag) in ("item", "entry"):
            url = urllib.parse.urljoin(base, link(node))
            title = plain(text(node, "title"))
            body = plain(text(node, "description", "summary", "encoded", "content"))
            when = time_of(text(node, "pubdate", "published", "date", "updated"))
            key = text(node, "guid", "id") or url or title
            found.append(Entry(name, title or body[:80], url, when, body, key))
    return found


def fetch(url: str) -> tuple[bytes, str]:
    try:
        request = urllib.request.Request(url, headers={"User-Agent": AGENT, "Accept": "*/*"})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return answer.read(MOST_BYTES), answer.geturl()
    except urllib.error.HTTPError as error:
        raise Problem(f"it answered {error.code} {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Problem(f"no answer: {error}") from None


def advertised(data: bytes, base: str) -> str:
    """The feed that a web page names; "" for none."""
    for tag in ALTERNATE.findall(data[:300_000].decode("utf-8", "replace")):
        kind = re.search(r"type=[\"']application/(rss|atom)\+xml", tag, re.IGNORECASE)
        href = re.search(r"href=[\"']([^\"']+)", tag, re.IGNORECASE)
        if kind and href:
            return urllib.parse.urljoin(base, html.unescape(href[1]))
    return ""


def read(place: str) -> list[Entry]:
    if not re.match(r"https?://", place):
        return entries(Path(place).expanduser().read_bytes(), "")
    data, url = fetch(place)
    if re.match(rb"\s*(<!doctype html|<html)", data, re.IGNORECASE):
        feed = advertised(data, url)
        if not feed:
            raise Problem("it is a web page that names no feed")
        data, url = fetch(feed)
    return entries(data, url)


def subscriptions(file: Path) -> list[str]:
    data = file.expanduser().read_bytes()
    if b"<!ENTITY" in data:
        raise Problem(f"{file} declares entities")
    try:
        root = ET.fromstring(data)
    except ET.ParseError as error:
        raise Problem(f"{file} is no OPML: {error}") from None
    found = [each.get("xmlUrl", "") for each in root.iter("outline")]
    return [each for each in found if each]


def moment(written: str) -> datetime:
    found = re.fullmatch(r"(\d+)([mhdw])", written)
    if found:
        return datetime.now(timezone.utc) - timedelta(seconds=int(found[1]) * UNITS[found[2]])
    when = datetime.fromisoformat(written)
    return when if when.tzinfo else when.astimezone()


def expression(written: str) -> re.Pattern[str]:
    try:
        return re.compile(written, re.IGNORECASE)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"no regular expression: {error}") from None


class Seen:
    """Ids that were printed before; the newest are kept."""

    def __init__(self, file: Path | None) -> None:
        self.file = file.expanduser().resolve() if file else None  # a link stays a link
        if self.file and self.file.exists() and not self.file.is_file():
            raise Problem(f"{file} is no file")
        try:
            known = json.loads(self.file.read_bytes()) if self.file and self.file.exists() else []
        except (ValueError, RecursionError):
            known = None
        if not isinstance(known, list):
            raise Problem(f"{file} was not written by this script; it is left as it is")
        self.ids = dict.fromkeys(map(str, known))

    def keep(self, found: list[Entry]) -> None:
        if self.file and found:
            self.ids.update(dict.fromkeys(each.id for each in found))
            new = self.file.with_name(self.file.name + ".new")
            new.write_text(json.dumps(list(self.ids)[-MOST_SEEN:]), encoding="utf-8")
            os.replace(new, self.file)  # noqa: PTH105 - replaces on every system


def chosen(found: list[Entry], options: argparse.Namespace, seen: Seen) -> list[Entry]:
    unique: dict[str, Entry] = {}
    for each in found:
        old = options.since and each.when and each.when < options.since
        fits = not options.match or options.match.search(f"{each.title} {each.text}")
        if not old and fits and each.id not in seen.ids:
            unique.setdefault(each.url or each.id, each)
    order = sorted(unique.values(), key=lambda each: each.when or EARLIEST, reverse=True)
    return order[: options.max]


def shown(each: Entry, options: argparse.Namespace) -> Iterator[str]:
    day = f"{each.when.astimezone(timezone.utc):%Y-%m-%d %H:%M}" if each.when else "no date"
    cut = each.text if len(each.text) <= options.text else each.text[: options.text] + " …"
    cut = "" if options.text <= 0 or cut == each.title else cut
    if options.format == "json":
        facts = {**each.__dict__, "when": each.when.isoformat() if each.when else None, "text": cut}
        yield json.dumps(facts, ensure_ascii=False)
    elif options.format == "markdown":
        yield f"- [{each.title}]({each.url}) ({each.feed}, {day[:10]})" + (
            f"\n  {cut}" if cut else ""
        )
    else:
        yield f"{day}  {each.feed}: {each.title}\n    {each.url}"
        if cut:
            yield f"    {cut}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("feeds", nargs="*", help="addresses or files")
    parser.add_argument("--opml", type=Path, help="a list of subscriptions")
    parser.add_argument("--since", type=moment, help="30m, 24h, 7d, 2w or 2024-05-01")
    parser.add_argument(
        "--match", type=expression, help="only entries with this pattern in title or text"
    )
    parser.add_argument("--seen", type=Path, metavar="FILE", help="leave out what is noted there")
    parser.add_argument("--max", type=int, default=50, help="most entries (50)")
    parser.add_argument(
        "--text", type=int, default=200, help="characters of the text (200; 0 none)"
    )
    parser.add_argument("--format", choices=("text", "markdown", "json"), default="text")
    options = parser.parse_args()
    if not options.feeds and not options.opml:
        parser.error("name a feed, or a list with --opml")
    return options


def main() -> int:
    options = arguments()
    found: list[Entry] = []
    failed = 0
    try:
        seen = Seen(options.seen)
        places = [*options.feeds, *(subscriptions(options.opml) if options.opml else [])]
        for place in places:
            try:
                found += read(place)
            except (Problem, OSError, ValueError) as error:
                failed += 1
                print(f"error: {place}: {error}", file=sys.stderr)
        kept = chosen(found, options, seen)
        for each in kept:
            print("\n".join(shown(each, options)))
        seen.keep(kept)
    except BrokenPipeError:
        raise
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if failed and failed == len(places):
        return 2
    print(f"{len(kept)} entries of {len(places) - failed} feeds", file=sys.stderr)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
