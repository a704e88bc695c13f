"""Fill PDF forms; merge, split, rotate and stamp PDF files. Needs the package pypdf.

  pdf_tool.py fields form.pdf                names, kinds, options and values of the fields
  pdf_tool.py fill form.pdf --data values.json --out filled.pdf [--flatten]
  pdf_tool.py merge a.pdf b.pdf:2-4 c.pdf:1,3 --out all.pdf
  pdf_tool.py split report.pdf --every 10 --out parts/      or  --pages 1-3 --pages 4- (a file each)
  pdf_tool.py rotate scan.pdf --degrees 90 --pages 2-3 --out upright.pdf
  pdf_tool.py stamp flat.pdf --text "Ann B." --at 120,540 --page 1 --out signed.pdf

`stamp` writes on forms without fields; the place is in points from the lower left corner.
Exit code: 0 done, 1 no fields or some values were not taken, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

try:
    import pypdf
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject
except ImportError:
    pypdf = None  # type: ignore[assignment]  # main() says how to install it

KINDS = {"/Tx": "text", "/Btn": "button", "/Ch": "choice", "/Sig": "signature"}
RADIO, READ_ONLY, REQUIRED = 1 << 15, 1, 2


class Problem(Exception):
    """Something the user has to correct."""


def opened(file: Path, password: str = "") -> Any:
    try:
        reader = pypdf.PdfReader(str(file))
        if reader.is_encrypted and not reader.decrypt(password):
            raise Problem(f"{file} needs a password: --password")
        len(reader.pages)
    except (pypdf.errors.PyPdfError, ValueError, KeyError, TypeError) as error:
        raise Problem(f"{file} is no PDF that can be read: {error}") from None
    return reader


def states(field: Any) -> list[str]:
    """What a field can be set to, without the state "off"."""
    found = field.get("/_States_") or field.get("/Opt") or []
    plain = [each[0] if isinstance(each, list) else each for each in found]
    return [str(each).removeprefix("/") for each in plain if str(each) != "/Off"]


def longest(reader: Any) -> dict[str, int]:
    """How many characters a text field takes; `get_fields` of pypdf leaves that out."""
    parts = [part for page in reader.pages for part in widgets(page)]
    return {name: int(widget["/MaxLen"]) for name, widget in parts if "/MaxLen" in widget}


def described(name: str, field: Any) -> dict[str, Any]:
    flags = int(field.get("/Ff", 0))
    kind = KINDS.get(str(field.get("/FT")), "other")
    if kind == "button":
        kind = "radio" if flags & RADIO else "checkbox"
    out = {"name": name, "kind": kind, "value": plain(field.get("/V"))}
    if states(field):
        out["options"] = states(field)
    if field.get("/TU"):
        out["label"] = str(field["/TU"])
    for word, bit in (("required", REQUIRED), ("read_only", READ_ONLY)):
        if flags & bit:
            out[word] = True
    return out


def plain(value: Any) -> Any:
    if value is None or value == "/Off":
        return ""
    if isinstance(value, list):
        return [plain(each) for each in value]
    return str(value).removeprefix("/")


def form(reader: Any) -> dict[str, dict[str, Any]]:
    """The fields that hold a value, by full name."""
    found = reader.get_fields() or {}
    fields = {name: described(name, each) for name, each in found.items() if each.get("/FT")}
    for name, most in longest(reader).items():
        if name in fields:
            fields[name]["most_characters"] = most
    return fields


def fields(options: argparse.Namespace) -> int:
    reader = opened(options.file, options.password)
    found = form(reader)
    if options.json:
        print(json.dumps(list(found.values()), indent=1, ensure_ascii=False))
    for each in () if options.json else found.values():
        facts = {key: value for key, value in each.items() if key not in ("name", "kind", "value")}
        shown = f"  {facts}" if facts else ""
        print(f"{each['name']} ({each['kind']}) = {each['value']!r}{shown}")
    xfa = "/XFA" in (reader.trailer["/Root"].get("/AcroForm") or {})
    if xfa:
        print("an XFA form: some viewers ignore what is filled in here", file=sys.stderr)
    if not found:
        print("no fields: write on it with `stamp`", file=sys.stderr)
    return 0 if found else 1


def wanted(field: dict[str, Any], value: Any) -> str | list[str]:
    """A value as the field takes it."""
    kind, known = field["kind"], field.get("options", [])
    if field.get("read_only"):
        raise Problem("it is read-only")
    if kind == "checkbox":
        on = known[0] if known else "Yes"
        if str(value).lower() in ("true", "yes", "on", "x", "1") or value == on:
            return f"/{on}"
        if str(value).lower() in ("false", "no", "off", "", "0"):
            return "/Off"
        raise Problem(f"a checkbox takes true or false, not {value!r}")
    if kind in ("radio", "choice") and str(value) not in known:
        raise Problem(f"{value!r} is none of {', '.join(known)}")
    if kind in ("signature", "other"):
        raise Problem(f"a {kind} field cannot be filled in")
    if len(str(value)) > field.get("most_characters", 10**9):
        raise Problem(f"it takes {field['most_characters']} characters")
    return f"/{value}" if kind == "radio" else str(value)


def widgets(page: Any) -> list[tuple[str, Any]]:
    """Full name and object of each part of a form on a page."""
    found = []
    for each in page.get("/Annots") or ():
        widget = part = each.get_object()
        names = []
        while part is not None:
            names.append(str(part.get("/T", "")))
            part = part.get("/Parent")
        if widget.get("/Subtype") == "/Widget":
            found.append((".".join(filter(None, reversed(names))), widget))
    return found


def choose(page: Any, radios: dict[str, str]) -> None:
    """Set radio buttons: the group has the value, and each button is on or off."""
    for name, widget in widgets(page):
        if name in radios:
            on = radios[name] in ((widget.get("/AP") or {}).get("/N") or {})
            widget[NameObject("/AS")] = NameObject(radios[name] if on else "/Off")
            group = widget.get("/Parent", widget).get_object()
            group[NameObject("/V")] = NameObject(radios[name])


def flatten(writer: Any, page: Any) -> None:
    """Draw what each field shows onto the page itself."""
    resources = page["/Resources"].get_object()
    drawn = resources.setdefault(NameObject("/XObject"), DictionaryObject()).get_object()
    orders = []
    for number, (_, widget) in enumerate(widgets(page)):
        shown = ((widget.get("/AP") or {}).get("/N") or DictionaryObject()).get_object()
        if "/BBox" not in shown:  # one appearance for each state
            shown = shown.get(widget.get("/AS", "/Off"), DictionaryObject()).get_object()
        if "/BBox" not in shown or int(widget.get("/F", 0)) & 2:  # nothing to show, or hidden
            continue
        left, low, right, high = (float(each) for each in widget["/Rect"])
        x0, y0, x1, y1 = (float(each) for each in shown["/BBox"])
        wide, tall = (right - left) / ((x1 - x0) or 1), (high - low) / ((y1 - y0) or 1)
        name = NameObject(f"/Flat{number}")
        drawn[name] = shown.indirect_reference or writer._add_object(shown)  # noqa: SLF001
        move = f"{wide:.5f} 0 0 {tall:.5f} {left - x0 * wide:.3f} {low - y0 * tall:.3f}"
        orders.append(f"q {move} cm {name} Do Q")
    stream = DecodedStreamObject()
    before = page.get_contents()
    old = before.get_data() if before is not None else b""
    stream.set_data(b"q\n" + old + b"\nQ\n" + "\n".join(orders).encode())
    page[NameObject("/Contents")] = writer._add_object(stream)  # noqa: SLF001 - no public way


def given(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text("utf-8-sig"))
    except ValueError:
        raise Problem(f"{file} is no JSON") from None
    if not isinstance(data, dict):
        raise Problem(f"{file} must hold an object: field name to value")
    return data


def fill(options: argparse.Namespace) -> int:
    data = given(options.data)
    reader = opened(options.file, options.password)
    known = form(reader)
    if not known:
        raise Problem(f"{options.file} has no fields: write on it with `stamp`")
    values: dict[str, Any] = {}
    refused = 0
    for name, value in data.items():
        try:
            if name not in known:
                raise Problem("there is no such field")
            values[name] = wanted(known[name], value)
        except Problem as problem:
            refused += 1
            print(f"not filled: {name}: {problem}", file=sys.stderr)
    writer = pypdf.PdfWriter(clone_from=reader)
    radios = {name: values[name] for name in values if known[name]["kind"] == "radio"}
    others = {name: value for name, value in values.items() if name not in radios}
    for page in writer.pages:
        if "/Annots" in page:
            writer.update_page_form_field_values(page, others, auto_regenerate=False)
            choose(page, radios)
            if options.flatten:
                flatten(writer, page)
    if options.flatten:
        writer.remove_annotations(subtypes="/Widget")
        del writer.root_object["/AcroForm"]
    save(writer, options)
    print(f"{options.out}: {len(values)} of {len(known)} fields filled")
    needed = [name for name, each in known.items() if each.get("required") and not each["value"]]
    left = [name for name in needed if name not in values]
    if left:
        print(f"required and empty: {', '.join(left)}", file=sys.stderr)
    return 1 if refused or left else 0


def numbers(text: str, count: int) -> list[int]:
    """Pages from 0 for `2-4,7,9-`."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(-(\d*))?", part.strip())
        if not match:
            raise Problem(f"{part!r} is no page or range such as 2-4 or 9-")
        first = int(match[1])
        last = first if not match[2] else int(match[3] or count)
        if not 1 <= first <= last <= count:
            raise Problem(f"there are no pages {part}: the file has {count}")
        found += range(first - 1, last)
    return found


