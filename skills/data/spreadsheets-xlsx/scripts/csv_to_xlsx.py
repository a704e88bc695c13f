"""Write one or more CSV files as an .xlsx workbook, one sheet for each.

The first row becomes a bold, frozen header with a filter. Numbers and ISO dates become real numbers
and dates; codes with leading zeros and numbers of more than 15 digits stay text. Text that starts
with = stays text unless --formulas is given.
Exit code: 0 the file was written, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import csv
import os
import re
import sys
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Iterator, NamedTuple  # noqa: UP035 - runs on older Pythons too
from xml.sax.saxutils import escape, quoteattr

NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?(?:[eE][+-]?\d{1,2})?")
DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?")
NOT_IN_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
NOT_IN_NAME = re.compile(r"[\[\]:*?/\\\ud800-\udfff]")
MOST_ROWS, MOST_COLUMNS, MOST_TEXT, MOST_NAME = 1_048_576, 16_384, 32_767, 31
PLAIN, HEADER, DAY, MOMENT = range(4)

HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
SPREADSHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
KINDS = "application/vnd.openxmlformats-officedocument.spreadsheetml"
STYLES = (
    f'{HEAD}<styleSheet xmlns="{SPREADSHEET}">'
    '<numFmts count="2"><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd"/>'
    '<numFmt numFmtId="165" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss"/></numFmts>'
    '<fonts count="2"><font><sz val="11"/><name val="Calibri"/></font>'
    '<font><b/><sz val="11"/><name val="Calibri"/></font></fonts>'
    '<fills count="2"><fill><patternFill patternType="none"/></fill>'
    '<fill><patternFill patternType="gray125"/></fill></fills>'
    '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
    '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>'
    '<cellXfs count="4"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>'
    '<xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1"/>'
    '<xf numFmtId="164" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
    '<xf numFmtId="165" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
    '</cellXfs><cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>'
    "</styleSheet>"
)


class Problem(Exception):
    """Something the user has to correct."""


class Sheet(NamedTuple):
    name: str
    rows: list[list[str]]


def letters(index: int) -> str:
    """The name of a column, from 0."""
    out = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        out = chr(ord("A") + rest) + out
    return out


def serial(text: str) -> float | None:
    """A date as the number of days that Excel counts; None when there is no such date."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    past = when - datetime(1899, 12, 30)  # noqa: DTZ001 - spreadsheets know no zones
    days = past.days + past.seconds / 86400
    return days if days >= 61 else None  # before March 1900 Excel counts wrongly


def cell(place: str, value: str, header: bool, formulas: bool) -> str:
    if not value:
        return ""
    if not header:
        if formulas and value.startswith("=") and len(value) > 1:
            return f'<c r="{place}"><f>{escape(value[1:])}</f></c>'
        if NUMBER.fullmatch(value):
            return f'<c r="{place}"><v>{value}</v></c>'
        days = serial(value) if DATE.fullmatch(value) else None
        if days is not None:
            style = DAY if len(value) == 10 else MOMENT
            return f'<c r="{place}" s="{style}"><v>{days!r}</v></c>'
    if len(value) > MOST_TEXT:
        raise Problem(f"the text for cell {place} is longer than {MOST_TEXT} characters")
    text = escape(NOT_IN_XML.sub("", value))
    style = HEADER if header else PLAIN
    return (
        f'<c r="{place}" s="{style}" t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
    )


def sheet_xml(sheet: Sheet, header: bool, formulas: bool) -> Iterator[str]:
    width = max((len(row) for row in sheet.rows), default=0)
    yield f'{HEAD}<worksheet xmlns="{SPREADSHEET}">'
    if header and sheet.rows:
        yield (
            '<sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" '
            'activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>'
        )
    if width:
        yield "<cols>"
        for index in range(width):
            lengths = (len(row[index]) for row in sheet.rows[:500] if len(row) > index)
            longest = max(lengths, default=0)
            size = min(60, max(8, longest + 2))
            yield f'<col min="{index + 1}" max="{index + 1}" width="{size}" customWidth="1"/>'
        yield "</cols>"
    yield "<sheetData>"
    for number, row in enumerate(sheet.rows, 1):
        head = header and number == 1
        cells = (
            cell(f"{letters(i)}{number}", value, head, formulas) for i, value in enumerate(row)
        )
        yield f'<row r="{number}">{"".join(cells)}</row>'
    yield "</sheetData>"
    if header and len(sheet.rows) > 1:
        yield f'<autoFilter ref="A1:{letters(width - 1)}{len(sheet.rows)}"/>'
    yield "</worksheet>"


