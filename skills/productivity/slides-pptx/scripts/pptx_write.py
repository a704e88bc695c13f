"""Write a PowerPoint file (.pptx) from Markdown, with nothing but Python.

  pptx_write.py talk.md --out talk.pptx
  pptx_write.py talk.md --out talk.pptx --accent 2E7D32 --font Georgia

A line `---` separates slides. `# Title` makes a title slide, `## Headline` a slide; then nested
bullets, paragraphs, a table, fenced code, one picture `![what it shows](chart.png)` (PNG, JPEG).
What follows `Notes:` becomes the speaker notes. Text and tables stay editable.
Exit code: 0 done, 1 done but a slide is crowded, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import re
import struct
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
SPACES = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    f' xmlns:r="{OFFICE}"'
    ' xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
)
MAIN = "application/vnd.openxmlformats-officedocument.presentationml"
WIDE, HIGH = 12192000, 6858000
"""English metric units: 914,400 an inch. The slide is 13.33 by 7.5 inches, 16 to 9."""
LEFT, TOP, BOTTOM = 838200, 1690688, 6240000
INNER = WIDE - 2 * LEFT
GAP = 300000
MOST_WORDS, MOST_LINES = 70, 9
ITEM = re.compile(r"^(\s*)([-*+]|\d{1,3}[.)])\s+(.*)$")
RULE = re.compile(r"^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
NUMBER = re.compile(r"[-+]?[\d.,\s]*\d\s*[%€$£]?")
PICTURE = re.compile(r"^!\[([^\]]*)\]\(([^)\s]+)\)\s*$")
INLINE = re.compile(
    r"`(?P<code>[^`\n]+)`|\[(?P<label>[^\]]+)\]\((?P<url>[^)\s]+)\)"
    r"|\*\*(?P<bold>\S(?:.*?\S)?)\*\*|(?<![\w*])\*(?P<italic>[^\s*](?:[^*]*[^\s*])?)\*"
)


class Problem(Exception):
    """Something the user has to correct."""


class Picture(NamedTuple):
    name: str
    data: bytes
    kind: str
    width: int
    height: int
    alt: str


class Line(NamedTuple):
    level: int
    mark: str
    """Empty, bullet or number."""
    text: str


class Slide:
    def __init__(self) -> None:
        self.title = self.notes = ""
        self.first = False
        self.lines: list[Line] = []
        self.table: list[list[str]] = []
        self.code = ""
        self.picture: Picture | None = None
        self.links: list[str] = []


def picture(file: Path, alt: str) -> Picture:
    data = file.read_bytes()
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) > 24:
        return Picture(file.name, data, "png", *struct.unpack(">II", data[16:24]), alt)
    at = 2
    while data.startswith(b"\xff\xd8") and at + 9 < len(data) and data[at] == 0xFF:
        if data[at + 1] in (0xC0, 0xC1, 0xC2):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return Picture(file.name, data, "jpeg", width, height, alt)
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    raise Problem(f"{file} is no PNG or JPEG picture; convert it first")


def split(text: str) -> list[list[str]]:
    """The lines of each slide; a rule inside fenced code separates nothing."""
    found: list[list[str]] = [[]]
    fenced = False
    for line in text.split("\n"):
        fenced ^= line.startswith("```")
        if line.strip() == "---" and not fenced:
            found.append([])
        else:
            found[-1].append(line)
    return [lines for lines in found if any(line.strip() for line in lines)]


def read(lines: list[str], folder: Path) -> Slide:
    slide = Slide()
    text = "\n".join(lines)
    body, _, notes = re.sub(r"(?m)^Notes:", "\0", text, count=1).partition("\0")
    slide.notes = notes.strip()
    rows = body.split("\n")
    at = 0
    while at < len(rows):
        row = rows[at]
        heading = re.match(r"^(#{1,6})\s+(.*)$", row)
        shown = PICTURE.match(row.strip())
        after = rows[at + 1] if at + 1 < len(rows) else ""
        at += 1
        if row.startswith("```"):
            end = next((n for n in range(at, len(rows)) if rows[n].startswith("```")), len(rows))
            slide.code, at = "\n".join(rows[at:end]), end + 1
        elif heading and not slide.title:
            slide.title, slide.first = heading[2], heading[1] == "#"
        elif shown:
            slide.picture = picture(folder / shown[2], shown[1])
        elif "|" in row and "-" in after and RULE.match(after):
            slide.table = [cells(row)]
            at += 1
            while at < len(rows) and "|" in rows[at]:
                slide.table.append(cells(rows[at]))
                at += 1
        elif row.strip():
            add_line(slide, row, heading[2] if heading else "")
    return slide


def add_line(slide: Slide, row: str, heading: str) -> None:
    item = ITEM.match(row)
    if heading:
        slide.lines.append(Line(0, "", f"**{heading}**"))
    elif item:
        mark = "number" if item[2][0].isdigit() else "bullet"
        slide.lines.append(Line(min(len(item[1].expandtabs(4)) // 2, 3), mark, item[3]))
    elif slide.lines and row.startswith(" ") and slide.lines[-1].mark:
        last = slide.lines[-1]
        slide.lines[-1] = last._replace(text=f"{last.text} {row.strip()}")
    else:
        slide.lines.append(Line(0, "", row.strip()))


def cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [part.strip().replace("\\|", "|") for part in re.split(r"(?<!\\)\|", inner)]


def run(text: str, marks: str = "", inner: str = "") -> str:
    if not text:
        return ""
    clean = "".join(c for c in text if c == "\t" or ord(c) >= 32)
    return f'<a:r><a:rPr lang="en-US"{marks}>{inner}</a:rPr><a:t>{escape(clean)}</a:t></a:r>'


def inline(text: str, slide: Slide, marks: str = "") -> str:
    out, last = [], 0
    for found in INLINE.finditer(text):
        out.append(run(text[last : found.start()], marks))
        if found["code"]:
            out.append(run(found["code"], marks, '<a:latin typeface="Consolas"/>'))
        elif found["label"]:
            slide.links.append(found["url"])
            link = f'<a:hlinkClick r:id="link{len(slide.links)}"/>'
            out.append(run(found["label"], marks, link))
        else:
            mark = ' b="1"' if found["bold"] else ' i="1"'
            out.append(inline(found["bold"] or found["italic"], slide, marks + mark))
        last = found.end()
    return "".join([*out, run(text[last:], marks)])


def paragraphs(slide: Slide, size: int) -> str:
    out = []
    for line in slide.lines:
        left = 285750 * (line.level + 1)
        if line.mark == "number":
            mark = '<a:buFont typeface="+mj-lt"/><a:buAutoNum type="arabicPeriod"/>'
            place = f' marL="{left + 114300}" indent="-400050"'
        elif line.mark:
            mark, place = "", f' marL="{left}" indent="-285750"'
        else:
            mark, place = "<a:buNone/>", ' marL="0" indent="0"'
        level = f' lvl="{line.level}"' if line.level else ""
        marks = f' sz="{max(size - 200 * line.level, 1200)}"'
        out.append(
            f"<a:p><a:pPr{place}{level}>{mark}</a:pPr>{inline(line.text, slide, marks)}</a:p>"
        )
    return "".join(out) or "<a:p/>"


def shape(number: int, name: str, kind: str, text: str, box: str = "", body: str = "") -> str:
    """A placeholder, or a text box when `kind` is empty."""
    holder = f"<p:nvPr><p:ph {kind}/></p:nvPr>" if kind else "<p:nvPr/>"
    own = "" if kind else ' txBox="1"'
    locks = '<a:spLocks noGrp="1"/>' if kind else ""
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="{number}" name="{name}"/><p:cNvSpPr{own}>{locks}</p:cNvSpPr>'
        f"{holder}</p:nvSpPr><p:spPr>{box}</p:spPr><p:txBody>{body or '<a:bodyPr/>'}<a:lstStyle/>"
        f"{text}</p:txBody></p:sp>"
    )


def box(x: int, y: int, width: int, height: int) -> str:
    return f'<a:xfrm><a:off x="{x}" y="{y}"/><a:ext cx="{width}" cy="{height}"/></a:xfrm>'


NUMBER_BOX = box(WIDE - LEFT - 1200000, 6356350, 1200000, 365125)


def table(slide: Slide, y: int, accent: str) -> str:
    columns = max(map(len, slide.table))
    each, high = INNER // columns, min(420000, (BOTTOM - y) // len(slide.table))
    size = 1600 if len(slide.table) <= 8 else 1200
    numeric = {
        place
        for place in range(columns)
        if all(NUMBER.fullmatch(row[place]) for row in slide.table[1:] if place < len(row))
    }
    out = []
    for number, row in enumerate(slide.table):
        out.append(f'<a:tr h="{high}">')
        fill = accent if number == 0 else ("F3F5F8" if number % 2 else "FFFFFF")
        color = "FFFFFF" if number == 0 else "222222"
        for place in range(columns):
            text = row[place] if place < len(row) else ""
            side = '<a:pPr algn="r"/>' if place in numeric else ""
            marks = f' sz="{size}"' + ' b="1"' * (number == 0)
            ink = f'<a:solidFill><a:srgbClr val="{color}"/></a:solidFill>'
            words = inline(text, slide, marks).replace(f"{marks}>", f"{marks}>{ink}")
            out.append(
                f"<a:tc><a:txBody><a:bodyPr/><a:lstStyle/><a:p>{side}{words}</a:p></a:txBody>"
                f'<a:tcPr anchor="ctr"><a:solidFill><a:srgbClr val="{fill}"/></a:solidFill>'
                "</a:tcPr>"
                "</a:tc>"
            )
        out.append("</a:tr>")
    grid = f'<a:gridCol w="{each}"/>' * columns
    place = box(LEFT, y, each * columns, high * len(slide.table)).replace("a:xfrm", "p:xfrm")
    return (
        '<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="10" name="Table"/><p:cNvGraphicFramePr/>'
        f"<p:nvPr/></p:nvGraphicFramePr>{place}<a:graphic><a:graphicData"
        ' uri="http://schemas.openxmlformats.org/drawingml/2006/table"><a:tbl><a:tblPr'
        f' firstRow="1" bandRow="1"/><a:tblGrid>{grid}</a:tblGrid>{"".join(out)}</a:tbl>'
        "</a:graphicData></a:graphic></p:graphicFrame>"
    )


def shown(found: Picture, x: int, y: int, width: int, height: int) -> str:
    """The picture as large as fits, in the middle of its place."""
    scale = min(width / max(found.width, 1), height / max(found.height, 1))
    wide, high = int(found.width * scale), int(found.height * scale)
    place = box(x + (width - wide) // 2, y + (height - high) // 2, wide, high)
    return (
        f'<p:pic><p:nvPicPr><p:cNvPr id="11" name={quoteattr(found.name)}'
        f" descr={quoteattr(found.alt)}/><p:cNvPicPr/><p:nvPr/></p:nvPicPr><p:blipFill>"
        '<a:blip r:embed="picture"/><a:stretch><a:fillRect/></a:stretch></p:blipFill>'
        f'<p:spPr>{place}<a:prstGeom prst="rect"><a:avLst/></a:prstGeom></p:spPr></p:pic>'
    )


def content(slide: Slide, accent: str) -> Iterator[str]:
    """The shapes of a slide below its title."""
    wide, high = INNER, BOTTOM - TOP
    other = bool(slide.table or slide.code)
    if slide.lines:
        if slide.picture:
            wide = (INNER - GAP) // 2
        if other:
            high = min(high // 2, 480000 * len(slide.lines) + 100000)
        size = 2400 if len(slide.lines) <= 6 else 2000
        fit = "<a:bodyPr><a:normAutofit/></a:bodyPr>"
        text = paragraphs(slide, size)
        yield shape(3, "Content", 'type="body" idx="1"', text, box(LEFT, TOP, wide, high), fit)
    y = TOP + (high + GAP // 2 if slide.lines and other else 0)
    if slide.table:
        yield table(slide, y, accent)
        y += min(420000 * len(slide.table), BOTTOM - y) + GAP
    if slide.code:
        rows = slide.code.split("\n")
        size = 1600 if len(rows) <= 12 else 1100
        mono = '<a:latin typeface="Consolas"/>'
        marks = f' sz="{size}"'
        text = "".join(f"<a:p>{run(row, marks, mono)}</a:p>" for row in rows)
        grey = '<a:prstGeom prst="rect"><a:avLst/></a:prstGeom>'
        grey += '<a:solidFill><a:srgbClr val="F3F5F8"/></a:solidFill>'
        tall = min(max(BOTTOM - y, 400000), 20000 * size // 100 * len(rows) + 200000)
        where = box(LEFT, y, INNER if not slide.picture else (INNER - GAP) // 2, tall)
        yield shape(4, "Code", "", text, where + grey, '<a:bodyPr wrap="square"/>')
    if slide.picture:
        beside = bool(slide.lines or other)
        x = LEFT + (INNER + GAP) // 2 if beside else LEFT
        yield shown(slide.picture, x, TOP, (INNER - GAP) // 2 if beside else INNER, BOTTOM - TOP)


def slide_xml(slide: Slide, place: int, accent: str) -> str:
    title = f"<a:p>{inline(slide.title, slide) or ''}</a:p>"
    if slide.first:
        text = "".join(f"<a:p>{inline(line.text, slide)}</a:p>" for line in slide.lines) or "<a:p/>"
        shapes = [
            shape(2, "Title", 'type="ctrTitle"', title),
            shape(3, "Subtitle", 'type="subTitle" idx="1"', text),
        ]
        if slide.picture:
            shapes.append(shown(slide.picture, LEFT, 4300000, INNER, 2000000))
    else:
        shapes = [shape(2, "Title", 'type="title"', title), *content(slide, accent)]
        number = (
            '<a:p><a:pPr algn="r"/><a:fld id="{B6F15528-21DE-4FAA-801E-634DDDAF4B2B}"'
            f' type="slidenum"><a:rPr lang="en-US" sz="1200"/><a:t>{place}</a:t></a:fld></a:p>'
        )
        kind = 'type="sldNum" sz="quarter" idx="12"'
        shapes.append(shape(20, "Number", kind, number, NUMBER_BOX, '<a:bodyPr anchor="ctr"/>'))
    return page("sld", "".join(shapes)) + "<p:clrMapOvr><a:masterClrMapping/></p:clrMapOvr></p:sld>"


def page(kind: str, shapes: str, attributes: str = "") -> str:
    """The beginning of a slide, layout or master, up to its shapes."""
    return (
        f'<p:{kind} {SPACES}{attributes}><p:cSld><p:spTree><p:nvGrpSpPr><p:cNvPr id="1" name=""/>'
        f"<p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>{shapes}</p:spTree></p:cSld>"
    )


def theme(accent: str, font: str) -> str:
    def color(name: str, value: str) -> str:
        return f'<a:{name}><a:srgbClr val="{value}"/></a:{name}>'

    others = ("C55A11", "548235", "7F6000", "7030A0", "2E75B6")
    accents = "".join(color(f"accent{n}", v) for n, v in enumerate((accent, *others), 1))
    face = f'<a:latin typeface={quoteattr(font)}/><a:ea typeface=""/><a:cs typeface=""/>'
    fill = '<a:solidFill><a:schemeClr val="phClr"/></a:solidFill>' * 3
    line = '<a:ln w="9525"><a:solidFill><a:schemeClr val="phClr"/></a:solidFill></a:ln>' * 3
    effect = "<a:effectStyle><a:effectLst/></a:effectStyle>" * 3
    return (
        f'<a:theme {SPACES} name="Plain"><a:themeElements><a:clrScheme name="Plain">'
        f"{color('dk1', '1B1B1B')}{color('lt1', 'FFFFFF')}{color('dk2', '44546A')}"
        f"{color('lt2', 'E7E6E6')}{accents}{color('hlink', '0563C1')}{color('folHlink', '954F72')}"
        f'</a:clrScheme><a:fontScheme name="Plain"><a:majorFont>{face}</a:majorFont><a:minorFont>'
        f'{face}</a:minorFont></a:fontScheme><a:fmtScheme name="Plain"><a:fillStyleLst>{fill}'
        f"</a:fillStyleLst><a:lnStyleLst>{line}</a:lnStyleLst><a:effectStyleLst>{effect}"
        f"</a:effectStyleLst><a:bgFillStyleLst>{fill}</a:bgFillStyleLst></a:fmtScheme>"
        "</a:themeElements></a:theme>"
    )


COLORS = (
    '<p:clrMap bg1="lt1" tx1="dk1" bg2="lt2" tx2="dk2" accent1="accent1" accent2="accent2"'
    ' accent3="accent3" accent4="accent4" accent5="accent5" accent6="accent6" hlink="hlink"'
    ' folHlink="folHlink"/>'
)
INK = '<a:solidFill><a:schemeClr val="bg1"/></a:solidFill>'
WHITE = f"<p:bg><p:bgPr>{INK}<a:effectLst/></p:bgPr></p:bg>"


def master() -> str:
    def text(size: int, bold: str, rest: str = "") -> str:
        ink = '<a:solidFill><a:schemeClr val="tx1"/></a:solidFill><a:latin typeface="+mn-lt"/>'
        return f'{rest}<a:defRPr sz="{size}"{bold}>{ink}</a:defRPr>'

    empty = "<a:p><a:r><a:rPr/><a:t>Text</a:t></a:r></a:p>"
    middle = '<a:bodyPr anchor="ctr"><a:normAutofit/></a:bodyPr>'
    title = shape(2, "Title", 'type="title"', empty, box(LEFT, 457200, INNER, 1000000), middle)
    body = shape(3, "Text", 'type="body" idx="1"', empty, box(LEFT, TOP, INNER, BOTTOM - TOP))
    number = shape(4, "Number", 'type="sldNum" sz="quarter" idx="4"', "<a:p/>", NUMBER_BOX)
    bar = (
        '<p:sp><p:nvSpPr><p:cNvPr id="9" name="Bar"/><p:cNvSpPr/><p:nvPr userDrawn="1"/></p:nvSpPr>'
        f'<p:spPr>{box(0, 0, 180000, HIGH)}<a:prstGeom prst="rect"><a:avLst/></a:prstGeom>'
        '<a:solidFill><a:schemeClr val="accent1"/></a:solidFill><a:ln><a:noFill/></a:ln></p:spPr>'
        "<p:txBody><a:bodyPr/><a:lstStyle/><a:p/></p:txBody></p:sp>"
    )
    levels = "".join(
        f'<a:lvl{n}pPr marL="{285750 * n}" indent="-285750"><a:lnSpc><a:spcPct val="95000"/>'
        f'</a:lnSpc><a:spcBef><a:spcPts val="{900 if n == 1 else 400}"/></a:spcBef>'
        '<a:buFont typeface="Arial"/>'
        f'<a:buChar char="{"•" if n % 2 else "–"}"/>{text(2400 - 200 * (n - 1), "")}</a:lvl{n}pPr>'
        for n in range(1, 5)
    )
    layouts = "".join(f'<p:sldLayoutId id="{2147483648 + n}" r:id="layout{n}"/>' for n in (1, 2))
    return (
        page("sldMaster", bar + title + body + number).replace("<p:cSld>", f"<p:cSld>{WHITE}")
        + COLORS
        + f"<p:sldLayoutIdLst>{layouts}</p:sldLayoutIdLst><p:txStyles><p:titleStyle><a:lvl1pPr>"
        + text(3200, ' b="1"', "<a:buNone/>")
        + f"</a:lvl1pPr></p:titleStyle><p:bodyStyle>{levels}</p:bodyStyle><p:otherStyle/>"
        + "</p:txStyles></p:sldMaster>"
    )


def layout(first: bool) -> str:
    empty = "<a:p><a:r><a:rPr/><a:t>Text</a:t></a:r></a:p>"
    if first:
        big = '<a:lstStyle><a:lvl1pPr><a:defRPr sz="4800" b="1"/></a:lvl1pPr></a:lstStyle>'
        grey = '<a:solidFill><a:schemeClr val="tx2"/></a:solidFill>'
        small = (
            '<a:lstStyle><a:lvl1pPr marL="0" indent="0"><a:buNone/><a:defRPr sz="2400">'
            f"{grey}</a:defRPr></a:lvl1pPr></a:lstStyle>"
        )
        low = '<a:bodyPr anchor="b"><a:normAutofit/></a:bodyPr>'
        shapes = shape(
            2, "Title", 'type="ctrTitle"', empty, box(LEFT, 1500000, INNER, 1600000), low
        ).replace("<a:lstStyle/>", big)
        shapes += shape(
            3, "Subtitle", 'type="subTitle" idx="1"', empty, box(LEFT, 3250000, INNER, 1300000)
        ).replace("<a:lstStyle/>", small)
        kind, name = "title", "Title Slide"
    else:
        shapes = shape(2, "Title", 'type="title"', empty)
        shapes += shape(3, "Content", 'type="body" idx="1"', empty)
        shapes += shape(4, "Number", 'type="sldNum" sz="quarter" idx="12"', "<a:p/>")
        kind, name = "obj", "Title and Content"
    head = page("sldLayout", shapes, f' type="{kind}" preserve="1"')
    head = head.replace("<p:cSld>", f'<p:cSld name="{name}">')
    return f"{head}<p:clrMapOvr><a:masterClrMapping/></p:clrMapOvr></p:sldLayout>"


def notes_shapes(text: str) -> str:
    lines = "".join(f"<a:p>{run(line)}</a:p>" for line in text.split("\n"))
    image = (
        '<p:sp><p:nvSpPr><p:cNvPr id="2" name="Slide"/><p:cNvSpPr><a:spLocks noGrp="1" noRot="1"'
        ' noChangeAspect="1"/></p:cNvSpPr><p:nvPr><p:ph type="sldImg"/></p:nvPr></p:nvSpPr><p:spPr>'
        f'{box(685800, 1143000, 5486400, 3086100)}<a:prstGeom prst="rect"><a:avLst/></a:prstGeom>'
        "</p:spPr></p:sp>"
    )
    return image + shape(
        3, "Notes", 'type="body" idx="1"', lines, box(685800, 4400550, 5486400, 3600450)
    )


def related(entries: list[tuple[str, str, str]]) -> str:
    """A file of relationships: id, kind, target; a hyperlink leads outside."""
    rows = []
    for name, kind, target in entries:
        outside = ' TargetMode="External"' if kind == "hyperlink" else ""
        rows.append(
            f'<Relationship Id="{name}" Type="{OFFICE}/{kind}"'
            f" Target={quoteattr(target)}{outside}/>"
        )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{"".join(rows)}</Relationships>'


def fixed_parts(slides: list[Slide], options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The parts that every presentation has: presentation, master, layouts, themes."""
    yield "_rels/.rels", related([("main", "officeDocument", "ppt/presentation.xml")])
    numbers = range(1, len(slides) + 1)
    ids = "".join(f'<p:sldId id="{255 + n}" r:id="slide{n}"/>' for n in numbers)
    yield (
        "ppt/presentation.xml",
        (
            f'<p:presentation {SPACES} saveSubsetFonts="1"><p:sldMasterIdLst><p:sldMasterId'
            ' id="2147483648" r:id="master"/></p:sldMasterIdLst><p:notesMasterIdLst>'
            f'<p:notesMasterId r:id="notes"/></p:notesMasterIdLst><p:sldIdLst>{ids}</p:sldIdLst>'
            f'<p:sldSz cx="{WIDE}"'
            f' cy="{HIGH}"/><p:notesSz cx="6858000" cy="9144000"/></p:presentation>'
        ),
    )
    entries = [("master", "slideMaster", "slideMasters/slideMaster1.xml")]
    entries += [("notes", "notesMaster", "notesMasters/notesMaster1.xml")]
    entries += [("theme", "theme", "theme/theme1.xml")]
    entries += [(f"slide{n}", "slide", f"slides/slide{n}.xml") for n in numbers]
    yield "ppt/_rels/presentation.xml.rels", related(entries)
    yield "ppt/slideMasters/slideMaster1.xml", master()
    layouts = [(f"layout{n}", "slideLayout", f"../slideLayouts/slideLayout{n}.xml") for n in (1, 2)]
    skin = ("theme", "theme", "../theme/theme1.xml")
    yield "ppt/slideMasters/_rels/slideMaster1.xml.rels", related([*layouts, skin])
    up = [("master", "slideMaster", "../slideMasters/slideMaster1.xml")]
    for number in (1, 2):
        yield f"ppt/slideLayouts/slideLayout{number}.xml", layout(number == 1)
        yield f"ppt/slideLayouts/_rels/slideLayout{number}.xml.rels", related(up)
    for number in (1, 2):
        yield f"ppt/theme/theme{number}.xml", theme(options.accent, options.font)
    yield (
        "ppt/notesMasters/notesMaster1.xml",
        page("notesMaster", notes_shapes("")) + COLORS + "</p:notesMaster>",
    )
    second = [("theme", "theme", "../theme/theme2.xml")]
    yield "ppt/notesMasters/_rels/notesMaster1.xml.rels", related(second)


