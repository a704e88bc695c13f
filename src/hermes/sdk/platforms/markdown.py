"""Markdown as a tree, parsed by markdown-it-py, and the fences of code blocks.

Every text is accepted. CommonMark is changed where people and models write something else: a
product such as `2*3*4` is not emphasis, addresses need no brackets, and no cell of a table is lost.
"""

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.tree import SyntaxTreeNode

FENCE = re.compile(r"(?P<indent>\s{0,9})(?P<mark>`{3,}|~{3,})(?P<language>[^`]*)\Z")
_STARS = re.compile(r"\*+")
_PRODUCT = re.compile(r"[0-9][0-9A-Za-z]|[A-Za-z][0-9]")
_URL_REST = re.compile(r"://[^\s<>`\"|\]]+")
_URL_TRAILERS = ".,;:!?'*_~"
_DIVIDER = re.compile(r"\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_CELL = re.compile(r"(?:\\.|[^|\\])*(?:\\\Z)?")
_OTHER_RULES = ["code", "lheading", "reference", "html_block", "html_inline", "entity"]
"""Rules of CommonMark that turn off-hand text into something else, or drop it."""


class _Parser(MarkdownIt):
    """Leaves addresses as they are: each dialect decides which ones become links."""

    def validateLink(self, url: str) -> bool:  # noqa: ARG002, N802 - the library's signature
        return True

    def normalizeLink(self, url: str) -> str:  # noqa: N802 - likewise
        return url.replace(" ", "%20")

    def normalizeLinkText(self, link: str) -> str:  # noqa: N802 - likewise
        return link


def parse_markdown(text: str) -> list[SyntaxTreeNode]:
    """Return the blocks. Raises `RecursionError` when they are nested too deeply."""
    return SyntaxTreeNode(_parser.parse(text.expandtabs(4))).children


def parse_inline(text: str) -> list[SyntaxTreeNode]:
    return inline_nodes(SyntaxTreeNode(_parser.parseInline(text)))


def inline_nodes(block: SyntaxTreeNode) -> list[SyntaxTreeNode]:
    """Return the content of a paragraph or heading."""
    return block.children[0].children if block.children else []


def table_rows(table: SyntaxTreeNode) -> list[list[list[SyntaxTreeNode]]]:
    """Return the cells of each row; the first row is the header."""
    return [[parse_inline(cell) for cell in row] for row in table.meta["rows"]]


def plain_text(nodes: Sequence[SyntaxTreeNode]) -> str:
    """Return the text without formatting."""
    return "".join(
        "\n" if node.type.endswith("break") else plain_text(node.children) or node.content
        for node in nodes
    )


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


def _product(state: StateInline, silent: bool) -> bool:
    """Inline rule: `2*3*4` is a product."""
    found = _STARS.match(state.src, state.pos)
    if not found or not state.pos:
        return False
    if not _PRODUCT.fullmatch(state.src[state.pos - 1] + state.src[found.end() : found.end() + 1]):
        return False
    if not silent:
        state.pending += found[0]
    state.pos = found.end()
    return True


def _bare_url(state: StateInline, silent: bool) -> bool:
    """Inline rule: an address in the text is a node `url`. The rule starts at the colon, where the
    library ends a piece of text."""
    rest = _URL_REST.match(state.src, state.pos)
    before = state.src[max(0, state.pos - 5) : state.pos].lower()
    scheme = state.src[state.pos - (5 if before == "https" else 4) : state.pos]
    if not rest or not before.endswith(("http", "https")):
        return False
    url = rest[0].rstrip(_URL_TRAILERS)
    surplus = url.count(")") - url.count("(")
    while surplus > 0 and url.endswith(")"):
        url, surplus = url[:-1].rstrip(_URL_TRAILERS), surplus - 1
    if not silent:
        if not state.pending.endswith(scheme):
            return False
        state.pending = state.pending[: -len(scheme)]
        state.push("url", "", 0).content = scheme + url
    state.pos += len(url)
    return True


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Block rule: a table of rows of any length, which ends at the first line without `|`."""

    def line(number: int) -> str:
        return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]

    if start + 1 >= end or "|" not in line(start) or state.sCount[start + 1] < state.blkIndent:
        return False
    if "|" not in line(start + 1) or not _DIVIDER.fullmatch(line(start + 1)):
        return False
    if silent:
        return True
    rows = [_split_cells(line(start))]
    state.line = start + 2
    while state.line < end and state.sCount[state.line] >= state.blkIndent:
        if "|" not in line(state.line):
            break
        cells = _split_cells(line(state.line))
        rows.append(cells + [""] * (len(rows[0]) - len(cells)))
        state.line += 1
    state.push("table_rows", "", 0).meta = {"rows": rows}
    return True


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


_parser = _Parser("commonmark", {"html": False, "maxNesting": 10_000})
_parser.disable(_OTHER_RULES).enable(["strikethrough", "table"])
_parser.block.ruler.at("table", _table, {"alt": ["paragraph"]})
_parser.inline.ruler.before("emphasis", "product", _product)
_parser.inline.ruler.before("emphasis", "url", _bare_url)
