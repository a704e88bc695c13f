"""A Markdown parser that accepts everything and takes time proportional to the text, however
malformed it is."""

import re
import string
from bisect import bisect_right
from typing import Literal

import msgspec

Emphasis = Literal["bold", "italic", "strike"]
MAX_EMPHASIS_DEPTH = 24
"""Deeper nested emphasis is text."""
MAX_LABEL = 2000
"""Maximum characters of a link label."""
_ESCAPABLE = frozenset(string.punctuation)
_TOKEN = re.compile(
    r"(?P<escape>\\.)"
    r"|(?P<ticks>`+)"
    r"|(?P<url>https?://[^\s<>`\"|\]]+)"
    r"|(?P<auto><(?:https?://|mailto:)[^\s<>]+>)"
    r"|(?P<open>!?\[)"
    r"|(?P<delimiter>\*+|_+|~+)",
    re.DOTALL,
)
_BARE = r"[^\s<>()]*"
_NESTED_ONCE = rf"{_BARE}(?:\({_BARE}\){_BARE})*"
_NESTED = rf"{_BARE}(?:\({_NESTED_ONCE}\){_BARE})*"
"""An address with nested parentheses."""
_DESTINATION = re.compile(
    r"\(\s*(?:<([^<>\n]*)>|(" + _NESTED + r"))"
    r"(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?\s*\)"
)
_PRODUCT = re.compile(r"[0-9][0-9A-Za-z]|[A-Za-z][0-9]")
_URL_TRAILERS = ".,;:!?'*_~"
_BRACKET = re.compile(r"\\.|\[|\]", re.DOTALL)
_STYLES: dict[tuple[str, int], Emphasis] = {
    ("*", 1): "italic",
    ("*", 2): "bold",
    ("_", 1): "italic",
    ("_", 2): "bold",
    ("~", 2): "strike",
}
MAX_BLOCK_DEPTH = 8
"""Deeper nested quotes and lists are text."""
FENCE = re.compile(r"(?P<indent>\s{0,9})(?P<mark>`{3,}|~{3,})(?P<language>[^`]*)\Z")
_HEADING = re.compile(r"\s{0,3}(#{1,6})(?:[ \t]+(.*))?\Z")
_RULE = re.compile(r"\s{0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*\Z")
_QUOTE = re.compile(r"\s{0,3}> ?")
_ITEM = re.compile(r"(?P<indent>\s*)(?P<mark>[-*+•]|\d{1,9}[.)])(?:[ \t]+(?P<text>.*)|\Z)")
_DIVIDER = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*\Z")
_CELL = re.compile(r"(?:\\.|[^|\\])*(?:\\\Z)?")


class TextSpan(msgspec.Struct, frozen=True):
    value: str


class CodeSpan(msgspec.Struct, frozen=True):
    value: str


class UrlSpan(msgspec.Struct, frozen=True):
    """An address written out in the text."""

    value: str


class StyledSpan(msgspec.Struct, frozen=True):
    style: Emphasis
    children: "tuple[Inline, ...]"


class LinkSpan(msgspec.Struct, frozen=True):
    url: str
    children: "tuple[Inline, ...]"


Inline = TextSpan | CodeSpan | UrlSpan | StyledSpan | LinkSpan


class HeadingBlock(msgspec.Struct, frozen=True):
    level: int
    content: tuple[Inline, ...]


class ParagraphBlock(msgspec.Struct, frozen=True):
    content: tuple[Inline, ...]


class FenceBlock(msgspec.Struct, frozen=True):
    language: str
    code: str


class QuoteBlock(msgspec.Struct, frozen=True):
    blocks: "tuple[Block, ...]"


class ListBlock(msgspec.Struct, frozen=True):
    items: "tuple[tuple[Block, ...], ...]"
    start: int | None = None
    """The first number; None for bullets."""


class TableBlock(msgspec.Struct, frozen=True):
    header: tuple[tuple[Inline, ...], ...]
    rows: tuple[tuple[tuple[Inline, ...], ...], ...]


