"""Fill the placeholders {{name}} of a Word template (.docx); fonts, tables and headers stay.

  docx_fill.py offer.docx --list
  docx_fill.py offer.docx --data offer.json --out offer-ann.docx
  docx_fill.py offer.docx --set name="Ann B." --set date=2024-05-03 --out offer-ann.docx

The data is a JSON object. A list of objects fills table rows: with {"items": [{"what": "Tea"}]} the
row that holds {{items.what}} is repeated for each. Placeholders are found also where Word has cut
them into pieces, in headers, footers and text boxes.
Exit code: 0 done, 1 placeholders are left or unknown, 2 an error.
"""
# ruff: noqa: T201 - prints its answer; a document type is refused before it is parsed

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any
from xml.dom import minidom

FIELD = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")
PARTS = re.compile(r"word/(document|header\d*|footer\d*|footnotes|endnotes)\.xml")


APART = "{\ue000{"


class Problem(Exception):
    """Something the user has to correct."""


def texts(node: minidom.Element) -> list[minidom.Element]:
    """The text elements of a paragraph, without those of paragraphs in its text boxes."""
    found = []
    for child in node.childNodes:
        if child.nodeName == "w:t":
            found.append(child)
        elif child.nodeName != "w:p" and child.nodeType == child.ELEMENT_NODE:
            found += texts(child)
    return found


def content(element: minidom.Element) -> str:
    return "".join(child.data for child in element.childNodes)


def put(element: minidom.Element, text: str) -> None:
    while element.firstChild:
        element.removeChild(element.firstChild)
    element.appendChild(element.ownerDocument.createTextNode(text))
    element.setAttribute("xml:space", "preserve")


def fields(node: minidom.Element) -> list[str]:
    """The placeholders below a node, in order."""
    found = []
    for each in node.getElementsByTagName("w:p"):
        found += FIELD.findall("".join(map(content, texts(each))))
    return found


def fill(paragraph: minidom.Element, values: dict[str, str]) -> None:
    """Put each value where its placeholder begins; the run there gives it its look."""
    while True:
        runs = texts(paragraph)
        joined = "".join(map(content, runs))
        found = next((each for each in FIELD.finditer(joined) if each[1] in values), None)
        if found is None:
            return
        # A value may hold braces of its own: they are kept apart until all are filled.
        value = values[found[1]].replace("{{", APART)
        at = 0
        for run in runs:
            old = content(run)
            low, high = max(found.start() - at, 0), min(found.end() - at, len(old))
            if low < high or (low == high == 0 and found.start() == at < found.end()):
                starts = found.start() >= at
                put(run, old[:low] + (value if starts else "") + old[max(high, 0) :])
            at += len(old)


def repeat(root: minidom.Document, data: dict[str, Any]) -> None:
    """One copy of a table row for each entry of the list that its placeholders name."""
    for row in list(root.getElementsByTagName("w:tr")):
        names = {name.partition(".")[0] for name in fields(row) if "." in name}
        lists = sorted(name for name in names if isinstance(data.get(name), list))
        if len(lists) > 1:
            raise Problem(f"one table row names two lists: {', '.join(lists)}")
        for entry in data[lists[0]] if lists else ():
            copy = row.cloneNode(deep=True)
            row.parentNode.insertBefore(copy, row)
            own = {f"{lists[0]}.{key}": as_text(value) for key, value in entry.items()}
            for paragraph in copy.getElementsByTagName("w:p"):
                fill(paragraph, own)
        if lists:
            row.parentNode.removeChild(row)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def parsed(name: str, text: bytes) -> minidom.Document:
    if b"<!DOCTYPE" in text:
        raise Problem(f"{name} declares a document type; that is no file of Word")
    return minidom.parseString(text)


def values_of(options: argparse.Namespace) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if options.data:
        try:
            found = json.loads(options.data.read_text("utf-8-sig"))
        except ValueError:
            raise Problem(f"{options.data} is no JSON") from None
        if not isinstance(found, dict):
            raise Problem(f"{options.data} must hold an object")
        data.update(found)
    for pair in options.set:
        name, sign, value = pair.partition("=")
        if not sign:
            raise Problem(f"--set takes name=value, not {pair!r}")
        data[name] = value
    wrong = [
        name for name, value in data.items()
        if isinstance(value, list) and not all(isinstance(each, dict) for each in value)
    ]  # fmt: skip
    if wrong:
        raise Problem(f"{wrong[0]} must be a list of objects")
    return data


def work(options: argparse.Namespace) -> int:
    with zipfile.ZipFile(options.file) as package:
        files = {info: package.read(info) for info in package.infolist()}
    pages = {
        info.filename: parsed(info.filename, text)
        for info, text in files.items()
        if PARTS.fullmatch(info.filename)
    }
    if "word/document.xml" not in pages:
        raise Problem(f"{options.file} is no Word document")
    known = {name for root in pages.values() for name in fields(root)}
    if options.list:
        print("\n".join(sorted(known)) or "no placeholders")
        return 0 if known else 1
    data = values_of(options)
    plain = {name: as_text(value) for name, value in data.items() if not isinstance(value, list)}
    for root in pages.values():
        repeat(root, data)
        for paragraph in root.getElementsByTagName("w:p"):
            fill(paragraph, plain)
    left = sorted({name for root in pages.values() for name in fields(root)})
    unknown = sorted(set(data) - {name.partition(".")[0] for name in known})
    with zipfile.ZipFile(options.out, "w", zipfile.ZIP_DEFLATED) as package:
        for info, text in files.items():
            page = pages.get(info.filename)
            new = page.toxml().replace(APART, "{{").encode() if page else text
            package.writestr(info.filename, new)
    print(f"{options.out}: {len(known) - len(left)} of {len(known)} placeholders filled")
    for words, names in (("not filled", left), ("not in the template", unknown)):
        if names:
            print(f"{words}: {', '.join(names)}", file=sys.stderr)
    return 1 if left or unknown else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the template, .docx")
    parser.add_argument("--list", action="store_true", help="only name the placeholders")
    parser.add_argument("--data", type=Path, help="a JSON object")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--out", type=Path, help="the filled document")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    options = parser.parse_args()
    if not options.list and not options.out:
        parser.error("--out or --list is needed")
    return options


def main() -> int:
    options = arguments()
    try:
        if options.out and options.out.exists() and not options.force:
            raise Problem(f"{options.out} is already there; use --force to replace it")
        return work(options)
    except zipfile.BadZipFile:
        reason = f"{options.file} is no Word document (.docx)"
    except (Problem, OSError, ValueError) as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - whatever expat says about a damaged part
        reason = f"{options.file} is damaged: {error}"
    print(f"error: {reason}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