def slide_parts(number: int, slide: Slide, accent: str) -> Iterator[tuple[str, str | bytes]]:
    yield f"ppt/slides/slide{number}.xml", slide_xml(slide, number, accent)
    which = 1 if slide.first else 2
    entries = [("layout", "slideLayout", f"../slideLayouts/slideLayout{which}.xml")]
    entries += [(f"link{n}", "hyperlink", url) for n, url in enumerate(slide.links, 1)]
    if slide.picture:
        name = f"picture{number}.{slide.picture.kind}"
        entries.append(("picture", "image", f"../media/{name}"))
        yield f"ppt/media/{name}", slide.picture.data
    if slide.notes:
        entries.append(("notes", "notesSlide", f"../notesSlides/notesSlide{number}.xml"))
        back = [
            ("slide", "slide", f"../slides/slide{number}.xml"),
            ("master", "notesMaster", "../notesMasters/notesMaster1.xml"),
        ]
        yield f"ppt/notesSlides/_rels/notesSlide{number}.xml.rels", related(back)
        end = "<p:clrMapOvr><a:masterClrMapping/></p:clrMapOvr></p:notes>"
        yield (
            f"ppt/notesSlides/notesSlide{number}.xml",
            page("notes", notes_shapes(slide.notes)) + end,
        )
    yield f"ppt/slides/_rels/slide{number}.xml.rels", related(entries)


