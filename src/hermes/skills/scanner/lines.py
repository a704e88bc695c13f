"""The line of a place in a text, without counting from the beginning every time."""

import re
from bisect import bisect_right


class Lines:
    def __init__(self, text: str) -> None:
        self._starts = [match.end() for match in re.finditer("\n", text)]

    def at(self, place: int) -> int:
        """From 0."""
        return bisect_right(self._starts, place)
