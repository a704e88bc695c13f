"""Check Markdown documentation: links to files and headings, images, headings, code fences.

  check_docs.py README.md docs/
It reports links to files and headings that are not there, pictures that are missing or have no
description, code fences that are not closed or name no language, skipped levels of headings,
several first-level headings, TODO marks. Addresses on the web are listed with --urls, not fetched.
Exit code: 0 nothing found, 1 something was found, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(\s*<?([^)\s>]*)>?(?:\s+[\"'(][^)]*)?\)")
REFERENCE = re.compile(r" {0,3}\[([^\]^]+)\]:\s*<?(\S+?)>?(?:\s+[\"'(].*)?$")
USED = re.compile(r"\[((?:[^\[\]])+)\]\[([^\]]*)\]")
ANCHOR = re.compile(r"<a\s+(?:name|id)=[\"']([^\"']+)|<\w+[^>]*\sid=[\"']([^\"']+)")
MARK = re.compile(r"\b(TODO|FIXME|XXX|TBD)\b")
SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")
INLINE = re.compile(r"(`+)(.+?)\1(?!`)")


class Page:
    """One file: its headings, its links, and what is wrong with its form."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.levels: list[tuple[int, int]] = []
        self.anchors: set[str] = set()
        self.links: list[tuple[int, bool, str, str]] = []
        self.wrong: list[tuple[int, str]] = []
        self._used: list[tuple[int, str]] = []
        self._references: set[str] = set()
        self._read(file.read_bytes().decode("utf-8-sig", "replace").splitlines())
        for line, name in self._used:
            if name.lower() not in self._references:
                self.wrong.append((line, f"no reference [{name}] is defined"))

    def _read(self, rows: list[str]) -> None:
        fence, opened = "", 0
        start = self._head(rows)
        for line, row in enumerate(rows[start:], start + 1):
            found = FENCE.fullmatch(row)
            if fence:
                if found and found[1].startswith(fence) and not found[2].strip():
                    fence = ""
            elif found and not (found[1][0] == "`" and "`" in found[2]):
                fence, opened = found[1], line
                if not found[2].strip():
                    self.wrong.append((line, "the code block names no language"))
            else:
                self._prose(line, row)
        if fence:
            self.wrong.append((opened, "the code block is never closed"))

    def _head(self, rows: list[str]) -> int:
        if rows[:1] == ["---"] and "---" in rows[1:]:
            return rows.index("---", 1) + 1
        return 0

    def _prose(self, line: int, row: str) -> None:
        heading = HEADING.fullmatch(row)
        if heading:
            self.levels.append((line, len(heading[1])))
            self._anchor(heading[2])
        self.anchors |= {a or b for a, b in ANCHOR.findall(row)}
        text = INLINE.sub("", row)
        reference = REFERENCE.fullmatch(text)
        if reference:
            self._references.add(reference[1].lower())
            self.links.append((line, False, reference[1], reference[2]))
            return
        self.links += [(line, bool(mark), label, to) for mark, label, to in LINK.findall(text)]
        self._used += [(line, name or label) for label, name in USED.findall(text)]
        if MARK.search(text):
            self.wrong.append((line, f"left open: {row.strip()[:80]}"))

    def _anchor(self, title: str) -> None:
        name = base = slug(title)
        number = 0
        while name in self.anchors:
            number += 1
            name = f"{base}-{number}"
        self.anchors.add(name)


def slug(title: str) -> str:
    """The anchor that GitHub and most generators make of a heading."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", title)
    text = unicodedata.normalize("NFC", text).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def form(page: Page) -> Iterator[tuple[int, str]]:
    yield from page.wrong
    tops = [line for line, level in page.levels if level == 1]
    for line in tops[1:]:
        yield line, "a second heading of the first level"
    before = 0
    for line, level in page.levels:
        if before and level > before + 1:
            yield line, f"a heading of level {level} follows one of level {before}"
        before = level


def links(page: Page, pages: dict[Path, Page]) -> Iterator[tuple[int, str]]:
    for line, picture, label, target in page.links:
        if picture and not label.strip():
            yield line, f"the picture {target} has no description"
        if not target:
            yield line, f"the link [{label}] leads nowhere"
        elif not SCHEME.match(target):
            yield from local(page, pages, line, target)


def local(page: Page, pages: dict[Path, Page], line: int, target: str) -> Iterator[tuple[int, str]]:
    path, _, anchor = unquote(target).partition("#")
    path = path.partition("?")[0]
    if path.startswith("/"):
        return  # depends on the site
    file = page.file.parent / path if path else page.file
    if not there(file):
        yield line, f"no file {path[:80]}"
        return
    file = file.resolve()
    other = pages.get(file)
    if other is None and anchor and file.suffix.lower() == ".md":
        other = pages[file] = Page(file)
    if anchor and other and anchor.lower() not in {each.lower() for each in other.anchors}:
        yield line, f"no heading #{anchor} in {file.name}"


def there(file: Path) -> bool:
    try:
        return file.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def markdown(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = (each for each in sorted(path.rglob("*.md")) if each.is_file())
            found += [
                each
                for each in inside
                if not any(part.startswith(".") or part == "node_modules" for part in each.parts)
            ]
        else:
            found.append(path)
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path, help="Markdown files or folders")
    parser.add_argument("--urls", action="store_true", help="list addresses on the web instead")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        pages = {file.resolve(): Page(file) for file in markdown(options.paths)}
        chosen = list(pages.values())
        if options.urls:
            urls = {to for page in chosen for *_, to in page.links if to.startswith("http")}
            print("\n".join(sorted(urls)))
            return 0
        found = [
            (page.file, line, text)
            for page in chosen
            for line, text in sorted({*form(page), *links(page, pages)})
        ]
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for file, line, text in found:
        print(f"{file}:{line}: {text}")
    print(f"{len(chosen)} files, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