def types(names: list[str]) -> str:
    kinds = {
        "presentation": f"{MAIN}.presentation.main+xml",
        "slideMaster": f"{MAIN}.slideMaster+xml",
        "slideLayout": f"{MAIN}.slideLayout+xml",
        "notesMaster": f"{MAIN}.notesMaster+xml",
        "notesSlide": f"{MAIN}.notesSlide+xml",
        "slide": f"{MAIN}.slide+xml",
        "theme": "application/vnd.openxmlformats-officedocument.theme+xml",
    }
    rows = []
    for name in names:
        stem = re.sub(r"\d*\.xml$", "", name.rpartition("/")[2])
        if name.endswith(".xml"):
            rows.append(f'<Override PartName="/{name}" ContentType="{kinds[stem]}"/>')
    return (
        f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml"'
        ' ContentType="application/xml"/><Default Extension="png" ContentType="image/png"/>'
        f'<Default Extension="jpeg" ContentType="image/jpeg"/>{"".join(rows)}</Types>'
    )


def crowded(slides: list[Slide]) -> Iterator[str]:
    for number, slide in enumerate(slides, 1):
        words = sum(len(line.text.split()) for line in slide.lines)
        rows = len(slide.lines) + len(slide.table) + slide.code.count("\n") // 2
        if words > MOST_WORDS or rows > MOST_LINES:
            yield f"slide {number} is crowded: {words} words, {rows} lines"
        if not slide.title:
            yield f"slide {number} has no headline"


