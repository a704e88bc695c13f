"""Make slides of a Markdown file: one HTML file that needs nothing else.

A line of --- starts a new slide; with --headings each # or ## heading does. Lines after `Notes:`
are for the speaker. Pictures that lie beside the file are put into the page. Keys in the browser:
arrows or space move, n shows the notes, f is full screen, p prints (save as PDF).

  slides.py talk.md --out talk.html
  slides.py talk.md --check            (only look for slides that are too full)
Exit code: 0 done, 1 with --check: something was found, 2 an error.
"""
# ruff: noqa: T201, E501 - prints its answer; style and script of the page

from __future__ import annotations

import argparse
import base64
import html
import mimetypes
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MOST_WORDS, MOST_BULLETS, MOST_CODE = 60, 6, 15
FENCE = re.compile(r"^(```|~~~)(.*)$")
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])\s+(.*)$")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
STYLE = """
*{box-sizing:border-box}body{margin:0;background:#222;font:24px/1.4 system-ui,sans-serif;color:#111}
section{display:none;background:#fff;width:100vw;height:100vh;padding:5vh 7vw;overflow:auto;position:relative}
section.on{display:block}h1{font-size:2em;margin:.2em 0 .6em}h2{font-size:1.5em;margin:.2em 0 .6em}
section.title{text-align:center;padding-top:28vh}pre{background:#f2f2f2;padding:.6em;font-size:.75em;overflow:auto}
img{max-width:100%;max-height:60vh;display:block;margin:auto}table{border-collapse:collapse}
td,th{border-bottom:1px solid #bbb;padding:.2em .8em;text-align:left}li{margin:.25em 0}
blockquote{border-left:4px solid #999;margin:0;padding-left:1em;color:#444}
aside{display:none;background:#fff6d6;padding:.5em;font-size:.7em}.notes aside{display:block}
footer{position:absolute;bottom:1.5vh;right:2vw;font-size:.6em;color:#888}
@media print{@page{size:297mm 167mm;margin:0}section{display:block;page-break-after:always;height:100vh}}
"""
SCRIPT = """
const all=[...document.querySelectorAll('section')];let at=Math.max(0,(parseInt(location.hash.slice(1))||1)-1);
function show(n){at=Math.min(Math.max(n,0),all.length-1);all.forEach((s,i)=>s.classList.toggle('on',i===at));
history.replaceState(null,'','#'+(at+1))}
addEventListener('keydown',e=>{const k=e.key;if(['ArrowRight','PageDown',' ','Enter'].includes(k))show(at+1);
else if(['ArrowLeft','PageUp','Backspace'].includes(k))show(at-1);else if(k==='Home')show(0);
else if(k==='End')show(all.length-1);else if(k==='n')document.body.classList.toggle('notes');
else if(k==='p')print();else if(k==='f')document.documentElement.requestFullscreen();else return;e.preventDefault()});
addEventListener('click',e=>{if(!e.target.closest('a'))show(at+(e.clientX>innerWidth/3?1:-1))});show(at);
"""


class Problem(Exception):
    """Something the user has to correct."""


@dataclass
class Slide:
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        found = next((row for row in self.lines if row.startswith("#")), "")
        return found.lstrip("# ").strip()


def split(text: str, headings: bool) -> list[Slide]:
    slides = [Slide()]
    fence, in_notes = "", False
    for row in text.splitlines():
        found = FENCE.match(row.strip())
        if found:
            fence = "" if fence == found[1] else fence or found[1]
        breaks = not fence and not found and re.fullmatch(r"-{3,}\s*", row)
        starts = headings and not fence and not found and re.match(r"#{1,2} ", row)
        if breaks or (starts and any(each.strip() for each in slides[-1].lines)):
            slides.append(Slide())
            in_notes = False
            if breaks:
                continue
        if not fence and re.match(r"(?i)notes?:\s*", row):
            in_notes, row = True, re.sub(r"(?i)^notes?:\s*", "", row)
        (slides[-1].notes if in_notes else slides[-1].lines).append(row)
    return [each for each in slides if any(row.strip() for row in (*each.lines, *each.notes))]


def inline(text: str, folder: Path) -> str:
    kept: list[str] = []

    def code(found: re.Match[str]) -> str:
        kept.append(f"<code>{html.escape(found[1])}</code>")
        return f"\0{len(kept) - 1}\0"

    text = html.escape(re.sub(r"`([^`]+)`", code, text), quote=False)
    text = PICTURE.sub(
        lambda m: f'<img alt="{html.escape(m[1])}" src="{source(m[2], folder)}">', text
    )
    text = re.sub(
        r"\[([^\[\]]+)\]\(((?:https?://|mailto:|#)[^)\s]+)\)", r'<a href="\2">\1</a>', text
    )
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    text = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?!\w)", r"<em>\1</em>", text)
    return re.sub(r"\0(\d+)\0", lambda m: kept[int(m[1])], text)


def source(target: str, folder: Path) -> str:
    if re.match(r"https?://|data:image/", target):
        return html.escape(target)
    file = folder / target
    if not file.is_file():
        raise Problem(f"the picture {target} is not there")
    kind = mimetypes.guess_type(file.name)[0] or ""
    if not kind.startswith("image/"):
        raise Problem(f"{target} is no picture")
    return f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"


