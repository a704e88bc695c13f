"""Print the text of a document: PDF, Word (.docx), PowerPoint (.pptx), OpenDocument (.odt, .odp,
.ods), EPUB, HTML, RTF or plain text.

For PDF the program pdftotext is used (package poppler-utils), or the Python package pypdf. The
kind is found by looking into the file, not by its name. `--stats` prints for each page or part how
many words it has; pages without words are pictures and need OCR.
Exit code: 0 done, 2 an error, 3 pages without text were found: use OCR for them.
"""
# ruff: noqa: T201, SIM905 - prints its answer; a long list of words

from __future__ import annotations

import argparse
import importlib
import os
import posixpath
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:"
TEXT, TABLE = f"{OFFICE}text:1.0}}", f"{OFFICE}table:1.0}}"
OPF = "{http://www.idpf.org/2007/opf}"
BREAKS = set("p div br li tr h1 h2 h3 h4 h5 h6 table section blockquote dt dd".split())
MOST_BYTES = 300_000_000
RTF_SKIP = {"fonttbl", "colortbl", "stylesheet", "info", "pict", "generator", "themedata"}
RTF = re.compile(
    r"\\(u)(-?\d+) ?\??|\\([a-z]+)(-?\d+)? ?|\\'([0-9a-f]{2})|\\(.)|([{}])|([^\\{}]+)",
    re.IGNORECASE,
)


class Problem(Exception):
    """Something the user has to correct."""


