"""List the sheets of an .xlsx file, or turn one of them (or all) into CSV.

Values are those that were last calculated; formulas are not computed (--formulas shows them).
Dates become ISO dates, percentages plain numbers. Merged cells keep their value in the first cell.
Exit code: 0 done, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import csv
import os
import re
import sys
import zipfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Iterator, NamedTuple  # noqa: UP035 - runs on older Pythons too
from xml.etree import ElementTree as ET

DATE_FORMATS = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
MOST_BYTES = 1 << 30
MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
OLD_EXCEL = b"\xd0\xcf\x11\xe0"


class Problem(Exception):
    """Something the user has to correct."""


class Sheet(NamedTuple):
    name: str
    part: str
    hidden: bool


def local(element: ET.Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


class Book:
    """An open .xlsx file."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            head = file.read(4)
        if head == OLD_EXCEL:
            raise Problem(f"{path} is an old .xls or an encrypted file; save it as plain .xlsx")
        try:
            self.zip = zipfile.ZipFile(path)
        except zipfile.BadZipFile:
            raise Problem(f"{path} is no .xlsx file (or it is damaged)") from None
        if "xl/workbook.xml" not in self.zip.namelist():
            raise Problem(f"{path} is a zip file, but holds no Excel workbook")
        book = self.tree("xl/workbook.xml")
        links = {
            link.get("Id"): link.get("Target", "")
            for link in self.tree("xl/_rels/workbook.xml.rels")
        }
        self.sheets = [self._sheet(item, links) for item in book.iter() if local(item) == "sheet"]
        first = next((item for item in book.iter() if local(item) == "workbookPr"), None)
        old_mac = first is not None and first.get("date1904") in ("1", "true")
        self.start = datetime(1904, 1, 1) if old_mac else datetime(1899, 12, 30)  # noqa: DTZ001 - no zones
        self.strings = self._strings()
        self.date_styles = self._date_styles()

    def open(self, part: str) -> IO[bytes]:
        try:
            if self.zip.getinfo(part).file_size > MOST_BYTES:
                raise Problem(f"{part} is larger than {MOST_BYTES >> 20} MiB")
            return self.zip.open(part)
        except KeyError:
            raise Problem(f"the part {part} is missing in the file") from None

    def tree(self, part: str) -> ET.Element:
        with self.open(part) as file:
            data = file.read()
        if b"<!DOCTYPE" in data[:2000]:
            raise Problem(f"{part} declares entities; no spreadsheet does that")
        return ET.fromstring(data)

    def _sheet(self, item: ET.Element, links: dict[str | None, str]) -> Sheet:
        key = next((value for name, value in item.items() if name.endswith("}id")), None)
        target = links.get(key, "").lstrip("/")
        part = target if target.startswith("xl/") else f"xl/{target}"
        return Sheet(item.get("name", "?"), part, item.get("state", "visible") != "visible")

    def _strings(self) -> list[str]:
        part = "xl/sharedStrings.xml"
        if part not in self.zip.namelist():
            return []
        return [text_of(item) for item in self.tree(part) if local(item) == "si"]

    def _date_styles(self) -> set[int]:
        """The cell styles that show a number as a date."""
        if "xl/styles.xml" not in self.zip.namelist():
            return set()
        styles = self.tree("xl/styles.xml")
        own = {
            int(item.get("numFmtId", "0")): item.get("formatCode", "")
            for item in styles.iter()
            if local(item) == "numFmt"
        }
        formats = next((item for item in styles if local(item) == "cellXfs"), None)
        found = set()
        for index, style in enumerate(formats if formats is not None else []):
            number = int(style.get("numFmtId", "0"))
            if number in DATE_FORMATS or shows_date(own.get(number, "")):
                found.add(index)
        return found

    def rows(self, sheet: Sheet, formulas: bool) -> Iterator[list[str]]:
        """Each row up to its last cell; rows that are left out in the file come as empty lists."""
        done = 0
        with self.open(sheet.part) as file:
            for _, element in ET.iterparse(file):
                if local(element) != "row":
                    continue
                number = int(element.get("r") or done + 1)
                if number > MOST_ROWS:
                    raise ValueError(f"there is no row {number}")
                yield from ([] for _ in range(done + 1, number))
                done = number
                yield self._row(element, formulas)
                element.clear()

    def _row(self, row: ET.Element, formulas: bool) -> list[str]:
        values: list[str] = []
        for cell in row:
            place = column(cell.get("r", "")) if cell.get("r") else len(values)
            if place >= MOST_COLUMNS:
                raise ValueError(f"there is no column {cell.get('r')}")
            values += [""] * (place - len(values))
            values.append(self._value(cell, formulas))
        return values

    def _value(self, cell: ET.Element, formulas: bool) -> str:
        parts = {local(part): part for part in cell}
        formula = parts.get("f")
        if formulas and formula is not None and formula.text:
            return "=" + formula.text
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return text_of(parts["is"]) if "is" in parts else ""
        text = parts["v"].text or "" if "v" in parts else ""
        if kind == "s":
            return self.strings[int(text)] if text else ""
        if kind == "b":
            return {"1": "TRUE", "0": "FALSE"}.get(text, text)
        if kind == "n" and text:
            return self._number(text, int(cell.get("s", "0")))
        return text

    def _number(self, text: str, style: int) -> str:
        value = float(text)
        if style in self.date_styles:
            return self._date(value)
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)

    def _date(self, value: float) -> str:
        seconds = round(value * 86400)
        if 0 <= value < 1:
            return str(timedelta(seconds=seconds)).rjust(8, "0")
        try:
            when = self.start + timedelta(seconds=seconds)
        except OverflowError:
            return repr(value)
        return when.strftime("%Y-%m-%d" if seconds % 86400 == 0 else "%Y-%m-%d %H:%M:%S")