def blocks(lines: list[str], folder: Path) -> Iterator[str]:
    rows = [*lines, ""]
    place = 0
    while place < len(rows):
        row = rows[place]
        end = place + 1
        fence = FENCE.match(row.strip())
        if fence:
            end = next(
                (n for n in range(end, len(rows)) if rows[n].strip() == fence[1]), len(rows) - 1
            )
            yield f"<pre><code>{html.escape(chr(10).join(rows[place + 1 : end]))}</code></pre>"
            end += 1
        elif re.match(r"#{1,6} ", row):
            level = len(row) - len(row.lstrip("#"))
            yield f"<h{level}>{inline(row[level:].strip(), folder)}</h{level}>"
        elif row.strip():
            kind = kind_of(row)
            while (
                rows[end].strip() and kind_of(rows[end]) == kind and not rows[end].startswith("#")
            ):
                end += 1
            yield MAKERS[kind](rows[place:end], folder)
        place = end


def kind_of(row: str) -> str:
    if ITEM.match(row):
        return "list"
    if FENCE.match(row.strip()):
        return "code"
    return {"|": "table", ">": "quote"}.get(row.lstrip()[:1], "text")


def listing(rows: list[str], folder: Path) -> str:
    made: list[str] = []
    open_tags: list[tuple[int, str]] = []
    for row in rows:
        found = ITEM.match(row)
        assert found
        depth, tag = len(found[1]), "ol" if found[2][0].isdigit() else "ul"
        while open_tags and open_tags[-1][0] > depth:
            made.append(f"</{open_tags.pop()[1]}>")
        if not open_tags or open_tags[-1][0] < depth:
            open_tags.append((depth, tag))
            made.append(f"<{tag}>")
        made.append(f"<li>{inline(found[3], folder)}</li>")
    return "".join(made) + "".join(f"</{tag}>" for _, tag in reversed(open_tags))


def table(rows: list[str], folder: Path) -> str:
    cells = [[inline(c.strip(), folder) for c in row.strip().strip("|").split("|")] for row in rows]
    ruled = len(rows) > 1 and re.fullmatch(r"[\s|:-]+", rows[1])
    made = []
    for number, row in enumerate(cells):
        if not (ruled and number == 1):
            tag = "th" if ruled and number == 0 else "td"
            made.append("<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in row) + "</tr>")
    return f"<table>{''.join(made)}</table>"


def quote(rows: list[str], folder: Path) -> str:
    text = " ".join(row.strip().lstrip("> ") for row in rows)
    return f"<blockquote>{inline(text, folder)}</blockquote>"


def paragraph(rows: list[str], folder: Path) -> str:
    return f"<p>{inline(' '.join(row.strip() for row in rows), folder)}</p>"


MAKERS = {"list": listing, "table": table, "quote": quote, "text": paragraph, "code": paragraph}


def page(slides: list[Slide], folder: Path) -> str:
    made = []
    for number, slide in enumerate(slides, 1):
        rows = [row for row in slide.lines if row.strip()]
        kind = ' class="title"' if number == 1 and len(rows) <= 3 else ""
        body = "".join(blocks(slide.lines, folder))
        notes = " ".join(" ".join(slide.notes).split())
        aside = f"<aside>{html.escape(notes)}</aside>" if notes else ""
        foot = f"<footer>{number} / {len(slides)}</footer>"
        made.append(f"<section{kind}>{body}{aside}{foot}</section>\n")
    title = html.escape(slides[0].title or "Slides")
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    return f"{head}<style>{STYLE}</style>\n{''.join(made)}<script>{SCRIPT}</script></html>\n"


def full(slides: list[Slide]) -> Iterator[str]:
    titles: set[str] = set()
    for number, slide in enumerate(slides, 1):
        text = "\n".join(slide.lines)
        code = re.findall(r"^```.*?^```", text, re.S | re.M)
        words = len(re.sub(r"^```.*?^```", "", text, flags=re.S | re.M).split())
        bullets = sum(bool(ITEM.match(row)) for row in slide.lines)
        facts = {
            f"{words} words": words > MOST_WORDS,
            f"{bullets} points": bullets > MOST_BULLETS,
            "a long piece of code": any(each.count("\n") > MOST_CODE for each in code),
            "no heading": not slide.title and not PICTURE.search(text),
            "the same heading as before": bool(slide.title) and slide.title in titles,
        }
        titles.add(slide.title)
        yield from (f"slide {number}: {fact}" for fact, wrong in facts.items() if wrong)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the Markdown file")
    parser.add_argument("--out", type=Path, help="the HTML file; beside the Markdown by default")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    parser.add_argument("--headings", action="store_true", help="# and ## start slides too")
    parser.add_argument("--check", action="store_true", help="only look for crowded slides")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        text = options.file.read_text(encoding="utf-8-sig")
        slides = split(re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL), options.headings)
        if not slides:
            raise Problem("there are no slides in it")
        found = list(full(slides))
        print("\n".join([*found, f"{len(slides)} slides"]))
        if options.check:
            return 1 if found else 0
        target = options.out or options.file.with_suffix(".html")
        if target.exists() and not options.force:
            raise Problem(f"{target} is already there; use --force to replace it")
        target.write_text(page(slides, options.file.parent), encoding="utf-8")
        print(target)
    except UnicodeError:
        print(f"error: {options.file} is no UTF-8 text", file=sys.stderr)
        return 2
    except (Problem, OSError) as error:
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
