"""Paragraphs, headings and list items: wrapped rows that come out as soon as they are certain."""

from hermes.tui.markdown.blocks import Lead
from hermes.tui.markdown.inline import guess, parse
from hermes.tui.markdown.styled import Roles, Run, add, dress, painted, plain, without
from hermes.tui.paint import Depth, Paint
from hermes.tui.wrapping import rows

_MAY_CHANGE = 2
"""Rows at the end of unfinished text that may still become others."""

_WIDEST = 1000
"""Spaces between two words that are kept; no row is wider."""


class Prose:
    """One line of the source, however long."""

    def __init__(self, paint: Paint, lead: Lead, roles: Roles) -> None:
        self._paint, self._lead, self._roles = paint, lead, roles
        self._bare = paint.depth is Depth.NONE
        self._raw, self._before = "", " "
        self._tried = 0
        self._runs: list[Run] = []
        """Read, but not out."""
        self._started = False

    def feed(self, raw: str, width: int) -> list[str]:
        """Rows that are certain. It is tried again only when there is enough for another row."""
        self._raw += raw
        if len(self._raw) - self._tried < width:
            return []
        parsed = parse(self._raw, self._before, bare=self._bare, whole=False)
        self._take(parsed.runs, parsed.taken)
        self._tried = len(self._raw)
        return self._rows(width, _MAY_CHANGE)

    def whole(self, raw: str, width: int) -> list[str]:
        """All rows of a line that is complete."""
        self._raw = raw
        return self.finish(width)

    def finish(self, width: int) -> list[str]:
        parsed = parse(self._raw, self._before, bare=self._bare)
        self._take(parsed.runs, parsed.taken)
        return self._rows(width, 0)

    def pending(self, width: int, more: str = "") -> list[str]:
        """What is not out, with `more` behind it that is not fed."""
        runs = [*self._runs, *guess(self._raw + more, self._before, bare=self._bare)]
        return self._laid_out(runs, width, 0)[0]

    def _take(self, runs: list[Run], taken: int) -> None:
        if taken:
            for run in runs:
                add(self._runs, *run)
            if self._runs:
                text, roles = self._runs[-1]
                spaces = len(text) - len(text.rstrip(" "))
                self._runs[-1] = (text[: len(text) - max(0, spaces - _WIDEST)], roles)
            self._before = self._raw[taken - 1]
            self._raw = self._raw[taken:]

    def _rows(self, width: int, kept: int) -> list[str]:
        lead, moved = self._lead.fitted(width)
        if moved and not self._started:
            self._lead = lead
            self._runs.insert(0, (moved, ("accent",)))
        lines, rest = self._laid_out(self._runs, width, kept)
        self._started = self._started or bool(lines)
        self._runs = rest
        return lines

    def _laid_out(self, runs: list[Run], width: int, kept: int) -> tuple[list[str], list[Run]]:
        """The lines but for the last `kept` ones, and the text that is in none."""
        lead, _ = self._lead.fitted(width)
        columns = width - len(plain(lead.rest))
        ranges = rows(plain(runs), columns)
        if len(ranges) <= kept:
            if kept or self._started:
                return [], runs if ranges else []
            return [dress(self._paint, plain(lead.first).rstrip(), ("accent",))], []
        out = ranges[: len(ranges) - kept]
        dressed = [(text, self._roles + roles) for text, roles in runs]
        lines = painted(self._paint, dressed, out)
        return self._led(lead, lines), without(runs, ranges[-kept][0]) if kept else []

    def _led(self, lead: Lead, lines: list[str]) -> list[str]:
        if not lead.first:
            return lines
        rest = "".join([dress(self._paint, *run) for run in lead.rest])
        first = "".join([dress(self._paint, *run) for run in lead.first])
        return [(rest if self._started or at else first) + line for at, line in enumerate(lines)]
