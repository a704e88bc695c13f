"""Classification of a Markdown line: its quotes, list items and kind of block."""

import re
from typing import Literal, NamedTuple

from hermes.tui.markdown.inline import Run, plain_text
from hermes.tui.text import safe

Kind = Literal["blank", "text", "heading", "rule", "fence", "code", "row"]

MAX_HEAD = 240
"""Characters that are enough to classify a line. Rules, fences and table rows that do not begin
with a bar are no longer than this."""
TAB = 4
_CODE = 4  #: Columns of indent that begin a code block.
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
    """The state of the preceding lines."""

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
    """Reads the markers at the beginning of a line."""

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
                return self._line("code", self.head[floor + _CODE :])
            if self.head.startswith(">", here) and (self.quotes < 1 or here - self.at < _CODE):
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
        return here - max(self.at, *open_items, 0) >= _CODE

    def _marker(self, here: int) -> re.Match[str] | None:
        """Read a list marker. Inside a list it may be at any column."""
        marker = _ITEM.match(self.head, here)
        if marker is None or (not self.long and _RULE.match(self.head, here)):
            return None
        inside = self.marked or self.around.in_text or self.items
        return marker if inside or here - self.at < _CODE else None

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
        space = space if 1 <= len(space) <= _CODE else " "
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
_ESCAPE = re.compile("[\x1b\x90\x98\x9b\x9d-\x9f]")
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
        while (found := _ESCAPE.search(text)) is not None:
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