class Book:
    """A zip file whose parts are read with limits."""

    def __init__(self, file: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(file)
        except zipfile.BadZipFile as error:
            raise Problem(f"{file.name} is damaged: {error}") from None
        if sum(info.file_size for info in self._zip.infolist()) > MOST_BYTES:
            raise Problem(f"{file.name} unpacks to more than {MOST_BYTES} bytes")
        self.names = self._zip.namelist()

    def read(self, name: str) -> bytes:
        try:
            return self._zip.read(name)
        except (KeyError, RuntimeError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            raise Problem(f"the part {name} cannot be read: {error}") from None

    def xml(self, name: str) -> ET.Element:
        data = self.read(name)
        if b"<!ENTITY" in data:
            raise Problem(f"{name} declares entities; that is no honest document")
        try:
            return ET.fromstring(data)
        except ET.ParseError as error:
            raise Problem(f"{name}: {error}") from None


def docx(book: Book) -> list[str]:
    body = book.xml("word/document.xml")
    lines = []
    cells = {p for cell in body.iter(f"{WORD}tc") for p in cell.iter(f"{WORD}p")}
    for node in body.iter():
        if node.tag == f"{WORD}tr":
            row = (
                " ".join(map(word_line, cell.iter(f"{WORD}p"))) for cell in node.iter(f"{WORD}tc")
            )
            lines.append(" | ".join(row))
        elif node.tag == f"{WORD}p" and node not in cells:
            lines.append(word_line(node))
    return ["\n".join(lines)]


def word_line(paragraph: ET.Element) -> str:
    pieces = []
    for node in paragraph.iter():
        if node.tag == f"{WORD}t":
            pieces.append(node.text or "")
        elif node.tag in (f"{WORD}tab", f"{WORD}br"):
            pieces.append("\t" if node.tag == f"{WORD}tab" else "\n")
    style = paragraph.find(f"{WORD}pPr/{WORD}pStyle")
    level = re.match(r"Heading([1-6])$", style.get(f"{WORD}val", "") if style is not None else "")
    return ("#" * int(level[1]) + " " if level else "") + "".join(pieces)


def pptx(book: Book) -> list[str]:
    slides = sorted(
        (name for name in book.names if re.fullmatch(r"ppt/slides/slide\d+\.xml", name)),
        key=lambda name: int(re.findall(r"\d+", name)[0]),
    )
    return ["\n".join(slide_lines(book.xml(name))) for name in slides]


def slide_lines(slide: ET.Element) -> Iterator[str]:
    for paragraph in slide.iter(f"{DRAWING}p"):
        line = "".join(node.text or "" for node in paragraph.iter(f"{DRAWING}t"))
        if line.strip():
            yield line


def opendocument(book: Book) -> list[str]:
    content = book.xml("content.xml")
    rows = list(content.iter(f"{TABLE}table-row"))
    in_rows = {node for row in rows for node in row.iter()}
    lines: list[str] = []
    for node in content.iter():
        if node.tag == f"{TABLE}table-row":
            cells = ("".join(c.itertext()).strip() for c in node.iter(f"{TABLE}table-cell"))
            lines.append(" | ".join(cells).rstrip(" |"))
        elif node.tag in (f"{TEXT}p", f"{TEXT}h") and node not in in_rows:
            level = node.get(f"{TEXT}outline-level", "1")
            mark = "#" * (int(level) if level.isdigit() else 1) + " "
            lines.append((mark if node.tag == f"{TEXT}h" else "") + "".join(node.itertext()))
    return ["\n".join(lines)]


def epub(book: Book) -> list[str]:
    container = book.read("META-INF/container.xml").decode("utf-8", "replace")
    found = re.search(r'full-path="([^"]+)"', container)
    if not found:
        raise Problem("the EPUB names no contents")
    package = book.xml(found[1])
    items = {item.get("id"): item.get("href", "") for item in package.iter(f"{OPF}item")}
    spine = [items.get(ref.get("idref"), "") for ref in package.iter(f"{OPF}itemref")]
    folder = posixpath.dirname(found[1])
    parts = (posixpath.normpath(posixpath.join(folder, unquote(href))) for href in spine if href)
    return [html_text(book.read(name).decode("utf-8", "replace")) for name in parts]


class Plain(HTMLParser):
    """Text with line breaks at blocks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self._silent += tag in ("script", "style", "title")
        self.pieces.append("\n" if tag in BREAKS else "")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style", "title") and self._silent > 0
        self.pieces.append("\n" if tag in BREAKS else " | " if tag in ("td", "th") else "")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.pieces.append(re.sub(r"\s+", " ", data))


def html_text(page: str) -> str:
    parser = Plain()
    parser.feed(page)
    parser.close()
    rows = (row.strip().rstrip("| ") for row in "".join(parser.pieces).split("\n"))
    return "\n".join(row for row in rows if row)


def rtf(text: str) -> str:
    pieces: list[str] = []
    groups: list[bool] = [False]
    for letter, point, word, _, code, sign, brace, plain in RTF.findall(text):
        if brace:
            groups = [*groups, groups[-1]] if brace == "{" else groups[:-1] or [False]
        elif word in RTF_SKIP or sign == "*":
            groups[-1] = True
        elif not groups[-1]:
            half = chr(int(point) % 65536) if letter else ""
            pieces.append(half or rtf_piece(word, code, sign, plain))
    # Signs beyond 65535, such as emoji, are written as two halves.
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def rtf_piece(word: str, code: str, sign: str, plain: str) -> str:
    if word in ("par", "line", "row"):
        return "\n"
    if word in ("tab", "cell"):
        return "\t"
    if code:
        return bytes.fromhex(code).decode("cp1252", "replace")
    return (
        "" if word else plain.replace("\r", "").replace("\n", "") + (sign if sign in "\\{}" else "")
    )


def pdf(file: Path, layout: bool) -> list[str]:
    program = shutil.which("pdftotext")
    if program:
        kept = ["-layout"] if layout else []
        done = subprocess.run(
            [program, *kept, "-enc", "UTF-8", str(file), "-"], capture_output=True, check=False
        )
        if done.returncode:
            reason = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise Problem(f"pdftotext: {reason[-1] if reason else done.returncode}")
        return done.stdout.decode("utf-8", "replace").split("\f")[:-1]
    try:
        reader = importlib.import_module("pypdf").PdfReader(str(file))
        return [page.extract_text() or "" for page in reader.pages]
    except ImportError:
        raise Problem(
            "PDF needs pdftotext (apt install poppler-utils, brew install poppler) or pypdf"
        ) from None
    except Exception as error:  # noqa: BLE001 - whatever pypdf makes of a damaged file
        raise Problem(f"pypdf: {error}") from None


def parts(file: Path, layout: bool) -> list[str]:
    """The text of each page, slide or chapter."""
    data = file.read_bytes()
    start = data[:1024].lstrip()
    if b"%PDF-" in start:
        return pdf(file, layout)
    if start.startswith(b"PK"):
        return archive(Book(file))
    if start.startswith(b"\xd0\xcf\x11\xe0"):
        raise Problem("an old .doc, .xls or .ppt: soffice --headless --convert-to docx FILE")
    if start.startswith(b"{\\rtf"):
        return [rtf(data.decode("latin-1"))]
    if b"\0" in data[:4096] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Problem(f"{file.name} is no document; for pictures use OCR")
    text = decoded(data)
    return [html_text(text) if re.match(r"(?i)\s*(<!doctype html|<html)", text) else text]


def decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def archive(book: Book) -> list[str]:
    names = set(book.names)
    if "word/document.xml" in names:
        return docx(book)
    if "ppt/presentation.xml" in names:
        return pptx(book)
    if "META-INF/container.xml" in names:
        return epub(book)
    if "content.xml" in names:
        return opendocument(book)
    if "xl/workbook.xml" in names:
        raise Problem("a spreadsheet: use the skill spreadsheets-xlsx")
    raise Problem("a zip file, but no document that is known")


def page_range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    pages = int(first), int(last or first)
    if not 1 <= pages[0] <= pages[1]:
        raise ValueError(text)
    return pages


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--pages", type=page_range, help="only these, such as 3 or 2-5")
    parser.add_argument(
        "--layout", action="store_true", help="PDF: keep columns and tables in place"
    )
    parser.add_argument("--stats", action="store_true", help="words of each page instead of text")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        found = parts(options.file, options.layout)
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    first, last = options.pages or (1, len(found))
    if first > len(found):
        print(f"error: {options.file} has {len(found)} pages", file=sys.stderr)
        return 2
    chosen = {number: found[number - 1] for number in range(first, min(last, len(found)) + 1)}
    for number, text in chosen.items():
        if options.stats:
            print(f"page {number}: {len(text.split())} words")
        else:
            print(text.rstrip(), end="\n\n" if number < last else "\n")
    empty = [str(number) for number, text in chosen.items() if not text.split()]
    if empty:
        print(f"no text on page {', '.join(empty)}: use OCR", file=sys.stderr)
    return 3 if empty else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