def merge(options: argparse.Namespace) -> int:
    writer = pypdf.PdfWriter()
    for each in options.files:
        name, _, pages = each.rpartition(":") if re.search(r":[\d,-]+$", each) else (each, "", "")
        reader = opened(Path(name), options.password)
        chosen = numbers(pages, len(reader.pages)) if pages else range(len(reader.pages))
        start = len(writer.pages)
        for number in chosen:
            writer.add_page(reader.pages[number])
        if len(writer.pages) > start:
            writer.add_outline_item(title=Path(name).stem, page_number=start)
    save(writer, options)
    print(f"{options.out}: {len(writer.pages)} pages")
    return 0


def split(options: argparse.Namespace) -> int:
    reader = opened(options.file, options.password)
    count = len(reader.pages)
    if options.pages:
        groups = [numbers(each, count) for each in options.pages]
    else:
        starts = range(0, count, options.every)
        groups = [[*range(at, min(at + options.every, count))] for at in starts]
    options.out.mkdir(parents=True, exist_ok=True)
    for group in groups:
        writer = pypdf.PdfWriter()
        for number in group:
            writer.add_page(reader.pages[number])
        end = f"-{group[-1] + 1}" if len(group) > 1 else ""
        file = options.out / f"{options.file.stem}-{group[0] + 1}{end}.pdf"
        save(writer, argparse.Namespace(out=file, force=options.force))
        print(file)
    return 0