class RuleBlock(msgspec.Struct, frozen=True):
    pass


Block = HeadingBlock | ParagraphBlock | FenceBlock | QuoteBlock | ListBlock | TableBlock | RuleBlock


def plain_text(content: tuple[Inline, ...]) -> str:
    """Return the text without formatting."""
    return "".join(
        part.value if isinstance(part, TextSpan | CodeSpan | UrlSpan) else plain_text(part.children)
        for part in content
    )


def parse_inline(text: str) -> tuple[Inline, ...]:
    return tuple(_InlineParser(text).run())


class _OpenEmphasis:
    """Emphasis that was opened and not yet closed."""

    def __init__(self, mark: str = "", count: int = 0, *, both: bool = False) -> None:
        self.mark, self.count = mark, count
        self.length, self.both = count, both
        """Original number of marks, and whether they could have closed emphasis too."""
        self.children: list[Inline] = []

    def fits(self, mark: str, length: int, *, both: bool) -> bool:
        """True if marks may close this, by the CommonMark rule: in `**a*b*c**` the single ones
        match."""
        if self.mark != mark:
            return False
        odd = (self.length + length) % 3 == 0 and (self.length % 3 or length % 3)
        return not ((both or self.both) and odd)


class _InlineParser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.frames = [_OpenEmphasis()]
        self.ticks = _backtick_runs(text)
        self.brackets = _matching_brackets(text)

    def run(self) -> list[Inline]:
        position = 0
        while match := _TOKEN.search(self.text, position):
            self.add_text(self.text[position : match.start()])
            position = self.token(match)
        self.add_text(self.text[position:])
        while len(self.frames) > 1:
            self.unfold()
        return self.frames[0].children

    def token(self, match: re.Match[str]) -> int:
        """Handle one token; return the position after it."""
        kind, value = match.lastgroup, match.group()
        if kind == "ticks":
            return self.code(match)
        if kind == "open":
            return self.link(match)
        if kind == "escape":
            # A backslash at the end of a line only marks the line break.
            self.add_text(value[1:] if value[1] in _ESCAPABLE or value[1] == "\n" else value)
        elif kind == "auto":
            self.add(UrlSpan(value[1:-1].removeprefix("mailto:")))
        elif kind == "url":
            return self.address(match)
        else:
            self.delimiter(match)
        return match.end()

    def code(self, match: re.Match[str]) -> int:
        length = match.end() - match.start()
        starts = self.ticks.get(length, [])
        index = bisect_right(starts, match.start())
        if index == len(starts):
            self.add_text(match.group())
            return match.end()
        inner = self.text[match.end() : starts[index]].replace("\n", " ")
        if inner.strip() and inner[0] == inner[-1] == " ":
            inner = inner[1:-1]
        self.add(CodeSpan(inner))
        return starts[index] + length

    def link(self, match: re.Match[str]) -> int:
        closing = self.brackets.get(match.end() - 1)
        if closing is None or closing - match.end() > MAX_LABEL:
            self.add_text(match.group())
            return match.end()
        destination = _DESTINATION.match(self.text, closing + 1)
        if destination is None:
            self.add_text(match.group())
            return match.end()
        label = self.text[match.end() : closing]
        url = (destination[1] or destination[2] or "").strip().replace(" ", "%20")
        # Links do not nest: brackets in a label are text.
        inner = parse_inline(label.replace("[", "\\[")) if label.strip() else (TextSpan(url),)
        self.add(LinkSpan(url, inner))
        return destination.end()

    def address(self, match: re.Match[str]) -> int:
        url = match.group().rstrip(_URL_TRAILERS)
        surplus = url.count(")") - url.count("(")
        while surplus > 0 and url.endswith(")"):
            url, surplus = url[:-1].rstrip(_URL_TRAILERS), surplus - 1
        self.add(UrlSpan(url))
        return match.start() + len(url)

    def delimiter(self, match: re.Match[str]) -> None:
        mark, count = match.group()[0], len(match.group())
        opens, closes = _flanking(self.text, match)
        both = opens and closes
        if closes:
            count = self.close(mark, count, both=both)
        if not count:
            return
        if opens and len(self.frames) < MAX_EMPHASIS_DEPTH and (mark != "~" or count >= 2):
            self.frames.append(_OpenEmphasis(mark, count, both=both))
        else:
            self.add_text(mark * count)

    def close(self, mark: str, count: int, *, both: bool) -> int:
        """Close open emphasis with this mark; return the number of unused marks. `both`: the marks
        could open emphasis too."""
        length = count
        while count:
            use = 2 if count >= 2 else 1
            frame = next(
                (f for f in reversed(self.frames) if f.fits(mark, length, both=both)), None
            )
            if frame is None or (mark == "~" and (use < 2 or frame.count < 2)):
                return count
            use = min(use, frame.count)
            while self.frames[-1] is not frame:
                self.unfold()
            styled = _merge_styled(_STYLES[mark, use], frame.children)
            frame.count -= use
            count -= use
            if frame.count:
                frame.children = [styled]
            else:
                self.frames.pop()
                self.add(styled)
        return 0

    def unfold(self) -> None:
        """Turn the innermost open emphasis back into text: it was never closed."""
        frame = self.frames.pop()
        self.add_text(frame.mark * frame.count)
        for child in frame.children:
            self.add(child)

    def add(self, part: Inline) -> None:
        children = self.frames[-1].children
        if isinstance(part, TextSpan) and children and isinstance(children[-1], TextSpan):
            part = TextSpan(children.pop().value + part.value)  # type: ignore[union-attr]  # `same` says which kind it is
        children.append(part)

    def add_text(self, text: str) -> None:
        if text:
            self.add(TextSpan(text))


