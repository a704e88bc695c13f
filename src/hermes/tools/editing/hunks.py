"""Finding the places of a patch's hunks in a file."""

from collections.abc import Sequence

from hermes.core.errors import ToolError
from hermes.tools.editing import similarity
from hermes.tools.editing.document import Edit, TextLines
from hermes.tools.editing.line_keys import LADDER, Look, bare
from hermes.tools.editing.matching import numbered
from hermes.tools.editing.merging import Alignment, merged
from hermes.tools.editing.patch_format import Hunk

LOOKS = (Look("", lambda line: line), *LADDER)
SHOWN = 20


def locate_hunks(text: str, hunks: Sequence[Hunk]) -> tuple[list[Edit], list[str]]:
    """The edits of all hunks, and what was looked past to find them.

    Raises `ToolError` for the first hunk whose place is missing or not certain.
    """
    target = TextLines(text)
    search = _Search(target)
    edits = [search.hunk(number, hunk) for number, hunk in enumerate(hunks, 1)]
    return edits, sorted(search.past)


class _Search:
    """Goes through the file from hunk to hunk; a hunk is looked for below the one before."""

    def __init__(self, target: TextLines) -> None:
        self._target = target
        self._taken: list[range] = []
        self._below = 0
        self._drift = 0
        self.past: set[str] = set()

    def hunk(self, number: int, hunk: Hunk) -> Edit:
        if hunk.old == hunk.new:
            raise ToolError(f"hunk {number} changes nothing")
        start = self._after_headers(number, hunk.headers)
        hunk = _without_blank_ends(hunk)
        if not hunk.old:
            return self._insert(hunk, start)
        first = self._place(number, hunk, start)
        found = self._target.lines[first : first + len(hunk.old)]
        lines = merged(Alignment.one_to_one(hunk.old, found), hunk.new)
        if lines is None:  # every line is aligned, so every change has its place
            raise ToolError(f"hunk {number} cannot be carried over")
        self._taken.append(range(first, first + len(hunk.old)))
        self._below = first + len(hunk.old)
        return self._target.replaced(first, self._below, lines, ended=hunk.ended)

    def _after_headers(self, number: int, headers: Sequence[str]) -> int:
        """The line below the last of the headers, each looked for below the one before."""
        start = self._below
        for header in headers:
            keys = [bare(line) for line in self._target.lines]
            wanted = bare(header)
            below = [n for n in range(start, len(keys)) if keys[n] == wanted] or [
                n for n in range(start, len(keys)) if wanted in keys[n]
            ]
            if not below and not self._taken:
                raise ToolError(
                    f"hunk {number}: there is no line {header!r}",
                    hint="write a line of the file behind @@, or leave it out",
                )
            if not below:
                return self._above(number, headers)
            start = below[0] + 1
        return start

    def _above(self, number: int, headers: Sequence[str]) -> int:
        """A hunk that stands above the one before: looked for from the top."""
        search = _Search(self._target)
        return search._after_headers(number, headers)

    def _insert(self, hunk: Hunk, start: int) -> Edit:
        """Lines without any old ones: where the diff says, below the header, or at the end."""
        place = len(self._target.lines)
        if hunk.line and not hunk.at_end:
            place = min(hunk.line - 1, place)
        elif hunk.headers:
            place = start
        self._below = place
        return self._target.replaced(place, place, hunk.new, ended=hunk.ended)

    def _place(self, number: int, hunk: Hunk, start: int) -> int:
        lines = self._target.lines
        for look in LOOKS:
            found = [place for place in look.windows(lines, hunk.old) if self._free(place, hunk)]
            if hunk.at_end:
                found = [place for place in found if place + len(hunk.old) == len(lines)] or found
            if not found:
                continue
            place = self._choose(number, hunk, found, start)
            if look.name:
                self.past.add(look.name)
            if hunk.line:
                self._drift = place + 1 - hunk.line
            return place
        raise self._missing(number, hunk)

    def _free(self, place: int, hunk: Hunk) -> bool:
        end = place + len(hunk.old)
        return not any(place < taken.stop and taken.start < end for taken in self._taken)

    def _choose(self, number: int, hunk: Hunk, found: list[int], start: int) -> int:
        if len(found) == 1:
            return found[0]
        if hunk.line:
            nearest = sorted(found, key=lambda place: abs(place + 1 - hunk.line - self._drift))
            gaps = [abs(place + 1 - hunk.line - self._drift) for place in nearest[:2]]
            if gaps[0] < gaps[1]:
                return nearest[0]
        below = [place for place in found if place >= start]
        if len(below) == 1 or (below and hunk.headers):
            return below[0]
        numbers = ", ".join(str(place + 1) for place in found[:SHOWN])
        raise ToolError(
            f"hunk {number} fits {len(found)} places: lines {numbers}",
            hint="add lines of context, or `@@ line` with a line above the right place",
        )

    def _missing(self, number: int, hunk: Hunk) -> ToolError:
        lines = self._target.lines
        span = similarity.closest(lines, hunk.old)
        closest = f"; the closest is\n{numbered(lines, *span)}" if span else ""
        return ToolError(
            f"the lines of hunk {number} are not in the file{closest}",
            hint="copy context and removed lines from the file as they are",
        )


def _without_blank_ends(hunk: Hunk) -> Hunk:
    """Blank context around a hunk is often invented; it finds no place that the rest does not."""
    old, new = list(hunk.old), list(hunk.new)
    while len(old) > 1 and new and not old[0].strip() and not new[0].strip():
        old, new = old[1:], new[1:]
    while len(old) > 1 and new and not old[-1].strip() and not new[-1].strip():
        old, new = old[:-1], new[:-1]
    return Hunk(old, new, hunk.headers, hunk.line, hunk.at_end, hunk.ended)