def text_of(element: ET.Element) -> str:
    """The text of a rich string, without the hints on pronunciation."""
    out = []
    for part in element:
        if local(part) == "t":
            out.append(part.text or "")
        elif local(part) == "r":
            out += [inner.text or "" for inner in part if local(inner) == "t"]
    return "".join(out)


def shows_date(code: str) -> bool:
    bare = re.sub(r'"[^"]*"|\\.|\[[^\]]*\]', "", code)
    return bool(re.search(r"[dmyhs]", bare, re.IGNORECASE)) and not re.search(r"[#?]", bare)


def column(reference: str) -> int:
    """The number of a column, from 0, in a reference such as AB12."""
    number = 0
    for letter in reference:
        if not letter.isalpha():
            break
        number = number * 26 + ord(letter.upper()) - ord("A") + 1
    return number - 1


def choose(book: Book, wanted: str | None) -> Sheet:
    if wanted is None:
        return next((sheet for sheet in book.sheets if not sheet.hidden), book.sheets[0])
    for number, sheet in enumerate(book.sheets, 1):
        if wanted in (sheet.name, str(number)):
            return sheet
    names = ", ".join(sheet.name for sheet in book.sheets)
    raise Problem(f"there is no sheet {wanted!r}; there are: {names}")


def write(book: Book, sheet: Sheet, out: IO[str], options: argparse.Namespace) -> int:
    """Writes complete rows of one length, without empty ones at the end; returns their number."""
    rows = list(book.rows(sheet, options.formulas))
    while rows and not any(rows[-1]):
        rows.pop()
    width = max((len(row) for row in rows), default=0)
    writer = csv.writer(out, delimiter=options.delimiter, lineterminator="\n")
    writer.writerows(row + [""] * (width - len(row)) for row in rows)
    return len(rows)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the .xlsx (or .xlsm) file")
    parser.add_argument("--list", action="store_true", help="list the sheets with their sizes")
    parser.add_argument("--sheet", help="name or number from 1 (default: the first visible one)")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="write every sheet into FOLDER")
    parser.add_argument("--out", type=Path, help="file to write (default: standard output)")
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    parser.add_argument("--formulas", action="store_true", help="show formulas instead of values")
    parser.add_argument("--delimiter", default=",")
    return parser.parse_args()


def may_write(target: Path, options: argparse.Namespace) -> None:
    if target.exists() and not options.force:
        raise Problem(f"{target} is already there; use --force to replace it")


def export_all(book: Book, options: argparse.Namespace) -> None:
    options.all.mkdir(parents=True, exist_ok=True)
    for sheet in book.sheets:
        target = options.all / (re.sub(r"[^\w.-]+", "_", sheet.name) + ".csv")
        may_write(target, options)
        with target.open("w", encoding="utf-8", newline="") as out:
            print(f"{target}: {write(book, sheet, out, options)} rows")


def run(options: argparse.Namespace) -> None:
    book = Book(options.file)
    if not book.sheets:
        raise Problem(f"{options.file} has no sheets")
    if options.list:
        for number, sheet in enumerate(book.sheets, 1):
            rows = [row for row in book.rows(sheet, formulas=False) if any(row)]
            width = max((len(row) for row in rows), default=0)
            note = " (hidden)" if sheet.hidden else ""
            print(f"{number}. {sheet.name}{note}: {len(rows)} rows, {width} columns")
    elif options.all:
        export_all(book, options)
    elif options.out:
        may_write(options.out, options)
        with options.out.open("w", encoding="utf-8", newline="") as out:
            rows_written = write(book, choose(book, options.sheet), out, options)
        print(f"{options.out}: {rows_written} rows")
    else:
        write(book, choose(book, options.sheet), sys.stdout, options)


def main() -> int:
    try:
        run(arguments())
    except BrokenPipeError:
        raise
    except (Problem, OSError, TypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (ET.ParseError, ValueError, IndexError, zipfile.BadZipFile) as error:
        print(f"error: the file is damaged: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