def override(part: str, kind: str) -> str:
    return f'<Override PartName="/xl/{part}.xml" ContentType="{KINDS}.{kind}+xml"/>'


def default(ending: str, kind: str) -> str:
    return f'<Default Extension="{ending}" ContentType="application/{kind}"/>'


def relation(number: int, kind: str, target: str) -> str:
    return f'<Relationship Id="rId{number}" Type="{RELATIONS}/{kind}" Target="{target}"/>'


def relations(items: list[str]) -> str:
    return f'{HEAD}<Relationships xmlns="{PACKAGE}/relationships">{"".join(items)}</Relationships>'


def parts(sheets: list[Sheet], header: bool, formulas: bool) -> dict[str, str]:
    """Every file of the workbook by its name."""
    numbers = range(1, len(sheets) + 1)
    kinds = [
        default("rels", "vnd.openxmlformats-package.relationships+xml"),
        default("xml", "xml"),
        override("workbook", "sheet.main"),
        override("styles", "styles"),
        *(override(f"worksheets/sheet{n}", "worksheet") for n in numbers),
    ]
    names = [
        f'<sheet name={quoteattr(sheet.name)} sheetId="{n}" r:id="rId{n}"/>'
        for n, sheet in enumerate(sheets, 1)
    ]
    links = [relation(n, "worksheet", f"worksheets/sheet{n}.xml") for n in numbers]
    links.append(relation(len(sheets) + 1, "styles", "styles.xml"))
    types = f'<Types xmlns="{PACKAGE}/content-types">{"".join(kinds)}</Types>'
    book = (
        f'<workbook xmlns="{SPREADSHEET}" xmlns:r="{RELATIONS}"><sheets>{"".join(names)}</sheets>'
    )
    out = {
        "[Content_Types].xml": HEAD + types,
        "_rels/.rels": relations([relation(1, "officeDocument", "xl/workbook.xml")]),
        "xl/workbook.xml": f'{HEAD}{book}<calcPr fullCalcOnLoad="1"/></workbook>',
        "xl/_rels/workbook.xml.rels": relations(links),
        "xl/styles.xml": STYLES,
    }
    for n, sheet in enumerate(sheets, 1):
        out[f"xl/worksheets/sheet{n}.xml"] = "".join(sheet_xml(sheet, header, formulas))
    return out


def read(spec: str, options: argparse.Namespace) -> Sheet:
    """A sheet from FILE or NAME=FILE."""
    name, mark, file = spec.partition("=")
    path = Path(file if mark else spec)
    try:
        with path.open(encoding="utf-8-sig", newline="") as opened:
            rows = list(csv.reader(opened, delimiter=options.delimiter))
    except UnicodeError:
        raise Problem(f"{path} is no UTF-8 text; convert it first") from None
    width = max((len(row) for row in rows), default=0)
    if len(rows) > MOST_ROWS or width > MOST_COLUMNS:
        raise Problem(f"{path} is larger than a sheet can be ({MOST_ROWS} rows)")
    title = NOT_IN_NAME.sub("_", name if mark else path.stem).strip("'")[:MOST_NAME]
    return Sheet(title or "Sheet", rows)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("csv", nargs="+", help="CSV files; NAME=FILE names the sheet")
    parser.add_argument("--out", type=Path, required=True, help="the .xlsx file to write")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    parser.add_argument("--no-header", action="store_true", help="the first row is data")
    parser.add_argument("--formulas", action="store_true", help="=... becomes a formula")
    parser.add_argument("--delimiter", default=",")
    return parser.parse_args()


def run(options: argparse.Namespace) -> None:
    if options.out.exists() and not options.force:
        raise Problem(f"{options.out} is already there; use --force to replace it")
    sheets = [read(spec, options) for spec in options.csv]
    names = [sheet.name.lower() for sheet in sheets]
    if len(set(names)) < len(names):
        raise Problem("two sheets have the same name; name them with NAME=FILE")
    found = parts(sheets, not options.no_header, options.formulas)
    with zipfile.ZipFile(options.out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in found.items():
            file.writestr(name, text)
    for sheet in sheets:
        print(f"{options.out}: {sheet.name}: {len(sheet.rows)} rows")


def main() -> int:
    csv.field_size_limit(1 << 28)
    try:
        run(arguments())
    except (Problem, OSError, csv.Error, TypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
