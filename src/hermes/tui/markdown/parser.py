"""Markdown lines: their markers and kinds of blocks, and the inline markup of their text."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Literal, NamedTuple

from hermes.tui.text import Depth, Paint, Range, is_ideographic, safe

# Which asterisks, underscores and tildes are emphasis.

MAX_SPAN = 1000
"""Characters within which markup must be closed; otherwise it is text. This bounds how long a
row of a paragraph can be undecided."""
STRONG, EMPHASIS = 2, 1


class EmphasisMark:
    """A run of one of `*_~` that may open or close emphasis."""

    __slots__ = ("at", "char", "closed", "closes", "left", "opened", "opens", "size")

    def __init__(self, at: int, run: str, before: str, after: str) -> None:
        self.at = at
        self.char = run[0]
        self.size = self.left = len(run)
        left, right = _is_flanking(before, after), _is_flanking(after, before)
        if self.char == "_":
            self.opens = left and (not right or _is_punctuation(before))
            self.closes = right and (not left or _is_punctuation(after))
        else:
            usable = self.char == "*" or self.size == STRONG
            self.opens, self.closes = left and usable, right and usable
        self.opened: list[int] = []
        self.closed: list[int] = []
        """For each match, how many characters of the run opened or closed emphasis."""


def pair_marks(marks: Iterable[EmphasisMark]) -> list[EmphasisMark]:
    """Pair the delimiters and return those that can still open emphasis.

    Further text does not change the pairs.
    """
    able: list[EmphasisMark] = []
    count = Counter[str]()
    for mark in marks:
        while mark.closes and mark.left and count[mark.char]:
            index = _opener(mark, able)
            if index < 0:
                break
            opener = able[index]
            size = STRONG if min(opener.left, mark.left) >= STRONG else EMPHASIS
            opener.left -= size
            mark.left -= size
            opener.opened.append(size)
            mark.closed.append(size)
            first_gone = index + (1 if opener.left else 0)
            count.subtract([gone.char for gone in able[first_gone:]])
            del able[first_gone:]
        if mark.opens and mark.left:
            able.append(mark)
            count[mark.char] += 1
    return able


def _opener(closer: EmphasisMark, able: list[EmphasisMark]) -> int:
    """Return the nearest delimiter that the closer closes; -1 if there is none."""
    for index in range(len(able) - 1, -1, -1):
        opener = able[index]
        if closer.at - opener.at > MAX_SPAN:
            break
        # CommonMark's rule of three: `*a**b*` is not two emphases.
        is_apart = not (opener.closes or closer.opens) or (opener.size + closer.size) % 3
        if opener.char == closer.char and (is_apart or opener.size % 3 == closer.size % 3 == 0):
            return index
    return -1


def _is_flanking(outside: str, inside: str) -> bool:
    """Return whether a delimiter touches the text inside. There are no spaces around ideographs."""
    if inside.isspace():
        return False
    return (
        not _is_punctuation(inside)
        or outside.isspace()
        or _is_punctuation(outside)
        or is_ideographic(outside)
    )


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


# Text with the roles it is painted in.

Roles = tuple[str, ...]
Run = tuple[str, Roles]  #: A piece of text and its roles, the outermost first.

STRIKE = "strike"


def plain_text(runs: Iterable[Run]) -> str:
    return "".join([text for text, _ in runs])


def append_run(runs: list[Run], text: str, roles: Roles) -> None:
    if not text:
        return
    if runs and runs[-1][1] == roles:
        runs[-1] = (runs[-1][0] + text, roles)
    else:
        runs.append((text, roles))


def paint_run(paint: Paint, text: str, roles: Roles) -> str:
    """Paint each line separately, so that no style reaches the next one."""
    if not text or paint.depth is Depth.NONE:
        return text
    for role in reversed(roles):
        text = f"\x1b[9m{text}\x1b[0m" if role == STRIKE else paint(role, text)
    return text


def paint_ranges(paint: Paint, runs: list[Run], ranges: list[Range]) -> list[str]:
    """Return the ranges of the text of `runs`, which follow each other, as painted lines."""
    lines = []
    index = at = 0  # the run in which the line begins, and where that run begins
    for start, end in ranges:
        line = []
        while at < end:
            text, roles = runs[index]
            line.append(paint_run(paint, text[max(0, start - at) : end - at], roles))
            if at + len(text) > end:
                break
            at += len(text)
            index += 1
        lines.append("".join(line))
    return lines


def drop_chars(runs: list[Run], count: int) -> list[Run]:
    for index, (text, roles) in enumerate(runs):
        if count < len(text):
            return [(text[count:], roles), *runs[index + 1 :]]
        count -= len(text)
    return []


_RUN = 64  #: Maximum length of a run of delimiters or backticks; a longer one is text.
_TOKEN = re.compile(
    rf"\\|`{{1,{_RUN}}}|\*{{1,{_RUN}}}|_{{1,{_RUN}}}|~{{1,{_RUN}}}|!?\[|<|https?://"
)
_ESCAPABLE = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_WORDS = r"!?\[(?P<text>(?:[^\[\]\\]|\\.|\[[^\[\]]*\])*)"
_LINK = re.compile(
    _WORDS + r"""\]\(\s*(?P<to>(?:<[^<>]*>|[^\s()<]*(?:\([^\s()]*\)[^\s()]*)*)"""
    r"""(?:\s+(?:"[^"]*"|'[^']*'))?)\s*\)"""
)
_UNFINISHED_LINK = re.compile(_WORDS + r"(?P<open>\\?|\[[^\[\]]*|\]|\]\((?P<rest>.*))$")
_BETWEEN_ANGLES = re.compile(r"<(?P<to>[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*|[\w.+-]+@[\w.-]+)>")
_UNFINISHED_ANGLES = re.compile(r"<[^\s<>]*$")
_URL = re.compile(r"https?://[^\s<>\"'`*|\\\x7f-\U0010ffff]*")


class ParsedInline(NamedTuple):
    runs: list[Run]
    taken: int  #: Characters of the source that the runs cover; the others are not decided yet.


class _Piece(NamedTuple):
    at: int
    runs: list[Run]
    divisible: bool = False  #: Plain source text, which may be split anywhere.


def parse_inline(
    raw: str, before: str = " ", *, bare: bool = False, whole: bool = True
) -> ParsedInline:
    """Return the painted text of a line. `before` is the character before it.

    Plain text is for a terminal without colours: code keeps its backticks. If the text is not
    complete, only the part that cannot change any more is returned.
    """
    if whole and not _TOKEN.search(raw):
        return ParsedInline([(raw, ())] if raw else [], len(raw))
    scan = _InlineScanner(raw, before, bare=bare, whole=whole, guess=False)
    limit = scan.limit
    open_marks = pair_marks(piece for piece in scan.pieces if isinstance(piece, EmphasisMark))
    if not whole:
        undecided = [mark.at for mark in open_marks if limit - mark.at <= MAX_SPAN]
        # The last 8 characters may be the beginning of a token.
        limit = min([limit, len(raw) - 8, *undecided])
    return _to_runs(scan, limit)


def guess_inline(raw: str, before: str = " ", *, bare: bool = False) -> list[Run]:
    """Return the probable look of unfinished text: open markup will be closed."""
    scan = _InlineScanner(raw, before, bare=bare, whole=False, guess=True)
    for mark in pair_marks(piece for piece in scan.pieces if isinstance(piece, EmphasisMark)):
        if len(raw) - mark.at <= MAX_SPAN and mark.left <= STRONG + EMPHASIS:
            mark.opened += [STRONG, EMPHASIS] if mark.left > STRONG else [mark.left]
            mark.left = 0
    return _to_runs(scan, len(raw)).runs


class _InlineScanner:
    def __init__(self, raw: str, before: str, *, bare: bool, whole: bool, guess: bool) -> None:
        self.raw, self.before = raw, before
        self.bare, self.whole, self.guess = bare, whole, guess
        self.pieces: list[_Piece | EmphasisMark] = []
        self.limit = len(raw)  #: The position of the first undecided piece.
        at = 0
        while (token := _TOKEN.search(raw, at)) is not None:
            self._text(at, token.start())
            end = _READERS[token[0][0]](self, token)
            if end is None:
                self.limit = token.start()
                return
            at = end
        self._text(at, len(raw))

    def _text(self, start: int, end: int) -> None:
        if start < end:
            self.pieces.append(_Piece(start, [(self.raw[start:end], ())], divisible=True))

    def _put(self, at: int, text: str, *roles: str) -> None:
        self.pieces.append(_Piece(at, [(text, roles)]))

    def _undecided(self, at: int) -> bool:
        """Return whether later text may decide the token at `at`."""
        return not self.whole and not self.guess and len(self.raw) - at <= MAX_SPAN

    def escape(self, token: re.Match[str]) -> int | None:
        at = token.start()
        following = self.raw[at + 1 : at + 2]
        if not following:
            # A line break is shown anyway.
            return at + 1 if self.whole or self.guess else None
        if following in _ESCAPABLE:
            self._put(at, following)
            return at + 2
        self._put(at, "\\")
        return at + 1

    def code(self, token: re.Match[str]) -> int | None:
        at, start, fence = token.start(), token.end(), token[0]
        if len(fence) == _RUN:
            self._put(at, fence)
            return start
        end = self._closing(fence, start, at + MAX_SPAN)
        if end < 0 and self._undecided(at):
            return None
        if end < 0 and not self.guess:
            self._put(at, fence)
            return start
        if end < 0:
            end = len(self.raw)
            code, stop = self.raw[start:].rstrip("`"), end
        else:
            code, stop = self.raw[start:end], end + len(fence)
        if self.bare:
            self._put(at, f"{fence}{code}{fence}" if code else "")
        else:
            if code[:1] == code[-1:] == " " and code.strip():
                code = code[1:-1]
            self._put(at, code, "code")
        return stop

    def _closing(self, fence: str, start: int, limit: int) -> int:
        """Return the position of an equal run of backticks; -1 if there is none or it is not
        certain."""
        raw, size = self.raw, len(fence)
        at = raw.find(fence, start, limit)
        while at >= 0:
            end = at + size
            while end < limit and raw[end : end + 1] == "`":
                end += 1
            if end - at == size and end < limit:
                return -1 if end == len(raw) and not self.whole and not self.guess else at
            at = raw.find(fence, end, limit)
        return -1

    def mark(self, token: re.Match[str]) -> int | None:
        at, end = token.span()
        if end - at == _RUN:
            self._put(at, token[0])
            return end
        if end == len(self.raw) and not self.whole:
            return end if self.guess else None
        before = self.raw[at - 1] if at else self.before
        after = self.raw[end] if end < len(self.raw) else " "
        self.pieces.append(EmphasisMark(at, token[0], before, after))
        return end

    def link(self, token: re.Match[str]) -> int | None:
        at = token.start()
        link = _LINK.match(self.raw, at, at + MAX_SPAN)
        if link is None:
            return self._no_link(token)
        to = link["to"]
        to = to[1:-1] if to.startswith("<") and to.endswith(">") else to
        self.pieces.append(_Piece(at, _link_runs(link["text"], to, bare=self.bare)))
        return link.end()

    def _no_link(self, token: re.Match[str]) -> int | None:
        at = token.start()
        unfinished = _UNFINISHED_LINK.match(self.raw, at, at + MAX_SPAN)
        if unfinished and self._undecided(at):
            return None
        if self.guess and unfinished and unfinished["rest"] is not None:
            self.pieces.append(_Piece(at, _link_runs(unfinished["text"], "", bare=self.bare)))
            return len(self.raw)
        self._put(at, token[0])
        return token.end()

    def angles(self, token: re.Match[str]) -> int | None:
        at = token.start()
        if (link := _BETWEEN_ANGLES.match(self.raw, at, at + MAX_SPAN)) is not None:
            self._put(at, link["to"], "link")
            return link.end()
        if self._undecided(at) and _UNFINISHED_ANGLES.match(self.raw, at):
            return None
        self._put(at, "<")
        return at + 1

    def url(self, token: re.Match[str]) -> int | None:
        at = token.start()
        found = _URL.match(self.raw, at, at + MAX_SPAN)
        assert found is not None
        if found.end() == len(self.raw) and self._undecided(at):
            return None
        url = found[0].rstrip(".,;:!?)]_~")
        self._put(at, url, "link")
        return at + len(url)


_READERS = {
    "\\": _InlineScanner.escape,
    "`": _InlineScanner.code,
    **dict.fromkeys("*_~", _InlineScanner.mark),
    **dict.fromkeys("![", _InlineScanner.link),
    "<": _InlineScanner.angles,
    "h": _InlineScanner.url,
}
"""Parsers by the first character of a token."""


def _link_runs(text: str, to: str, *, bare: bool) -> list[Run]:
    """Return the text of a link, followed by its target unless both are the same."""
    runs = [(text, ("link", *roles)) for text, roles in parse_inline(text, bare=bare).runs]
    shown = plain_text(runs)
    if not shown:
        return [(to, ("link",))]
    if to and to not in (shown, f"mailto:{shown}"):
        runs.append((f" ({to})", ("dim",)))
    return runs


def _to_runs(scan: _InlineScanner, limit: int) -> ParsedInline:
    """Return the pieces up to `limit` as runs. Unfinished text is never cut inside emphasis."""
    runs: list[Run] = []
    sizes = {"strong": 0, "emphasis": 0, STRIKE: 0}
    roles: Roles = ()
    outside = (0, 0)  # the number of runs and the position where nothing was open last
    for piece in scan.pieces:
        if not roles:
            outside = (len(runs), piece.at)
        if piece.at >= limit:
            break
        if isinstance(piece, EmphasisMark):
            roles = _apply_mark(piece, sizes, runs, bare=scan.bare)
        elif not piece.divisible:
            runs += [(text, roles + inner) for text, inner in piece.runs]
        else:
            text = piece.runs[0][0]
            runs.append((text[: limit - piece.at], roles))
            if piece.at + len(text) > limit:
                if not roles:
                    outside = (len(runs), limit)
                break
    else:
        outside = (len(runs), scan.limit)
    joined: list[Run] = []
    for run in runs[: outside[0]]:
        append_run(joined, *run)
    return ParsedInline(joined, outside[1])


def _apply_mark(mark: EmphasisMark, sizes: dict[str, int], runs: list[Run], *, bare: bool) -> Roles:
    """Close and open emphasis at a delimiter; the rest is text. Returns the open emphases."""

    def change(matches: list[int], by: int) -> Roles:
        for size in matches:
            if mark.char == "~" and bare:
                runs.append(("~~", ()))
            role = STRIKE if mark.char == "~" else "strong" if size == STRONG else "emphasis"
            sizes[role] += by
        return tuple([role for role, count in sizes.items() if count])

    roles = change(mark.closed, -1)
    if mark.left:
        runs.append((mark.char * mark.left, roles))
    return change(mark.opened, 1) if mark.opened else roles


# The beginning of a line: quotes, list items and the kind of block.

Kind = Literal["blank", "text", "heading", "rule", "fence", "code", "row"]

MAX_HEAD = 240
"""Characters that are enough to classify a line. Rules, fences and table rows that do not begin
with a bar are no longer than this."""
TAB = 4
_CODE_INDENT = 4  #: Columns of indent that begin a code block.
_QUOTES = re.compile(r"(?: *> ?)*")
_ITEM = re.compile(r"([-*+]|\d{1,9}[.)])( +|$)")
_TASK = re.compile(r"\[[ xX]\] +(?=\S)")
_RULE = re.compile(r"([-*_])(?: *\1){2,} *$")
_HEADING = re.compile(r"(#{1,6})(?: +|$)")
_CLOSING_HASHES = re.compile(r"(?:^| +)#+ *$")
_FENCE = re.compile(r"(?P<fence>`{3,}(?=[^`]*$)|~{3,}) *(?P<info>.*)$")
_ONLY_MARKUP = re.compile(
    r"[ >]*(?:#{1,6}|[-+=]+|\*{1,3}|_{1,3}|`+|~+|\||\d{1,9}[.)]"
    r"|(?:[-*+]|\d{1,9}[.)]) +\[[ xX]?\]?)? *$"
)


class LinePrefix(NamedTuple):
    """The prefix of a line: indent, quote bars, list marker."""

    first: tuple[Run, ...] = ()
    rest: tuple[Run, ...] = ()  #: The prefix of continuation rows, equally wide.
    quotes: int = 0

    def fitted(self, width: int) -> tuple["LinePrefix", str]:
        """Limit the prefix to half of the width: indent is dropped first, then it becomes text."""
        excess = len(plain_text(self.first)) - width // 2
        if excess <= 0:
            return self, ""
        if self.first == self.rest and not self.quotes:
            room = (" " * (width // 2), ())
            return LinePrefix((room,), (room,)), ""
        indent, *others = self.first
        if not indent[0].strip() and len(indent[0]) >= excess:
            kept = (indent[0][excess:], ())
            return LinePrefix((kept, *others), (kept, *self.rest[1:]), self.quotes), ""
        return LinePrefix(quotes=self.quotes), plain_text(self.first).lstrip()


class LineContext(NamedTuple):
    items: tuple[int, ...] = ()  #: Columns where the text of the open list items begins.
    quotes: int = 0
    in_text: bool = False  #: The previous line was text, which this one may continue.


class MarkdownLine(NamedTuple):
    kind: Kind
    lead: LinePrefix
    text: str = ""
    items: tuple[int, ...] = ()
    level: int = 0  #: The level of a heading.
    fence: str = ""  #: The characters that begin a fenced block; `text` is its info string.


def is_only_markup(head: str) -> bool:
    """Return whether an incomplete line consists only of characters that may become a marker."""
    return _ONLY_MARKUP.match(head) is not None


def parse_line(head: str, around: LineContext, *, long: bool = False) -> MarkdownLine:
    """Classify a line. `head` is the line or, if it is long, its first `MAX_HEAD` characters."""
    return _LineParser(head, around, long).read()


def strip_quotes(line: str, quotes: int) -> str | None:
    """Return the line after `quotes` quote markers; None if it has fewer."""
    for _ in range(quotes):
        inner = line.lstrip(" ")
        if not inner.startswith(">"):
            return None
        line = inner[1:].removeprefix(" ")
    return line


class _LineParser:
    def __init__(self, head: str, around: LineContext, long: bool) -> None:
        self.head, self.around, self.long = head, around, long
        self.at = self.quotes = 0
        self.marked = False
        quotes = _QUOTES.match(head)
        same = quotes is not None and quotes[0].count(">") == around.quotes
        self.items = list(around.items) if same else []
        self.first: list[Run] = []
        self.rest: list[Run] = []

    def read(self) -> MarkdownLine:
        while True:
            here = len(self.head) - len(self.head[self.at :].lstrip(" "))
            marker = self._marker(here)
            if not marker and self._is_code(here):
                self._leave_items(here)
                floor = max(self.at, self.items[-1] if self.items else 0)
                self._indent(floor)
                return self._line("code", self.head[floor + _CODE_INDENT :])
            if self.head.startswith(">", here) and (
                self.quotes < 1 or here - self.at < _CODE_INDENT
            ):
                self._indent(here)
                self._put("│ ", "│ ", "quote")
                self.quotes += 1
                self.at = here + (2 if self.head.startswith(" ", here + 1) else 1)
            elif marker:
                self._item(here, marker)
            else:
                return self._leaf(here)

    def _is_code(self, here: int) -> bool:
        if self.marked or self.around.in_text or here >= len(self.head):
            return False
        open_items = [at for at in self.items if at <= here]
        return here - max(self.at, *open_items, 0) >= _CODE_INDENT

    def _marker(self, here: int) -> re.Match[str] | None:
        """Read a list marker. Inside a list it may be at any column."""
        marker = _ITEM.match(self.head, here)
        if marker is None or (not self.long and _RULE.match(self.head, here)):
            return None
        inside = self.marked or self.around.in_text or self.items
        return marker if inside or here - self.at < _CODE_INDENT else None

    def _leave_items(self, here: int) -> None:
        while self.items and self.items[-1] > here:
            self.items.pop()

    def _indent(self, to: int) -> None:
        if to > self.at:
            self._put(" " * (to - self.at), " " * (to - self.at))
            self.at = to

    def _put(self, first: str, rest: str, *roles: str) -> None:
        self.first.append((first, roles))
        self.rest.append((rest, roles if rest.strip() else ()))

    def _item(self, here: int, marker: re.Match[str]) -> None:
        if not self.marked:
            self._leave_items(here)
        self._indent(here)
        mark, space = marker.groups()
        space = space if 1 <= len(space) <= _CODE_INDENT else " "
        bullet = mark in "-*+"
        self.at = min(here + len(mark) + len(space), len(self.head))
        self.items.append(here + len(mark) + len(space))
        if task := _TASK.match(self.head, self.at):
            self.at = task.end()
            shown = ("[x] " if task[0][1] in "xX" else "[ ] ") if bullet else f"{mark} {task[0]}"
        else:
            shown = ("•" if bullet else mark) + space
        self._put(shown, " " * len(shown), "accent")
        self.marked = True

    def _leaf(self, here: int) -> MarkdownLine:
        text = self.head[here:]
        if not text and not self.marked:
            return self._line("blank", "")
        if not self.marked and not self.around.in_text:
            self._leave_items(here)
        self._indent(here)
        if heading := _HEADING.match(text):
            words = text[heading.end() :]
            words = words if self.long else _CLOSING_HASHES.sub("", words)
            return self._line("heading", words)._replace(level=len(heading[1]))
        if not self.long:
            if _RULE.match(text):
                return self._line("rule", "")
            if fence := _FENCE.match(text):
                return self._line("fence", fence["info"])._replace(fence=fence["fence"])
        if not self.marked and (text.startswith("|") or (not self.long and "|" in text)):
            return self._line("row", text)
        return self._line("text", text)

    def _line(self, kind: Kind, text: str) -> MarkdownLine:
        lead = LinePrefix(tuple(self.first), tuple(self.rest), self.quotes)
        return MarkdownLine(kind, lead, text, tuple(self.items))


# Streamed text of a model, made safe for the terminal.

LONGEST_ESCAPE = 4096  #: Characters after which an unterminated escape sequence counts as ended.
_KEPT = re.compile(r"([\n\t])")
_ESCAPE_START = re.compile("[\x1b\x90\x98\x9b\x9d-\x9f]")
"""The characters that begin an escape sequence."""


class TextCleaner:
    """`safe` for a stream: the output does not depend on how the text was split.

    Line ends become `\\n`. Tabs are kept, because their width depends on the whole line.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        if not self._held and text.isprintable():
            return text
        return self._steered(self._held + text, ended=False)

    def finish(self) -> str:
        return self._steered(self._held, ended=True)

    def _steered(self, text: str, *, ended: bool) -> str:
        """An escape sequence may be incomplete: the rest of the line then waits for its end."""
        self._held = "\r" if text.endswith("\r") and not ended else ""
        text = text.removesuffix(self._held).replace("\r\n", "\n").replace("\r", "\n")
        clean = []
        while (found := _ESCAPE_START.search(text)) is not None:
            escape = found.start()
            clean.append(_clean(text[:escape]))
            end = text.find("\n", escape, escape + LONGEST_ESCAPE)
            if end < 0:
                if len(text) - escape < LONGEST_ESCAPE and not ended:
                    self._held = text[escape:] + self._held
                    return "".join(clean)
                end = min(len(text), escape + LONGEST_ESCAPE)
            clean.append(safe(text[escape:end]))
            text = text[end:]
        return "".join([*clean, _clean(text)])


def _clean(text: str) -> str:
    if text.isprintable():
        return text
    return "".join([each if each in "\n\t" else safe(each) for each in _KEPT.split(text)])
