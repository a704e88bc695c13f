"""Write a Word document (.docx) from Markdown, with nothing but Python.

  docx_write.py report.md --out report.docx --title "Report" --toc --page-numbers
  docx_write.py letter.md --out letter.docx --font Georgia --size 12 --page letter

Understands headings, paragraphs, **bold**, *italic*, ~~struck~~, `code`, [links](https://…), nested
lists, tables with alignment, > quotations, fenced code, pictures (PNG, JPEG), a line \\pagebreak.
Exit code: 0 done, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import re
import struct
import sys
import zipfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
SPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    f' xmlns:r="{OFFICE}"'
    ' xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
    ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    ' xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"'
)
PAGES = {"a4": (11906, 16838), "letter": (12240, 15840)}
"""Width and height in twentieths of a point."""
MARGIN = 1304
EMU_PER_TWIP = 635
TYPES = {"png": "image/png", "jpeg": "image/jpeg"}
INLINE = re.compile(
    r"`(?P<code>[^`\n]+)`"
    r"|!\[(?P<alt>[^\]]*)\]\((?P<file>[^)\s]+)\)"
    r"|\[(?P<label>[^\]]+)\]\((?P<url>[^)\s]+)\)"
    r"|\*\*(?P<bold>\S(?:.*?\S)?)\*\*"
    r"|~~(?P<strike>\S(?:.*?\S)?)~~"
    r"|(?<![\w*])\*(?P<star>[^\s*](?:[^*]*[^\s*])?)\*"
    r"|(?<!\w)_(?P<line>[^\s_](?:[^_]*[^\s_])?)_(?!\w)"
    r"|\\(?P<escaped>[\\`*_\[\]()~#!|>-])",
    re.DOTALL,
)
ITEM = re.compile(r"^(\s*)([-*+]|\d{1,4}[.)])\s+(.*)$")
RULE = re.compile(r"^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")


class Problem(Exception):
    """Something the user has to correct."""


class Picture(NamedTuple):
    data: bytes
    kind: str
    width: int
    height: int


class Item(NamedTuple):
    level: int
    ordered: bool
    text: str


def picture(file: Path) -> Picture:
    data = file.read_bytes()
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) > 24:
        width, height = struct.unpack(">II", data[16:24])
        return Picture(data, "png", width, height)
    at = 2
    while data.startswith(b"\xff\xd8") and at + 9 < len(data):
        if data[at] != 0xFF:
            break
        mark, length = data[at + 1], struct.unpack(">H", data[at + 2 : at + 4])[0]
        if mark in (0xC0, 0xC1, 0xC2):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return Picture(data, "jpeg", width, height)
        at += 2 + length
    raise Problem(f"{file} is no PNG or JPEG picture; convert it first")


class Document:
    """The body as XML, and what the body refers to."""

    def __init__(self, folder: Path, width: int) -> None:
        self.folder = folder
        self.width = width
        self.body: list[str] = []
        self.links: dict[str, str] = {}
        self.pictures: dict[str, Picture] = {}
        self.lists = 0
        """Numbered lists; each has a number of its own, so that it starts at 1."""

    def link(self, url: str) -> str:
        return self.links.setdefault(url, f"link{len(self.links) + 1}")

    def add(self, text: str, style: str = "", extra: str = "") -> None:
        style = f'<w:pStyle w:val="{style}"/>' if style else ""
        inner = f"<w:pPr>{style}{extra}</w:pPr>" if style or extra else ""
        self.body.append(f"<w:p>{inner}{text}</w:p>")

    def inline(self, text: str, marks: str = "") -> str:
        """The runs of a text with its marks of bold, links and so on."""
        out, last = [], 0
        for found in INLINE.finditer(text):
            out.append(run(text[last : found.start()], marks))
            out.append(self._marked(found, marks))
            last = found.end()
        return "".join([*out, run(text[last:], marks)])

    def _marked(self, found: re.Match[str], marks: str) -> str:
        if found["code"]:
            return run(found["code"], f'<w:rStyle w:val="CodeText"/>{marks}')
        if found["file"]:
            return self.drawing(found["file"], found["alt"])
        if found["label"]:
            if found["url"].startswith("#"):
                return self.inline(found["label"], marks)
            inner = self.inline(found["label"], f'<w:rStyle w:val="Hyperlink"/>{marks}')
            return f'<w:hyperlink r:id="{self.link(found["url"])}">{inner}</w:hyperlink>'
        if found["escaped"]:
            return run(found["escaped"], marks)
        for name, mark in (("bold", "b"), ("strike", "strike"), ("star", "i"), ("line", "i")):
            if found[name]:
                return self.inline(found[name], f"{marks}<w:{mark}/>")
        raise AssertionError("every alternative of the pattern has a name")

    def drawing(self, name: str, alt: str) -> str:
        """A picture as wide as it is at 96 dots an inch, or as the text where that is less."""
        found = picture(self.folder / name)
        key = next((key for key, known in self.pictures.items() if known.data == found.data), "")
        if not key:
            key = f"image{len(self.pictures) + 1}.{found.kind}"
            self.pictures[key] = found
        wide = min(found.width * 9525, self.width * EMU_PER_TWIP)
        high = wide * found.height // max(found.width, 1)
        number = len(self.body) * 100 + len(self.pictures)
        size = f'cx="{wide}" cy="{high}"'
        properties = f'id="{number}" name={quoteattr(name)} descr={quoteattr(alt)}'
        return (
            '<w:r><w:drawing><wp:inline distT="0" distB="0" distL="0" distR="0">'
            f"<wp:extent {size}/><wp:docPr {properties}/><a:graphic>"
            '<a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/picture">'
            f"<pic:pic><pic:nvPicPr><pic:cNvPr {properties}/><pic:cNvPicPr/></pic:nvPicPr>"
            f'<pic:blipFill><a:blip r:embed="{key}"/><a:stretch><a:fillRect/></a:stretch>'
            f'</pic:blipFill><pic:spPr><a:xfrm><a:off x="0" y="0"/><a:ext {size}/></a:xfrm>'
            '<a:prstGeom prst="rect"><a:avLst/></a:prstGeom></pic:spPr></pic:pic>'
            "</a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
        )

    def items(self, rows: list[Item]) -> None:
        numbers: dict[int, int] = {}
        for row in rows:
            for deeper in [level for level in numbers if level > row.level]:
                del numbers[deeper]
            if row.ordered and row.level not in numbers:
                self.lists += 1
                numbers[row.level] = self.lists + 1
            which = numbers[row.level] if row.ordered else 1
            numbering = (
                f'<w:numPr><w:ilvl w:val="{row.level}"/><w:numId w:val="{which}"/></w:numPr>'
            )
            self.add(self.inline(row.text), "ListParagraph", numbering)

    def table(self, rows: list[list[str]], aligned: list[str]) -> None:
        columns = max(map(len, rows))
        each = self.width // columns
        grid = f'<w:gridCol w:w="{each}"/>' * columns
        out = [
            (
                '<w:tbl><w:tblPr><w:tblStyle w:val="TableGrid"/>'
                f'<w:tblW w:w="{each * columns}" w:type="dxa"/><w:tblLook w:firstRow="1"/>'
                f"</w:tblPr><w:tblGrid>{grid}</w:tblGrid>"
            )
        ]
        for number, row in enumerate(rows):
            head = number == 0
            out.append("<w:tr>" + "<w:trPr><w:cantSplit/><w:tblHeader/></w:trPr>" * head)
            for place in range(columns):
                text = row[place] if place < len(row) else ""
                side = aligned[place] if place < len(aligned) else "left"
                shade = '<w:shd w:val="clear" w:fill="E8ECF1"/>' * head
                out.append(
                    f'<w:tc><w:tcPr><w:tcW w:w="{each}" w:type="dxa"/>{shade}</w:tcPr>'
                    f'<w:p><w:pPr><w:pStyle w:val="TableText"/><w:jc w:val="{side}"/></w:pPr>'
                    f"{self.inline(text, '<w:b/>' * head)}</w:p></w:tc>"
                )
            out.append("</w:tr>")
        self.body.append("".join(out) + "</w:tbl>")
        self.add("", "TableText")


def run(text: str, marks: str = "") -> str:
    """A run of text; a line break inside it stays one."""
    if not text:
        return ""
    clean = "".join(c for c in text if c in "\t\n" or ord(c) >= 32)
    lines = [f'<w:t xml:space="preserve">{escape(part)}</w:t>' for part in clean.split("\n")]
    inner = "<w:br/>".join(lines)
    return f"<w:r>{f'<w:rPr>{marks}</w:rPr>' if marks else ''}{inner}</w:r>"


def cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [part.strip().replace("\\|", "|") for part in re.split(r"(?<!\\)\|", inner)]


def joined(lines: list[str]) -> str:
    """The lines of a paragraph; two blanks or a backslash at the end keep the break."""
    out = ""
    for line in lines:
        kept = line.endswith(("  ", "\\"))
        out += line.strip().removesuffix("\\") + ("\n" if kept else " ")
    return out.strip()


def blocks(document: Document, lines: list[str]) -> None:
    at = 0
    while at < len(lines):
        line = lines[at]
        fence = re.match(r"\s*(`{3,}|~{3,})", line)
        heading = HEADING.match(line)
        if not line.strip():
            at += 1
        elif fence:
            at = code(document, lines, at, fence[1])
        elif heading:
            document.add(document.inline(heading[2]), f"Heading{min(len(heading[1]), 4)}")
            at += 1
        elif line.strip() == r"\pagebreak":
            document.add('<w:r><w:br w:type="page"/></w:r>')
            at += 1
        elif re.fullmatch(r"\s*([-*_])(\s*\1){2,}\s*", line):
            border = (
                '<w:pBdr><w:bottom w:val="single" w:sz="6" w:space="1" w:color="999999"/></w:pBdr>'
            )
            document.add("", "", border)
            at += 1
        elif (
            "|" in line
            and at + 1 < len(lines)
            and "-" in lines[at + 1]
            and RULE.match(lines[at + 1])
        ):
            at = table(document, lines, at)
        elif ITEM.match(line):
            at = items(document, lines, at)
        else:
            at = paragraph(document, lines, at)


def code(document: Document, lines: list[str], at: int, fence: str) -> int:
    end = at + 1
    while end < len(lines) and not lines[end].strip().startswith(fence):
        end += 1
    document.add(run("\n".join(lines[at + 1 : end])), "CodeBlock")
    return end + 1


def table(document: Document, lines: list[str], at: int) -> int:
    sides = {(True, True): "center", (False, True): "right"}
    rule = cells(lines[at + 1])
    aligned = [sides.get((each.startswith(":"), each.endswith(":")), "left") for each in rule]
    rows, at = [cells(lines[at])], at + 2
    while at < len(lines) and "|" in lines[at]:
        rows.append(cells(lines[at]))
        at += 1
    document.table(rows, aligned)
    return at


def items(document: Document, lines: list[str], at: int) -> int:
    rows: list[Item] = []
    indents: list[int] = []
    while at < len(lines):
        found = ITEM.match(lines[at])
        if found:
            indent = len(found[1].expandtabs(4))
            indents = [known for known in indents if known < indent] + [indent]
            rows.append(Item(min(len(indents) - 1, 3), found[2][0].isdigit(), found[3]))
        elif lines[at].strip() and lines[at].startswith(" "):
            rows[-1] = rows[-1]._replace(text=f"{rows[-1].text} {lines[at].strip()}")
        else:
            after = lines[at + 1] if at + 1 < len(lines) else ""
            if lines[at].strip() or not ITEM.match(after):
                break
        at += 1
    document.items(rows)
    return at


def paragraph(document: Document, lines: list[str], at: int) -> int:
    quoted = lines[at].lstrip().startswith(">")
    end = at
    while end < len(lines) and lines[end].strip():
        starts = HEADING.match(lines[end]) or ITEM.match(lines[end]) or lines[end].startswith("```")
        if end > at and (starts or lines[end].lstrip().startswith(">") != quoted):
            break
        end += 1
    part = lines[at:end]
    if quoted:
        part = [re.sub(r"^\s*>\s?", "", line) for line in part]
    document.add(document.inline(joined(part)), "Quote" if quoted else "")
    return end


def style(name: str, label: str, paragraph: str = "", text: str = "", based: str = "Normal") -> str:
    return (
        f'<w:style w:type="paragraph" w:styleId="{name}"><w:name w:val="{label}"/>'
        f'<w:basedOn w:val="{based}"/><w:qFormat/><w:pPr>{paragraph}</w:pPr><w:rPr>{text}</w:rPr>'
        "</w:style>"
    )


def styles(font: str, size: int) -> str:
    def space(before: int, after: int, rest: str = "") -> str:
        return f'{rest}<w:spacing w:before="{before}" w:after="{after}"/>'

    def mono(points: int) -> str:
        face = '<w:rFonts w:ascii="Consolas" w:hAnsi="Consolas" w:cs="Courier New"/>'
        return f'{face}<w:sz w:val="{points}"/>'

    half = 2 * size
    face = quoteattr(font)
    fonts = f"<w:rFonts w:ascii={face} w:hAnsi={face} w:cs={face} w:eastAsia={face}/>"
    out = [
        (
            f"<w:styles {SPACES}><w:docDefaults><w:rPrDefault><w:rPr>{fonts}"
            f'<w:sz w:val="{half}"/><w:szCs w:val="{half}"/></w:rPr></w:rPrDefault>'
            "<w:pPrDefault><w:pPr>"
            '<w:spacing w:after="120" w:line="271" w:lineRule="auto"/></w:pPr></w:pPrDefault>'
            '</w:docDefaults><w:style w:type="paragraph" w:default="1" w:styleId="Normal">'
            '<w:name w:val="Normal"/><w:qFormat/></w:style>'
        ),
        style("Title", "Title", space(0, 240), f'<w:b/><w:sz w:val="{half + 26}"/>'),
    ]
    for level, more in enumerate((14, 8, 4, 0), 1):
        kept = space(360 - 60 * level, 100, "<w:keepNext/><w:keepLines/>")
        outline = f'{kept}<w:outlineLvl w:val="{level - 1}"/>'
        look = f'<w:b/><w:color w:val="1F3864"/><w:sz w:val="{half + more}"/>'
        out.append(style(f"Heading{level}", f"heading {level}", outline, look))
    left = '<w:pBdr><w:left w:val="single" w:sz="18" w:space="8" w:color="9AA5B1"/></w:pBdr>'
    quote = f'{left}<w:ind w:left="400" w:right="400"/>'
    shade = '<w:shd w:val="clear" w:fill="F3F4F6"/><w:spacing w:after="160" w:line="240"/>'
    out += [
        style("ListParagraph", "List Paragraph", "<w:contextualSpacing/>"),
        style("Quote", "Quote", quote, '<w:i/><w:color w:val="444444"/>'),
        style("CodeBlock", "Code Block", shade, mono(half - 4)),
        style("TableText", "Table Text", space(40, 40)),
        style("Footer", "footer", '<w:jc w:val="center"/>', '<w:color w:val="666666"/>'),
        (
            '<w:style w:type="character" w:styleId="CodeText"><w:name w:val="Code Text"/>'
            f"<w:rPr>{mono(half - 2)}</w:rPr></w:style>"
            '<w:style w:type="character" w:styleId="Hyperlink"><w:name w:val="Hyperlink"/>'
            '<w:rPr><w:color w:val="0563C1"/><w:u w:val="single"/></w:rPr></w:style>'
            '<w:style w:type="table" w:styleId="TableGrid"><w:name w:val="Table Grid"/><w:tblPr>'
            "<w:tblBorders>"
        ),
        *(
            f'<w:{side} w:val="single" w:sz="4" w:color="A6A6A6"/>'
            for side in ("top", "left", "bottom", "right", "insideH", "insideV")
        ),
        (
            '</w:tblBorders><w:tblCellMar><w:left w:w="100" w:type="dxa"/><w:right w:w="100"'
            ' w:type="dxa"/></w:tblCellMar></w:tblPr></w:style></w:styles>'
        ),
    ]
    return "".join(out)


def numbering(lists: int) -> str:
    def level(number: int, kind: str, text: str) -> str:
        left = 400 * (number + 1)
        return (
            f'<w:lvl w:ilvl="{number}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>'
            f'<w:lvlText w:val="{text}"/><w:lvlJc w:val="left"/><w:pPr>'
            f'<w:ind w:left="{left}" w:hanging="360"/></w:pPr></w:lvl>'
        )

    bullets = "".join(level(n, "bullet", "•–•–"[n]) for n in range(4))
    kinds = ("decimal", "lowerLetter", "lowerRoman", "decimal")
    numbers = "".join(level(n, kinds[n], f"%{n + 1}.") for n in range(4))
    out = [
        (
            f'<w:numbering {SPACES}><w:abstractNum w:abstractNumId="0"><w:multiLevelType'
            f' w:val="hybridMultilevel"/>{bullets}</w:abstractNum>'
            '<w:abstractNum w:abstractNumId="1">'
            f'<w:multiLevelType w:val="hybridMultilevel"/>{numbers}</w:abstractNum>'
            '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
        )
    ]
    again = "".join(
        f'<w:lvlOverride w:ilvl="{n}"><w:startOverride w:val="1"/></w:lvlOverride>'
        for n in range(4)
    )
    rest = f'<w:abstractNumId w:val="1"/>{again}</w:num>'
    out += [f'<w:num w:numId="{number + 2}">{rest}' for number in range(lists)]
    return "".join(out) + "</w:numbering>"


def field(code: str, shown: str) -> str:
    return (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r>'
        f'<w:instrText xml:space="preserve"> {code} </w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r>'
        f'{run(shown)}<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


def related(entries: list[tuple[str, str, str]], kinds: str = OFFICE) -> str:
    """A file of relationships: id, kind and target; a target outside is a web address."""
    rows = []
    for name, kind, target in entries:
        outside = ' TargetMode="External"' if kind == "hyperlink" else ""
        full = kind if "://" in kind else f"{kinds}/{kind}"
        rows.append(
            f'<Relationship Id="{name}" Type="{full}" Target={quoteattr(target)}{outside}/>'
        )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{"".join(rows)}</Relationships>'


def parts(document: Document, options: argparse.Namespace) -> Iterator[tuple[str, str | bytes]]:
    """Name and content of each file in the package."""
    wide, high = PAGES[options.page]
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    names = ["document", "styles", "numbering", *(["footer"] if options.page_numbers else [])]
    kinds = {"document": "document.main"}
    types = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{main}.{kinds.get(name, name)}+xml"/>'
        for name in names
    )
    pictures = "".join(f'<Default Extension="{k}" ContentType="{v}"/>' for k, v in TYPES.items())
    yield (
        "[Content_Types].xml",
        (
            f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType='
            '"application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml"'
            f' ContentType="application/xml"/>{pictures}{types}'
            '<Override PartName="/docProps/core.xml" ContentType='
            '"application/vnd.openxmlformats-package.core-properties+xml"/></Types>'
        ),
    )
    core = f"{PACKAGE}/relationships/metadata/core-properties"
    top = [("main", "officeDocument", "word/document.xml"), ("core", core, "docProps/core.xml")]
    yield "_rels/.rels", related(top)
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: UP017 - Python 3.9
    stamp = f'<dcterms:created xsi:type="dcterms:W3CDTF">{now}</dcterms:created>'
    yield (
        "docProps/core.xml",
        (
            f'<cp:coreProperties xmlns:cp="{PACKAGE}/metadata/core-properties"'
            ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"'
            ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
            f"<dc:title>{escape(options.title)}</dc:title><dc:creator>{escape(options.author)}"
            f"</dc:creator>{stamp}</cp:coreProperties>"
        ),
    )
    entries = [(name, name, f"{name}.xml") for name in names[1:]]
    entries += [(key, "hyperlink", url) for url, key in document.links.items()]
    entries += [(name, "image", f"media/{name}") for name in document.pictures]
    yield "word/_rels/document.xml.rels", related(entries)
    yield "word/styles.xml", styles(options.font, options.size)
    yield "word/numbering.xml", numbering(document.lists)
    footer = '<w:footerReference w:type="default" r:id="footer"/>' if options.page_numbers else ""
    if options.page_numbers:
        inner = f"{field('PAGE', '1')}{run(' / ')}{field('NUMPAGES', '1')}"
        style_ = '<w:pPr><w:pStyle w:val="Footer"/></w:pPr>'
        yield "word/footer.xml", f"<w:ftr {SPACES}><w:p>{style_}{inner}</w:p></w:ftr>"
    section = (
        f'<w:sectPr>{footer}<w:pgSz w:w="{wide}" w:h="{high}"/><w:pgMar w:top="{MARGIN}"'
        f' w:right="{MARGIN}" w:bottom="{MARGIN}" w:left="{MARGIN}" w:header="709" w:footer="709"'
        ' w:gutter="0"/></w:sectPr>'
    )
    body = "".join(document.body)
    yield "word/document.xml", f"<w:document {SPACES}><w:body>{body}{section}</w:body></w:document>"
    for name, found in document.pictures.items():
        yield f"word/media/{name}", found.data


def write(options: argparse.Namespace) -> str:
    if options.out.exists() and not options.force:
        raise Problem(f"{options.out} is already there; use --force to replace it")
    try:
        text = options.file.read_text(encoding="utf-8-sig")
    except UnicodeError:
        raise Problem(f"{options.file} is no UTF-8 text") from None
    if not text.strip():
        raise Problem(f"{options.file} is empty")
    document = Document(options.file.parent, PAGES[options.page][0] - 2 * MARGIN)
    if options.title:
        document.add(run(options.title), "Title")
    if options.toc:
        document.add(field('TOC \\o "1-3" \\h \\z \\u', options.toc_hint))
        document.add('<w:r><w:br w:type="page"/></w:r>')
    blocks(document, text.replace("\r\n", "\n").split("\n"))
    with zipfile.ZipFile(options.out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts(document, options):
            head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
            package.writestr(name, content if isinstance(content, bytes) else head + content)
    count = len(document.body)
    return f"{options.out}: {count} paragraphs and tables, {len(document.pictures)} pictures"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="Markdown")
    parser.add_argument("--out", type=Path, required=True, help="the .docx file")
    parser.add_argument("--title", default="", help="stands above the text and in the properties")
    parser.add_argument("--author", default="", help="in the properties")
    parser.add_argument("--toc", action="store_true", help="a table of contents")
    parser.add_argument(
        "--toc-hint", default="Right-click here and choose “Update field”.", metavar="TEXT",
        help="shown until Word has filled the table of contents",
    )  # fmt: skip
    parser.add_argument("--page-numbers", action="store_true", help="1 / 9 at the bottom")
    parser.add_argument("--font", default="Calibri")
    parser.add_argument("--size", type=int, default=11, help="points (11)")
    parser.add_argument("--page", choices=PAGES, default="a4")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        print(write(options))
    except (Problem, OSError, struct.error) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