def rotate(options: argparse.Namespace) -> int:
    reader = opened(options.file, options.password)
    writer = pypdf.PdfWriter(clone_from=reader)
    count = len(writer.pages)
    for number in numbers(options.pages, count) if options.pages else range(count):
        writer.pages[number].rotate(options.degrees)
    save(writer, options)
    print(f"{options.out}: {count} pages")
    return 0


def stamp(options: argparse.Namespace) -> int:
    writer = pypdf.PdfWriter(clone_from=opened(options.file, options.password))
    (number,) = numbers(str(options.page), len(writer.pages))
    place = re.fullmatch(r"(\d+(?:\.\d+)?),(\d+(?:\.\d+)?)", options.at)
    if not place:
        raise Problem(f"--at takes two numbers such as 120,540, not {options.at!r}")
    try:
        text = options.text.encode("cp1252")
    except UnicodeError:
        raise Problem("stamp knows West European letters only; use a form with fields") from None
    escaped = re.sub(rb"([\\()])", rb"\\\1", text)
    font = DictionaryObject({NameObject("/Type"): NameObject("/Font")})
    facts = {"Subtype": "Type1", "BaseFont": "Helvetica", "Encoding": "WinAnsiEncoding"}
    for key, value in facts.items():
        font[NameObject(f"/{key}")] = NameObject(f"/{value}")
    page = pypdf.PageObject.create_blank_page(
        width=writer.pages[number].mediabox.width, height=writer.pages[number].mediabox.height
    )
    fonts = DictionaryObject({NameObject("/Stamp"): font})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    stream = DecodedStreamObject()
    head = f"BT /Stamp {options.size} Tf {place[1]} {place[2]} Td (".encode()
    stream.set_data(head + escaped + b") Tj ET")
    page[NameObject("/Contents")] = stream
    writer.pages[number].merge_page(page)
    save(writer, options)
    print(f"{options.out}: written on page {options.page}")
    return 0


def save(writer: Any, options: argparse.Namespace) -> None:
    if options.out.exists() and not options.force:
        raise Problem(f"{options.out} is already there; use --force to replace it")
    with options.out.open("wb") as file:
        writer.write(file)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: object, text: str, out: bool = True) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=text)
        made.set_defaults(run=run)
        made.add_argument("--password", default="", help="of a protected file")
        if out:
            made.add_argument("--out", type=Path, required=True)
            made.add_argument("--force", action="store_true", help="replace what is there")
        return made

    it = action("fields", fields, "list the fields of a form", out=False)
    it.add_argument("file", type=Path)
    it.add_argument("--json", action="store_true")
    it = action("fill", fill, "fill the fields of a form")
    it.add_argument("file", type=Path)
    it.add_argument("--data", type=Path, required=True, help="JSON: field name to value")
    it.add_argument("--flatten", action="store_true", help="make the fields part of the page")
    it = action("merge", merge, "join files, or pages of them")
    it.add_argument("files", nargs="+", metavar="FILE[:PAGES]")
    it = action("split", split, "cut a file; --out is a folder")
    it.add_argument("file", type=Path)
    it.add_argument("--every", type=int, default=1, help="pages in each file (1)")
    it.add_argument("--pages", action="append", help="one file of these pages; may be repeated")
    it = action("rotate", rotate, "turn pages to the right")
    it.add_argument("file", type=Path)
    it.add_argument("--degrees", type=int, choices=(90, 180, 270), required=True)
    it.add_argument("--pages", default="", help="such as 2-4,7 (all)")
    it = action("stamp", stamp, "write a line of text on a page")
    it.add_argument("file", type=Path)
    it.add_argument("--text", required=True)
    it.add_argument("--at", required=True, metavar="X,Y")
    it.add_argument("--page", type=int, default=1)
    it.add_argument("--size", type=float, default=11)
    options = parser.parse_args()
    if getattr(options, "every", 1) < 1:
        parser.error("--every must be at least 1")
    return options


def main() -> int:
    options = arguments()
    if pypdf is None:
        print("error: pypdf is missing: pip install pypdf (in an environment)", file=sys.stderr)
        return 2
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        return int(options.run(options))
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
    except pypdf.errors.PyPdfError as error:
        print(f"error: the file is damaged: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
