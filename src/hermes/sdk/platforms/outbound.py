"""Turns an answer of the agent into messages of a platform: parses its Markdown, renders it in the
dialect of the platform, splits it within the platform's limits, and limits how often it is called.

Every text is accepted and gives readable output: what is not Markdown stays text, unclosed marks
are closed, and all text is escaped. CommonMark is changed where people and models write something
else: a product such as `2*3*4` is not emphasis, addresses need no brackets, and no cell of a table
is lost.

The rendered text is measured, so every part really fits. A code block that is cut is closed in one
part and opened again, with its language, in the next. Apart from that, and from white space at the
cuts, the parts are the text.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal

from hermes.core.ports import Clock
from hermes.sdk.platforms.contract import (
    Capabilities,
    Media,
    MessageDialect,
    OutgoingMessage,
    RateLimit,
)
from hermes.util.text import clean

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.tree import SyntaxTreeNode

# Parsing.

FENCE = re.compile(r"(?P<indent>\s{0,9})(?P<mark>`{3,}|~{3,})(?P<language>[^`]*)\Z")
_STARS = re.compile(r"\*+")
_PRODUCT = re.compile(r"[0-9][0-9A-Za-z]|[A-Za-z][0-9]")
_URL_REST = re.compile(r"://[^\s<>`\"|\]]+")
_URL_TRAILERS = ".,;:!?'*_~"
_DIVIDER = re.compile(r"\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_CELL = re.compile(r"(?:\\.|[^|\\])*(?:\\\Z)?")
_OTHER_RULES = ["code", "lheading", "reference", "html_block", "html_inline", "entity"]
"""Rules of CommonMark that turn off-hand text into something else, or drop it."""


def parse_markdown(text: str) -> "list[SyntaxTreeNode]":
    """Return the blocks. Raises `RecursionError` when they are nested too deeply."""
    from markdown_it.tree import SyntaxTreeNode  # see `_parser`

    return SyntaxTreeNode(_parser().parse(text.expandtabs(4))).children


def parse_inline(text: str) -> "list[SyntaxTreeNode]":
    from markdown_it.tree import SyntaxTreeNode  # see `_parser`

    return inline_nodes(SyntaxTreeNode(_parser().parseInline(text)))


def inline_nodes(block: "SyntaxTreeNode") -> "list[SyntaxTreeNode]":
    """Return the content of a paragraph or heading."""
    return block.children[0].children if block.children else []


def table_rows(table: "SyntaxTreeNode") -> "list[list[list[SyntaxTreeNode]]]":
    """Return the cells of each row; the first row is the header."""
    return [[parse_inline(cell) for cell in row] for row in table.meta["rows"]]


def plain_text(nodes: "Sequence[SyntaxTreeNode]") -> str:
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


def _product(state: "StateInline", silent: bool) -> bool:
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


def _bare_url(state: "StateInline", silent: bool) -> bool:
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


def _table(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
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


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # 2 MB, which a gateway without chats never needs

    class _Parser(MarkdownIt):
        """Leaves addresses as they are: each dialect decides which ones become links."""

        def validateLink(self, url: str) -> bool:  # noqa: ARG002, N802 - the library's signature
            return True

        def normalizeLink(self, url: str) -> str:  # noqa: N802 - likewise
            return url.replace(" ", "%20")

        def normalizeLinkText(self, link: str) -> str:  # noqa: N802 - likewise
            return link

    parser = _Parser("commonmark", {"html": False, "maxNesting": 10_000})
    parser.disable(_OTHER_RULES).enable(["strikethrough", "table"])
    parser.block.ruler.at("table", _table, {"alt": ["paragraph"]})
    parser.inline.ruler.before("emphasis", "product", _product)
    parser.inline.ruler.before("emphasis", "url", _bare_url)
    return parser


# Rendering.

PLAIN = MessageDialect()
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
_TILDES = re.compile("~+")


def convert(text: str, dialect: MessageDialect | Literal["plain", "markdown"]) -> str:
    """Render Markdown in a dialect. Text without content becomes ""."""
    text = clean(text)
    if dialect == "markdown":
        return close_open_fence(text)
    style = dialect if isinstance(dialect, MessageDialect) else PLAIN
    try:
        return _render(text, style)
    except RecursionError:  # nested hundreds of levels deep: shown as code, as it was written
        mark = "~" * (max(map(len, _TILDES.findall(text)), default=0) + 3)
        return _render(f"{mark}\n{text}\n{mark}", style)


def _render(text: str, style: MessageDialect) -> str:
    return _blocks(parse_markdown(text), style, style.between).strip("\n")


def _blocks(
    blocks: "Sequence[SyntaxTreeNode]", style: MessageDialect, between: str, *, quoted: bool = False
) -> str:
    if style.bare_paragraphs and len(blocks) == 1 and blocks[0].type == "paragraph":
        return _inline(inline_nodes(blocks[0]), style)
    written = (_block(block, style, quoted=quoted) for block in blocks)
    return between.join(part for part in written if part.strip())


def _block(block: "SyntaxTreeNode", style: MessageDialect, *, quoted: bool) -> str:
    match block.type:
        case "heading":
            return style.heading(int(block.tag[1]), _inline(inline_nodes(block), style))
        case "fence":
            language = (block.info.split() or [""])[0]
            language = language if _LANGUAGE.fullmatch(language) else ""
            code = block.content.removesuffix("\n")
            return style.fence(language, code) if code.strip() else ""
        case "blockquote":
            text = _blocks(block.children, style, "\n", quoted=True)
            return text if quoted and not style.quotes_nest else style.quote(text)
        case "bullet_list" | "ordered_list":
            return _list(block, style, quoted=quoted)
        case "table_rows":
            if style.table is None:
                return style.fence("", _format_table(block))
            return style.table([[_inline(cell, style) for cell in r] for r in table_rows(block)])
        case "hr":
            return style.rule
    return style.paragraph(_inline(inline_nodes(block), style))


def _list(block: "SyntaxTreeNode", style: MessageDialect, *, quoted: bool) -> str:
    start = int(block.attrs.get("start", 1))
    if style.listing is not None:
        items = [
            _blocks(item.children[:1], style, "")
            + "".join(_block(part, style, quoted=quoted) for part in item.children[1:])
            for item in block.children
        ]
        return style.listing(None if block.type == "bullet_list" else start, items)
    lines = []
    for number, item in enumerate(block.children, start):
        mark = style.bullet if block.type == "bullet_list" else f"{number}. "
        margin = "\n" + " " * len(mark)
        parts = [(part, _block(part, style, quoted=quoted)) for part in item.children]
        indented = [
            text if part.type in ("fence", "table_rows") else text.replace("\n", margin)
            for part, text in parts
        ]
        lines.append(mark + margin.join(indented))
    return "\n".join(lines)


def _format_table(table: "SyntaxTreeNode") -> str:
    """Return the table as lines of aligned columns, for platforms without tables."""
    rows = [[plain_text(cell) for cell in row] for row in table_rows(table)]
    columns = max(len(row) for row in rows)
    rows = [row + [""] * (columns - len(row)) for row in rows]
    widths = [max(_width(row[column]) for row in rows) for column in range(columns)]
    lines = [
        " | ".join(cell + " " * (widths[i] - _width(cell)) for i, cell in enumerate(row)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])


def _width(text: str) -> int:
    from wcwidth import wcswidth  # 1 MB, which only chats need

    width = wcswidth(text)
    return len(text) if width < 0 else width


def _inline(
    content: "Sequence[SyntaxTreeNode]", style: MessageDialect, inside: frozenset[str] = frozenset()
) -> str:
    """`inside` are the kinds of emphasis around the content, which are not written again: some
    dialects cannot."""
    return "".join(_span(part, style, inside) for part in content)


def _span(part: "SyntaxTreeNode", style: MessageDialect, inside: frozenset[str]) -> str:
    match part.type:
        case "code_inline":
            return style.code(part.content)
        case "url":
            return style.url(part.content)
        case "softbreak" | "hardbreak":
            return style.line_break
        case "strong" | "em" | "s":
            inner = _inline(part.children, style, inside | {part.type})
            before, after = getattr(style, part.type)
            marked = inner.strip() and part.type not in inside
            return before + inner + after if marked else inner
        case "link" | "image":
            url = str(part.attrs.get("href") or part.attrs.get("src") or "")
            words = plain_text(part.children)
            if words in ("", url) and url.startswith(style.schemes):
                return style.url(url)
            label = _inline(part.children, style, inside)
            if url.startswith(style.schemes):
                return style.link(label, url)
            return f"{label} ({style.text(url)})".strip() if url and words != url else label
    return style.text(part.content)


# Splitting.

Counts = Literal["characters", "utf16", "bytes"]
_SENTENCE_END = re.compile(r"[.!?…。！？][\"')\]”’]*\s+")
MAX_LANGUAGE = 32
_MIN_FILL = 0.4
"""A cut that fills less than this share of a part is used only if there is no better one."""


_MEASURES: dict[Counts, Callable[[str], int]] = {
    "characters": len,
    "utf16": lambda text: len(text) + sum(character > "\uffff" for character in text),
    "bytes": lambda text: len(text.encode()),
}


def measure(text: str, counts: Counts) -> int:
    """Return the length of a text as the platform counts it."""
    return _MEASURES[counts](text)


def split_text(
    text: str, limit: int, counts: Counts = "characters", convert: Callable[[str], str] = str
) -> list[str]:
    """Split Markdown into parts of at most `limit` after `convert`. Parts without visible text are
    dropped. A single grapheme is a part even when it is too long."""
    measured = _MEASURES[counts]
    parts = _split(clean(text), lambda part: measured(convert(part)) <= limit)
    return [part for part in parts if convert(part).strip()]


def compose(
    text: str, capabilities: Capabilities, files: Sequence[Media] = ()
) -> list[OutgoingMessage]:
    """Return messages in the platform's dialect within its limit, then one for each file. Blank
    text without files gives no message."""

    def dialect(part: str) -> str:
        return convert(part, capabilities.dialect)

    parts = split_text(text, capabilities.max_chars, capabilities.counts, dialect)
    messages = [OutgoingMessage(dialect(part), plain=convert(part, "plain")) for part in parts]
    return messages + [OutgoingMessage(media=(media,)) for media in files]


def _split(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
    opener = ""  # the line that reopens a code block that was cut
    rest = text.strip("\n")
    while rest.strip():
        whole = (opener + rest).rstrip()
        if fits(whole):
            yield whole
            return
        end = _find_cut(rest, opener, fits)
        part, following = _close_code(opener + rest[:end])
        if rest[:end].strip():
            yield part
        opener, rest = _after_cut(following, rest[end:])


def _after_cut(opener: str, rest: str) -> tuple[str, str]:
    """Return what follows a cut, without the line end at the cut. In code, blanks are significant.
    A code block cut just before its end is not opened again."""
    if not opener:
        return "", rest.lstrip("\n").removeprefix(" ")
    rest = rest.removeprefix("\n")
    line, _, after = rest.partition("\n")
    opened = FENCE.match(opener.rstrip("\n"))
    if opened and closes_fence(line, opened):
        return "", after.lstrip("\n")
    return opener, rest


def _close_code(part: str) -> tuple[str, str]:
    """Return the part with its code block closed, and the line that opens it again."""
    opened = find_open_fence(part)
    if opened is None:
        return part.rstrip(), ""
    mark = opened["indent"] + opened["mark"]
    body = part.rstrip("\n")
    language = opened["language"].strip().partition(" ")[0][:MAX_LANGUAGE]
    return f"{body}\n{mark}", f"{mark}{language}\n"


def _find_cut(rest: str, opener: str, fits: Callable[[str], bool]) -> int:
    """Return how many characters go into the next part; at least one."""
    longest = _longest_fitting(rest, opener, fits)
    for end in _cut_candidates(rest, longest):
        if not _in_opening_line(rest, end) and fits(_close_code(opener + rest[:end])[0]):
            return end
    end = longest
    while end > 1 and not fits(_close_code(opener + rest[:end])[0]):
        end -= max(1, end // 8)
    return max(_grapheme_boundary(rest, end), 1)


def _in_opening_line(rest: str, end: int) -> bool:
    """A cut inside a fence line would turn the language into code."""
    line = rest.rfind("\n", 0, end) + 1
    return line > 0 and rest[end : end + 1] != "\n" and FENCE.match(rest[line:end]) is not None


def _longest_fitting(rest: str, opener: str, fits: Callable[[str], bool]) -> int:
    """Return the longest prefix that fits, by bisection. Approximate, because rendered text need
    not grow with its source."""
    low, high = 0, 64
    while high < len(rest) and fits(_close_code(opener + rest[:high])[0]):
        low, high = high, high * 2
    high = min(high, len(rest))
    while high - low > 1:
        middle = (low + high) // 2
        if fits(_close_code(opener + rest[:middle])[0]):
            low = middle
        else:
            high = middle
    return max(low, 1)


def _cut_candidates(rest: str, longest: int) -> Iterator[int]:
    """Yield cuts, best first: after a paragraph, a line, a sentence, a word, a grapheme."""
    head = rest[:longest]
    least = int(longest * _MIN_FILL)
    sentences = [match.end() for match in _SENTENCE_END.finditer(head)] or [-1]
    for found in (_paragraph_end(head), head.rfind("\n"), sentences[-1], head.rfind(" ") + 1):
        if found > least and head[:found].strip():
            yield found
    for found in (head.rfind("\n"), head.rfind(" ") + 1):
        if found > 0 and head[:found].strip():
            yield found
    yield _grapheme_boundary(rest, longest)


def _paragraph_end(head: str) -> int:
    """Return the position of the last empty line outside code; -1 for none."""
    position = len(head)
    while (position := head.rfind("\n\n", 0, position)) > 0:
        if find_open_fence(head[:position]) is None:
            return position
    return -1


def _grapheme_boundary(rest: str, end: int) -> int:
    """Return `end`, or a position shortly before it, that splits no grapheme. A grapheme longer
    than the limit is split."""
    from wcwidth import iter_graphemes  # 1 MB, which only chats need

    start = max(0, end - 64)
    window = rest[start : end + 64]
    position = start
    for sign in iter_graphemes(window):
        if position + len(sign) > end:
            return position if position > start or start > 0 else end
        position += len(sign)
    return end


# Rate limits: one bucket for each chat and one for the platform, shared by sends and edits.
#
# A bucket holds as many tokens as calls are allowed. Each token returns when the platform's time
# span has passed since it was taken, so no span of that length ever sees more calls than allowed.

PRUNE_AT = 256  #: Number of chats above which idle ones are removed.


class _Bucket:
    def __init__(self, rate: RateLimit) -> None:
        self.rate = rate
        self.taken: deque[float] = deque()
        self.paused_until = float("-inf")
        self.turn = asyncio.Lock()  #: Waiting calls are served in order.
        self.waiting = 0

    def delay(self, now: float) -> float:
        """Return the seconds until a token is available."""
        while self.taken and self.taken[0] + self.rate.seconds <= now:
            self.taken.popleft()
        full = len(self.taken) >= self.rate.count
        back = self.taken[0] + self.rate.seconds - now if full else 0.0
        return max(back, self.paused_until - now, 0.0)

    def is_idle(self, now: float) -> bool:
        """True if the bucket equals a new one and can be removed."""
        return self.delay(now) == 0.0 and not self.taken and not self.waiting


class RateLimiter:
    """The rate limits of one platform."""

    def __init__(self, per_chat: RateLimit, per_platform: RateLimit, clock: Clock) -> None:
        self._per_chat, self._clock = per_chat, clock
        self._all = _Bucket(per_platform)
        self._chats: dict[str, _Bucket] = {}
        self._prune_at = PRUNE_AT

    def __len__(self) -> int:
        """Number of chats remembered."""
        return len(self._chats)

    def is_ready(self, chat: str) -> bool:
        """True if a call could be made now; takes no token."""
        return self._delay(chat) == 0.0

    def try_take(self, chat: str, *, leave: int = 0) -> bool:
        """Take a token if one is available now and the chat has `leave` more (at most half of its
        bucket). For edits, which are skipped rather than queued and leave room for sends."""
        bucket = self._bucket(chat)
        if bucket.waiting or self._delay(chat) > 0.0:
            return False
        left = bucket.rate.count - len(bucket.taken) - 1
        if left < min(leave, bucket.rate.count // 2):
            return False
        self._take(bucket)
        return True

    async def acquire(self, chat: str) -> None:
        """Take a token, waiting in order for it."""
        bucket = self._bucket(chat)
        bucket.waiting += 1
        try:
            async with bucket.turn:
                while delay := self._delay(chat):
                    await self._clock.sleep(delay)
                self._take(bucket)
        finally:
            bucket.waiting -= 1

    def pause(self, chat: str, seconds: float) -> None:
        """Make no calls to the chat for this time, as the platform requested."""
        bucket = self._bucket(chat)
        bucket.paused_until = max(bucket.paused_until, self._clock.monotonic() + seconds)

    def _delay(self, chat: str) -> float:
        now = self._clock.monotonic()
        bucket = self._chats.get(chat)
        return max(self._all.delay(now), bucket.delay(now) if bucket else 0.0)

    def _take(self, bucket: _Bucket) -> None:
        now = self._clock.monotonic()
        bucket.taken.append(now)
        self._all.taken.append(now)

    def _bucket(self, chat: str) -> _Bucket:
        bucket = self._chats.get(chat)
        if bucket is None:
            if len(self._chats) >= self._prune_at:
                now = self._clock.monotonic()
                self._chats = {name: b for name, b in self._chats.items() if not b.is_idle(now)}
                self._prune_at = max(PRUNE_AT, 2 * len(self._chats))
            bucket = self._chats[chat] = _Bucket(self._per_chat)
        return bucket
