"""Emphasis, code, links: what is inside a line of Markdown. Takes time in proportion to the text,
however it is malformed."""

import re
import string
from bisect import bisect_right

from hermes.gateway.platforms.kit.markdown.nodes import Code, Inline, Link, Style, Styled, Text, Url

MAX_DEPTH = 24
"""Emphasis in emphasis beyond this is text."""
MAX_LABEL = 2000
"""Characters between the brackets of a link."""
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
_ONCE = rf"{_BARE}(?:\({_BARE}\){_BARE})*"
_NESTED = rf"{_BARE}(?:\({_ONCE}\){_BARE})*"
"""An address with parentheses in parentheses."""
_DESTINATION = re.compile(
    r"\(\s*(?:<([^<>\n]*)>|(" + _NESTED + r"))"
    r"(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?\s*\)"
)
_IN_SUM = re.compile(r"[0-9][0-9A-Za-z]|[A-Za-z][0-9]")
_AFTER_URL = ".,;:!?'*_~"
_BRACKET = re.compile(r"\\.|\[|\]", re.DOTALL)
_STYLES: dict[tuple[str, int], Style] = {
    ("*", 1): "italic",
    ("*", 2): "bold",
    ("_", 1): "italic",
    ("_", 2): "bold",
    ("~", 2): "strike",
}


def parse(text: str) -> tuple[Inline, ...]:
    return tuple(_Parser(text).run())


class _Frame:
    """Emphasis that was opened and may be closed."""

    def __init__(self, mark: str = "", count: int = 0, *, both: bool = False) -> None:
        self.mark, self.count = mark, count
        self.length, self.both = count, both
        """Marks there were at first, and whether they could have closed something too."""
        self.children: list[Inline] = []

    def fits(self, mark: str, length: int, *, both: bool) -> bool:
        """Whether marks may close this, as CommonMark says: in `**a*b*c**` the single ones belong
        together."""
        if self.mark != mark:
            return False
        odd = (self.length + length) % 3 == 0 and (self.length % 3 or length % 3)
        return not ((both or self.both) and odd)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.frames = [_Frame()]
        self.ticks = _runs(text)
        self.brackets = _matches(text)

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
        """Take one token; where to go on."""
        kind, value = match.lastgroup, match.group()
        if kind == "ticks":
            return self.code(match)
        if kind == "open":
            return self.link(match)
        if kind == "escape":
            # At the end of a line it only says that the line ends.
            self.add_text(value[1:] if value[1] in _ESCAPABLE or value[1] == "\n" else value)
        elif kind == "auto":
            self.add(Url(value[1:-1].removeprefix("mailto:")))
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
        self.add(Code(inner))
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
        # Links in links are none: their brackets are text.
        inner = parse(label.replace("[", "\\[")) if label.strip() else (Text(url),)
        self.add(Link(url, inner))
        return destination.end()

    def address(self, match: re.Match[str]) -> int:
        url = match.group().rstrip(_AFTER_URL)
        surplus = url.count(")") - url.count("(")
        while surplus > 0 and url.endswith(")"):
            url, surplus = url[:-1].rstrip(_AFTER_URL), surplus - 1
        self.add(Url(url))
        return match.start() + len(url)

    def delimiter(self, match: re.Match[str]) -> None:
        mark, count = match.group()[0], len(match.group())
        opens, closes = _flanks(self.text, match)
        both = opens and closes
        if closes:
            count = self.close(mark, count, both=both)
        if not count:
            return
        if opens and len(self.frames) < MAX_DEPTH and (mark != "~" or count >= 2):
            self.frames.append(_Frame(mark, count, both=both))
        else:
            self.add_text(mark * count)

    def close(self, mark: str, count: int, *, both: bool) -> int:
        """Close what is open with this mark; how many marks are left. `both`: they could open
        something too."""
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
            styled = _styled(_STYLES[mark, use], frame.children)
            frame.count -= use
            count -= use
            if frame.count:
                frame.children = [styled]
            else:
                self.frames.pop()
                self.add(styled)
        return 0

    def unfold(self) -> None:
        """The innermost emphasis was none: its mark is text."""
        frame = self.frames.pop()
        self.add_text(frame.mark * frame.count)
        for child in frame.children:
            self.add(child)

    def add(self, part: Inline) -> None:
        children = self.frames[-1].children
        if isinstance(part, Text) and children and isinstance(children[-1], Text):
            part = Text(children.pop().value + part.value)  # type: ignore[union-attr]  # `same` says which kind it is
        children.append(part)

    def add_text(self, text: str) -> None:
        if text:
            self.add(Text(text))


def _styled(style: Style, children: list[Inline]) -> Styled:
    """Italic in italic is italic; some dialects could not even write it."""
    flat: list[Inline] = []
    for child in children:
        same = isinstance(child, Styled) and child.style == style
        flat.extend(child.children if same else (child,))  # type: ignore[union-attr]  # `same` says which kind it is
    return Styled(style, tuple(flat))


def _runs(text: str) -> dict[int, list[int]]:
    """Where runs of backticks of each length begin."""
    runs: dict[int, list[int]] = {}
    for match in re.finditer("`+", text):
        runs.setdefault(match.end() - match.start(), []).append(match.start())
    return runs


def _matches(text: str) -> dict[int, int]:
    """For each opening bracket, where its closing one is."""
    matches, opened = {}, []
    for match in _BRACKET.finditer(text):
        if match.group() == "[":
            opened.append(match.start())
        elif match.group() == "]" and opened:
            matches[opened.pop()] = match.start()
    return matches


def _flanks(text: str, match: re.Match[str]) -> tuple[bool, bool]:
    """Whether a run of marks may open and may close emphasis, as CommonMark says; but `2*3*4` is a
    product."""
    before = text[match.start() - 1] if match.start() else " "
    after = text[match.end()] if match.end() < len(text) else " "
    if _IN_SUM.fullmatch(before + after):
        return False, False
    left = not after.isspace() and (after.isalnum() or before.isspace() or not before.isalnum())
    right = not before.isspace() and (before.isalnum() or after.isspace() or not after.isalnum())
    if match.group()[0] != "_":
        return left, right
    return left and (not right or not before.isalnum()), right and (not left or not after.isalnum())
