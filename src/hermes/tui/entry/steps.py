"""What counts as one when the cursor moves or something is deleted: the placeholder of a paste, or
all the characters that make one sign on the screen."""

from wcwidth import grapheme_boundary_before, iter_graphemes

from hermes.tui.entry.pastes import Pastes

REACH = 64
"""Characters in which a sign ends; longer ones are no text."""


class Steps:
    def __init__(self, pastes: Pastes) -> None:
        self._pastes = pastes

    def before(self, text: str, at: int) -> int:
        """Where the one before `at` begins."""
        if at <= 0:
            return 0
        for start, end in self._pastes.spans(text):
            if start < at <= end:
                return start
        start = max(0, at - REACH)
        return start + int(grapheme_boundary_before(text[start:at], at - start))

    def after(self, text: str, at: int) -> int:
        """Where the one that begins at `at` ends."""
        if at >= len(text):
            return len(text)
        for start, end in self._pastes.spans(text):
            if start <= at < end:
                return end
        return at + len(next(iter(iter_graphemes(text[at : at + REACH]))))

    def outside(self, text: str, at: int, came_from: int) -> int:
        """`at`, or where a cursor that would land inside of one goes on to."""
        back = came_from > at
        for start, end in self._pastes.spans(text):
            if start < at < end:
                return start if back else end
        if at <= 0 or at >= len(text) or text[at].isascii():
            return at
        line = text.rfind("\n", 0, at) + 1
        start = max(line, at - REACH)
        begun = start + int(grapheme_boundary_before(text[start : at + 1], at + 1 - start))
        if begun == at:
            return at
        return begun if back else self.after(text, begun)

    def covered(self, text: str, start: int, end: int) -> tuple[int, int]:
        """The range, widened to whole placeholders."""
        for first, last in self._pastes.spans(text):
            if first < end and start < last:
                start, end = min(start, first), max(end, last)
        return start, end
