"""The markup inside a line: emphasis, code, links."""

import re
from typing import NamedTuple

from hermes.tui.markdown.emphasis import EMPHASIS, REACH, STRONG, Mark, pair
from hermes.tui.markdown.styled import STRIKE, Roles, Run, add, plain

_RUN = 64
"""Characters of a run of marks or backticks. A longer one is text."""
_TOKEN = re.compile(
    rf"\\|`{{1,{_RUN}}}|\*{{1,{_RUN}}}|_{{1,{_RUN}}}|~{{1,{_RUN}}}|!?\[|<|https?://"
)
_LONGEST_START = 8
"""Characters at the end of unfinished text that may be the beginning of a token."""
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
_NOT_OF_URL = ".,;:!?)]_~"


class Parsed(NamedTuple):
    runs: list[Run]
    taken: int
    """Characters of the source that the runs stand for; the others are not decided yet."""


class _Piece(NamedTuple):
    at: int
    runs: list[Run]
    divisible: bool = False
    """It shows its source as it is and may be cut anywhere."""


def parse(raw: str, before: str = " ", *, bare: bool = False, whole: bool = True) -> Parsed:
    """The dressed text of a line. `before` is the character before it.

    Bare text is for a terminal without colours: code keeps its backticks. Text that is not whole
    may go on: then only what cannot change any more is taken.
    """
    if whole and not _TOKEN.search(raw):
        return Parsed([(raw, ())] if raw else [], len(raw))
    scan = _Scan(raw, before, bare=bare, whole=whole, guess=False)
    limit = scan.limit
    open_marks = pair(piece for piece in scan.pieces if isinstance(piece, Mark))
    if not whole:
        undecided = [mark.at for mark in open_marks if limit - mark.at <= REACH]
        limit = min([limit, len(raw) - _LONGEST_START, *undecided])
    return _shown(scan, limit)


def guess(raw: str, before: str = " ", *, bare: bool = False) -> list[Run]:
    """What unfinished text will probably look like: what is open will be closed."""
    scan = _Scan(raw, before, bare=bare, whole=False, guess=True)
    for mark in pair(piece for piece in scan.pieces if isinstance(piece, Mark)):
        if len(raw) - mark.at <= REACH and mark.left <= STRONG + EMPHASIS:
            mark.opened += [STRONG, EMPHASIS] if mark.left > STRONG else [mark.left]
            mark.left = 0
    return _shown(scan, len(raw)).runs


class _Scan:
    """A line taken apart, from left to right."""

    def __init__(self, raw: str, before: str, *, bare: bool, whole: bool, guess: bool) -> None:
        self.raw, self.before = raw, before
        self.bare, self.whole, self.guess = bare, whole, guess
        self.pieces: list[_Piece | Mark] = []
        self.limit = len(raw)
        """Where the first piece begins that is not decided."""
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
        """Whether text that is still to come may decide what stands at `at`."""
        return not self.whole and not self.guess and len(self.raw) - at <= REACH

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
        end = self._closing(fence, start, at + REACH)
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
        """Where the same number of backticks stands again; -1 if nowhere, or not surely."""
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
        self.pieces.append(Mark(at, token[0], before, after))
        return end

    def link(self, token: re.Match[str]) -> int | None:
        at = token.start()
        link = _LINK.match(self.raw, at, at + REACH)
        if link is None:
            return self._no_link(token)
        to = link["to"]
        to = to[1:-1] if to.startswith("<") and to.endswith(">") else to
        self.pieces.append(_Piece(at, _linked(link["text"], to, bare=self.bare)))
        return link.end()

    def _no_link(self, token: re.Match[str]) -> int | None:
        at = token.start()
        unfinished = _UNFINISHED_LINK.match(self.raw, at, at + REACH)
        if unfinished and self._undecided(at):
            return None
        if self.guess and unfinished and unfinished["rest"] is not None:
            self.pieces.append(_Piece(at, _linked(unfinished["text"], "", bare=self.bare)))
            return len(self.raw)
        self._put(at, token[0])
        return token.end()

    def angles(self, token: re.Match[str]) -> int | None:
        at = token.start()
        if (link := _BETWEEN_ANGLES.match(self.raw, at, at + REACH)) is not None:
            self._put(at, link["to"], "link")
            return link.end()
        if self._undecided(at) and _UNFINISHED_ANGLES.match(self.raw, at):
            return None
        self._put(at, "<")
        return at + 1

    def url(self, token: re.Match[str]) -> int | None:
        at = token.start()
        found = _URL.match(self.raw, at, at + REACH)
        assert found is not None
        if found.end() == len(self.raw) and self._undecided(at):
            return None
        url = found[0].rstrip(_NOT_OF_URL)
        self._put(at, url, "link")
        return at + len(url)


_READERS = {
    "\\": _Scan.escape, "`": _Scan.code, "*": _Scan.mark, "_": _Scan.mark, "~": _Scan.mark,
    "!": _Scan.link, "[": _Scan.link, "<": _Scan.angles, "h": _Scan.url,
}  # fmt: skip


def _linked(text: str, to: str, *, bare: bool) -> list[Run]:
    """The text of a link, and behind it where it leads unless that says the same."""
    inner = parse(text, bare=bare).runs
    runs = [(text, ("link", *roles)) for text, roles in inner]
    shown = plain(runs)
    if not shown:
        return [(to, ("link",))]
    if to and to not in (shown, f"mailto:{shown}"):
        runs.append((f" ({to})", ("dim",)))
    return runs


def _shown(scan: _Scan, limit: int) -> Parsed:
    """The pieces up to `limit` as runs. Unfinished text is never cut inside an emphasis."""
    runs: list[Run] = []
    sizes = {"strong": 0, "emphasis": 0, STRIKE: 0}
    roles: Roles = ()
    outside = (0, 0)  # how many runs there were, and where, when last nothing was open
    for piece in scan.pieces:
        if not roles:
            outside = (len(runs), piece.at)
        if piece.at >= limit:
            break
        if isinstance(piece, Mark):
            roles = _turn(piece, sizes, runs, bare=scan.bare)
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
    return Parsed(_joined(runs[: outside[0]]), outside[1])


def _turn(mark: Mark, sizes: dict[str, int], runs: list[Run], *, bare: bool) -> Roles:
    """Close and open what a mark does; what is left of it is text. Returns what is open then."""

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


def _joined(runs: list[Run]) -> list[Run]:
    joined: list[Run] = []
    for text, roles in runs:
        add(joined, text, roles)
    return joined