def write(options: argparse.Namespace) -> int:
    if options.out.exists() and not options.force:
        raise Problem(f"{options.out} is already there; use --force to replace it")
    if not re.fullmatch(r"[0-9A-Fa-f]{6}", options.accent):
        raise Problem(f"--accent takes six hexadecimal digits, not {options.accent!r}")
    try:
        text = options.file.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    except UnicodeError:
        raise Problem(f"{options.file} is no UTF-8 text") from None
    slides = [read(lines, options.file.parent) for lines in split(text)]
    if not slides:
        raise Problem(f"{options.file} has no slides")
    found: list[tuple[str, str | bytes]] = [*fixed_parts(slides, options)]
    for number, slide in enumerate(slides, 1):
        found += slide_parts(number, slide, options.accent)
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    with zipfile.ZipFile(options.out, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("[Content_Types].xml", head + types([name for name, _ in found]))
        for name, content_ in found:
            package.writestr(name, content_ if isinstance(content_, bytes) else head + content_)
    notes = sum(bool(slide.notes) for slide in slides)
    print(f"{options.out}: {len(slides)} slides, {notes} with notes")
    warnings = list(crowded(slides))
    for warning in warnings:
        print(f"!! {warning}")
    return 1 if warnings else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="Markdown")
    parser.add_argument("--out", type=Path, required=True, help="the .pptx file")
    parser.add_argument("--accent", default="1F4E79", help="the colour, as RRGGBB")
    parser.add_argument("--font", default="Calibri")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return write(options)
    except (Problem, OSError, struct.error) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
