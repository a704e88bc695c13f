"""Paragraphs, lists, code, tables: what Markdown is divided into."""

import re

from hermes.gateway.platforms.kit.markdown import inline
from hermes.gateway.platforms.kit.markdown.nodes import (
    Block,
    Fence,
    Heading,
    Listing,
    Paragraph,
    Quote,
    Rule,
    Table,
)

MAX_DEPTH = 8
"""Quotes and lists in one another beyond this are text."""
FENCE = re.compile(r"(?P<indent>\s{0,9})(?P<mark>`{3,}|~{3,})(?P<language>[^`]*)\Z")
_HEADING = re.compile(r"\s{0,3}(#{1,6})(?:[ \t]+(.*))?\Z")
_RULE = re.compile(r"\s{0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*\Z")
_QUOTE = re.compile(r"\s{0,3}> ?")
_ITEM = re.compile(r"(?P<indent>\s*)(?P<mark>[-*+•]|\d{1,9}[.)])(?:[ \t]+(?P<text>.*)|\Z)")
_DIVIDER = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*\Z")
_CELL = re.compile(r"(?:\\.|[^|\\])*(?:\\\Z)?")


def parse(text: str) -> tuple[Block, ...]:
    return tuple(_parse(text.expandtabs(4).split("\n"), 0))


def fence_after(text: str, opened: re.Match[str] | None = None) -> re.Match[str] | None:
    """The opening line of the code that is still open at the end of the text, where `opened` was
    open at its beginning."""
    for line in text.split("\n"):
        if opened is None:
            opened = FENCE.match(line)
        elif closes(line, opened):
            opened = None
    return opened


def closes(line: str, opened: re.Match[str]) -> bool:
    bare = line.strip()
    return len(bare) >= len(opened["mark"]) and not bare.strip(opened["mark"][0])


def closed(text: str) -> str:
    """The text with its last code block closed, for while it is still being written."""
    opened = fence_after(text)
    if opened is None:
        return text.strip("\n")
    return f"{text.rstrip()}\n{opened['indent']}{opened['mark']}"


def _parse(lines: list[str], depth: int) -> list[Block]:
    blocks: list[Block] = []
    index = 0
    while index < len(lines):
        if not lines[index].strip():
            index += 1
            continue
        block, index = _block(lines, index, depth)
        blocks.append(block)
    return blocks


def _block(lines: list[str], index: int, depth: int) -> tuple[Block, int]:
    line = lines[index]
    if opened := FENCE.match(line):
        return _fence(lines, index, opened)
    if heading := _HEADING.match(line):
        title = (heading[2] or "").rstrip().rstrip("#").rstrip()
        return Heading(len(heading[1]), inline.parse(title)), index + 1
    if _RULE.match(line):
        return Rule(), index + 1
    if depth < MAX_DEPTH:
        if _QUOTE.match(line):
            return _quote(lines, index, depth)
        if item := _ITEM.match(line):
            return _list(lines, index, item, depth)
    if _starts_table(lines, index):
        return _table(lines, index)
    return _paragraph(lines, index, depth)


def _fence(lines: list[str], index: int, opened: re.Match[str]) -> tuple[Block, int]:
    width, code = len(opened["indent"]), []
    index += 1
    while index < len(lines) and not closes(lines[index], opened):
        line = lines[index]
        code.append(line[min(width, len(line) - len(line.lstrip(" "))) :])
        index += 1
    words = opened["language"].split()
    return Fence(words[0] if words else "", "\n".join(code)), index + 1


def _quote(lines: list[str], index: int, depth: int) -> tuple[Block, int]:
    inner = []
    while index < len(lines) and (mark := _QUOTE.match(lines[index])):
        inner.append(lines[index][mark.end() :])
        index += 1
    return Quote(tuple(_parse(inner, depth + 1))), index


def _list(lines: list[str], index: int, first: re.Match[str], depth: int) -> tuple[Block, int]:
    items: list[list[str]] = []
    ordered = first["mark"][0].isdigit()
    base = len(first["indent"])
    while index < len(lines):
        item = _ITEM.match(lines[index])
        same = item and item["mark"][0].isdigit() == ordered and not _RULE.match(lines[index])
        if not item or not same or not base - 1 <= len(item["indent"]) <= base + 1:
            break
        content, index = _item(lines, index, item)
        items.append(content)
    start = int(first["mark"][:-1]) if ordered else None
    return Listing(tuple(tuple(_parse(item, depth + 1)) for item in items), start), index


def _item(lines: list[str], index: int, item: re.Match[str]) -> tuple[list[str], int]:
    """The lines of one item, without its mark and indentation, and where the next thing begins."""
    base = len(item["indent"])
    width = item.start("text") if item["text"] is not None else base + 2
    content = [item["text"] or ""]
    index += 1
    while index < len(lines):
        line = lines[index]
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip():
            following = next((later for later in lines[index + 1 : index + 3] if later.strip()), "")
            if len(following) - len(following.lstrip(" ")) < base + 2:
                break
        elif indent < base + 2 and (not content[-1].strip() or _starts_block(lines, index)):
            break
        content.append(line[min(width, indent) :])
        index += 1
    while index < len(lines) and not lines[index].strip():
        index += 1
    return content, index


def _starts_block(lines: list[str], index: int) -> bool:
    line = lines[index]
    patterns = (FENCE, _HEADING, _RULE, _QUOTE, _ITEM)
    return any(pattern.match(line) for pattern in patterns) or _starts_table(lines, index)


def _starts_table(lines: list[str], index: int) -> bool:
    if "|" not in lines[index] or index + 1 >= len(lines):
        return False
    divider = lines[index + 1]
    return "-" in divider and "|" in divider and bool(_DIVIDER.match(divider))


def _table(lines: list[str], index: int) -> tuple[Block, int]:
    header = _cells(lines[index])
    rows = []
    index += 2
    while index < len(lines) and "|" in lines[index]:
        cells = _cells(lines[index])
        rows.append(tuple((cells + [""] * len(header))[: max(len(header), len(cells))]))
        index += 1
    parsed = tuple(tuple(inline.parse(cell) for cell in row) for row in rows)
    return Table(tuple(inline.parse(cell) for cell in header), parsed), index


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    if line.endswith("|") and not line.endswith("\\|"):
        line = line[:-1]
    cells, position = [], 0
    while position <= len(line):
        match = _CELL.match(line, position)
        end = match.end() if match else position
        cells.append(line[position:end].strip().replace("\\|", "|"))
        position = end + 1
    return cells


def _paragraph(lines: list[str], index: int, depth: int) -> tuple[Block, int]:
    words = [lines[index].strip()]
    index += 1
    while index < len(lines) and lines[index].strip():
        if depth < MAX_DEPTH and _starts_block(lines, index):
            break
        words.append(lines[index].strip())
        index += 1
    return Paragraph(inline.parse("\n".join(words))), index