def parse_markdown(text: str) -> tuple[Block, ...]:
    return tuple(_parse_blocks(text.expandtabs(4).split("\n"), 0))


def find_open_fence(text: str, opened: re.Match[str] | None = None) -> re.Match[str] | None:
    """Return the opening line of the code block that is open at the end of the text. `opened` is
    the one open at its beginning."""
    for line in text.split("\n"):
        if opened is None:
            opened = FENCE.match(line)
        elif closes_fence(line, opened):
            opened = None
    return opened


def closes_fence(line: str, opened: re.Match[str]) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(opened["mark"]) and not stripped.strip(opened["mark"][0])


def close_open_fence(text: str) -> str:
    """Return the text with its last code block closed, while it is still being written."""
    opened = find_open_fence(text)
    if opened is None:
        return text.strip("\n")
    return f"{text.rstrip()}\n{opened['indent']}{opened['mark']}"


def _merge_styled(style: Emphasis, children: list[Inline]) -> StyledSpan:
    """Flatten emphasis inside the same emphasis; some dialects cannot write it."""
    flat: list[Inline] = []
    for child in children:
        same = isinstance(child, StyledSpan) and child.style == style
        flat.extend(child.children if same else (child,))  # type: ignore[union-attr]  # `same` says which kind it is
    return StyledSpan(style, tuple(flat))


def _backtick_runs(text: str) -> dict[int, list[int]]:
    """Return the start positions of backtick runs by length."""
    runs: dict[int, list[int]] = {}
    for match in re.finditer("`+", text):
        runs.setdefault(match.end() - match.start(), []).append(match.start())
    return runs


def _matching_brackets(text: str) -> dict[int, int]:
    """Map each opening bracket to its closing one."""
    matches, opened = {}, []
    for match in _BRACKET.finditer(text):
        if match.group() == "[":
            opened.append(match.start())
        elif match.group() == "]" and opened:
            matches[opened.pop()] = match.start()
    return matches


def _flanking(text: str, match: re.Match[str]) -> tuple[bool, bool]:
    """Return whether a run of marks may open and may close emphasis, by the CommonMark rules; but
    `2*3*4` is a product."""
    before = text[match.start() - 1] if match.start() else " "
    after = text[match.end()] if match.end() < len(text) else " "
    if _PRODUCT.fullmatch(before + after):
        return False, False
    left = not after.isspace() and (after.isalnum() or before.isspace() or not before.isalnum())
    right = not before.isspace() and (before.isalnum() or after.isspace() or not after.isalnum())
    if match.group()[0] != "_":
        return left, right
    return left and (not right or not before.isalnum()), right and (not left or not after.isalnum())


