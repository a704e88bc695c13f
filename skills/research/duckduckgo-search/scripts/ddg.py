"""Search the web with DuckDuckGo's page for browsers without JavaScript. No key is needed.

  ddg.py python asyncio timeout --max 8
  ddg.py "site:docs.python.org taskgroup" --time year --format json
  ddg.py --file saved.html                      (a page that was saved before)

Exit code: 0 results were printed, 1 there are none, 2 an error, 3 DuckDuckGo asks for a human.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

PAGE = "https://html.duckduckgo.com/html/"
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
TIMES = {"any": "", "day": "d", "week": "w", "month": "m", "year": "y"}
SECONDS = 20
MOST_BYTES = 5_000_000
ROBOT = ("anomaly-modal", "challenge-form", "Unfortunately, bots use DuckDuckGo too")


class Problem(Exception):
    """Something the user has to correct, or a service that does not answer."""


class Refused(Problem):
    """DuckDuckGo wants to see a human."""


def target(href: str) -> str:
    """The address behind DuckDuckGo's own link; "" for an advertisement."""
    url = urllib.parse.urljoin("https://duckduckgo.com/", href)
    parts = urllib.parse.urlsplit(url)
    if not (parts.hostname or "").endswith("duckduckgo.com"):
        return url
    real = urllib.parse.parse_qs(parts.query).get("uddg", [""])[0]
    host = urllib.parse.urlsplit(real).hostname or ""
    return "" if host.endswith("duckduckgo.com") else real


class Results(HTMLParser):
    """Collects title, address and excerpt of each result."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[dict[str, str]] = []
        self.page = False
        self._field = ""
        self._skip = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        classes = given.get("class", "").split()
        self.page = self.page or bool({"results", "no-results", "serp__results"} & set(classes))
        if tag == "div" and "result" in classes:
            self._skip = "result--ad" in classes
        if tag == "a" and "result__a" in classes:
            url = target(given.get("href", ""))
            self._skip = self._skip or not url
            if not self._skip:
                self.found.append({"title": "", "url": url, "text": ""})
                self._field = "title"
        elif "result__snippet" in classes and self.found and not self._skip:
            self._field = "text"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("a", "h2", "td"):
            self._field = ""

    def handle_data(self, data: str) -> None:
        if self._field:
            self.found[-1][self._field] += data


def read_page(page: str) -> list[dict[str, str]]:
    parser = Results()
    parser.feed(page)
    if not parser.found and any(mark in page for mark in ROBOT):
        raise Refused("DuckDuckGo asks for a human: wait some minutes, or use another search")
    if not parser.found and not parser.page:
        raise Problem("this is no page of results; DuckDuckGo may have changed it")
    unique = {each["url"]: each for each in reversed(parser.found)}
    clean = [{name: " ".join(v.split()) for name, v in each.items()} for each in unique.values()]
    return clean[::-1]


def fetch(options: argparse.Namespace) -> str:
    values = {"q": " ".join(options.words), "kl": options.region, "df": TIMES[options.time]}
    data = urllib.parse.urlencode(values).encode()
    headers = {"User-Agent": AGENT, "Accept-Language": "en;q=0.9", "Referer": options.page}
    try:
        request = urllib.request.Request(options.page, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return str(answer.read(MOST_BYTES).decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        kind = Refused if error.code in (403, 429) else Problem
        raise kind(f"DuckDuckGo answered {error.code} {error.reason}: wait some minutes") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Problem(f"no answer from {options.page}: {error}") from None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="what to search for")
    parser.add_argument("--max", type=int, default=10, help="most results (10)")
    parser.add_argument("--time", choices=TIMES, default="any", help="not older than this")
    parser.add_argument("--region", default="wt-wt", help="such as us-en, de-de; wt-wt is any")
    parser.add_argument("--format", choices=("text", "markdown", "json"), default="text")
    parser.add_argument("--file", type=Path, help="read a saved page instead of asking")
    parser.add_argument("--page", default=PAGE, help="address of the search page")
    options = parser.parse_args()
    if not options.words and not options.file:
        parser.error("nothing to search for")
    return options


def show(results: list[dict[str, str]], form: str) -> None:
    if form == "json":
        print(json.dumps(results, ensure_ascii=False, indent=1))
        return
    for number, each in enumerate(results, 1):
        if form == "markdown":
            print(f"{number}. [{each['title']}]({each['url']}): {each['text']}")
        else:
            print(f"{number}. {each['title']}\n   {each['url']}\n   {each['text']}\n")


def main() -> int:
    options = arguments()
    try:
        page = (
            options.file.read_text(encoding="utf-8", errors="replace")
            if options.file
            else fetch(options)
        )
        results = read_page(page)[: options.max]
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3 if isinstance(error, Refused) else 2
    show(results, options.format)
    if not results:
        print("no results", file=sys.stderr)
    return 0 if results else 1


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
