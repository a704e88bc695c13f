"""Blocks of code: their lines are kept as they are, and broken only where they must be."""

import re

from hermes.tui.markdown.blocks import TAB, Lead, unquoted
from hermes.tui.markdown.highlight import SYNTAX, Highlighter, highlighter
from hermes.tui.markdown.styled import Roles, Run, dress, painted, plain
from hermes.tui.paint import Depth, Paint
from hermes.tui.wrapping import broken

_LANGUAGE = re.compile(r"\{?\s*\.?([\w+#.-]*\w[+#]*)")
_DIFFS = frozenset({"diff", "patch", "udiff"})
_DIFF_ROLES = {
    "+++": "strong", "---": "strong", "diff ": "strong", "index ": "dim", "@@": "accent",
    "+": "added", "-": "removed", "\\": "dim",
}  # fmt: skip
_INDENT = {Depth.NONE: 4}
_INDENT_IN_COLOUR = 2
_CONTINUED = 2
_LEAST = 8
"""Columns below which code is not indented."""


class Code:
    """One block. Without a fence it is an indented one."""

    def __init__(self, paint: Paint, lead: Lead, *, fence: str = "", info: str = "") -> None:
        self._fence, self._lead = fence, lead
        self._column = len(plain(lead.rest)) - 2 * lead.quotes
        """The indent of the fence, which its lines have too."""
        self._indent = _INDENT.get(paint.depth, _INDENT_IN_COLOUR)
        language = found[1] if (found := _LANGUAGE.match(info)) else ""
        self._diff = language.lower() in _DIFFS
        self._highlighter: Highlighter | None = None
        if paint.depth is not Depth.NONE and not self._diff:
            self._highlighter = highlighter(language)
        self._paint = Paint({**SYNTAX, **paint.colours}, paint.depth)

    def inside(self, line: str) -> str | None:
        """The code of a line of a fenced block; None if the line is not inside its quote."""
        text = unquoted(line.expandtabs(TAB), self._lead.quotes)
        if text is None:
            return None
        indent = len(text) - len(text.lstrip(" "))
        return text[min(indent, self._column) :].rstrip(" ")

    def closes(self, text: str) -> bool:
        """Whether the line ends a fenced block."""
        mark = text.strip(" ")
        return (
            mark.startswith(self._fence) and not mark.strip(self._fence[0]) and text[:4] != "    "
        )

    def may_close(self, text: str) -> bool:
        """Whether the beginning of a line does."""
        return text.strip() == self._fence[: len(text.strip())]

    def line(self, text: str, width: int) -> list[str]:
        """The next line of the block."""
        highlighted = self._highlighter.line(text) if self._highlighter else self._plain(text)
        return self._rows(highlighted, width)

    def peek(self, text: str, width: int) -> list[str]:
        """What the next line looks like as far as it is there."""
        highlighted = self._highlighter.peek(text) if self._highlighter else self._plain(text)
        return self._rows(highlighted, width)

    def _plain(self, text: str) -> list[Run]:
        roles: Roles = ()
        if self._diff:
            roles = next(
                ((role,) for start, role in _DIFF_ROLES.items() if text.startswith(start)), ()
            )
        return [(text, roles)]

    def _rows(self, runs: list[Run], width: int) -> list[str]:
        lead = self._lead.fitted(width)[0].rest
        columns = width - len(plain(lead))
        indent = self._indent if columns - self._indent >= _LEAST else 0
        more = _CONTINUED if columns - indent >= _LEAST else 0
        ranges = broken(plain(runs), columns - indent, columns - indent - more)
        lines = painted(self._paint, runs, ranges)
        before = "".join([dress(self._paint, *run) for run in lead])
        if lines == [""]:
            return [dress(self._paint, plain(lead).rstrip(), ("quote",))]
        return [
            f"{before}{' ' * (indent + (more if at else 0))}{line}" for at, line in enumerate(lines)
        ]