def _parse_blocks(lines: list[str], depth: int) -> list[Block]:
    blocks: list[Block] = []
    index = 0
    while index < len(lines):
        if not lines[index].strip():
            index += 1
            continue
        block, index = _parse_block(lines, index, depth)
        blocks.append(block)
    return blocks


def _parse_block(lines: list[str], index: int, depth: int) -> tuple[Block, int]:
    line = lines[index]
    if opened := FENCE.match(line):
        return _parse_fence(lines, index, opened)
    if heading := _HEADING.match(line):
        title = (heading[2] or "").rstrip().rstrip("#").rstrip()
        return HeadingBlock(len(heading[1]), parse_inline(title)), index + 1
    if _RULE.match(line):
        return RuleBlock(), index + 1
    if depth < MAX_BLOCK_DEPTH:
        if _QUOTE.match(line):
            return _parse_quote(lines, index, depth)
        if item := _ITEM.match(line):
            return _parse_list(lines, index, item, depth)
    if _starts_table(lines, index):
        return _parse_table(lines, index)
    return _parse_paragraph(lines, index, depth)


def _parse_fence(lines: list[str], index: int, opened: re.Match[str]) -> tuple[Block, int]:
    width, code = len(opened["indent"]), []
    index += 1
    while index < len(lines) and not closes_fence(lines[index], opened):
        line = lines[index]
        code.append(line[min(width, len(line) - len(line.lstrip(" "))) :])
        index += 1
    words = opened["language"].split()
    return FenceBlock(words[0] if words else "", "\n".join(code)), index + 1


def _parse_quote(lines: list[str], index: int, depth: int) -> tuple[Block, int]:
    inner = []
    while index < len(lines) and (mark := _QUOTE.match(lines[index])):
        inner.append(lines[index][mark.end() :])
        index += 1
    return QuoteBlock(tuple(_parse_blocks(inner, depth + 1))), index


def _parse_list(
    lines: list[str], index: int, first: re.Match[str], depth: int
) -> tuple[Block, int]:
    items: list[list[str]] = []
    ordered = first["mark"][0].isdigit()
    base = len(first["indent"])
    while index < len(lines):
        item = _ITEM.match(lines[index])
        same = item and item["mark"][0].isdigit() == ordered and not _RULE.match(lines[index])
        if not item or not same or not base - 1 <= len(item["indent"]) <= base + 1:
            break
        content, index = _parse_item(lines, index, item)
        items.append(content)
    start = int(first["mark"][:-1]) if ordered else None
    return ListBlock(tuple(tuple(_parse_blocks(item, depth + 1)) for item in items), start), index


def _parse_item(lines: list[str], index: int, item: re.Match[str]) -> tuple[list[str], int]:
    """Return the lines of an item without its mark and indentation, and the index after it."""
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


def _parse_table(lines: list[str], index: int) -> tuple[Block, int]:
    header = _split_cells(lines[index])
    rows = []
    index += 2
    while index < len(lines) and "|" in lines[index]:
        cells = _split_cells(lines[index])
        rows.append(tuple((cells + [""] * len(header))[: max(len(header), len(cells))]))
        index += 1
    parsed = tuple(tuple(parse_inline(cell) for cell in row) for row in rows)
    return TableBlock(tuple(parse_inline(cell) for cell in header), parsed), index


def _split_cells(line: str) -> list[str]:
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


def _parse_paragraph(lines: list[str], index: int, depth: int) -> tuple[Block, int]:
    words = [lines[index].strip()]
    index += 1
    while index < len(lines) and lines[index].strip():
        if depth < MAX_BLOCK_DEPTH and _starts_block(lines, index):
            break
        words.append(lines[index].strip())
        index += 1
    return ParagraphBlock(parse_inline("\n".join(words))), index
