"""Comparing and merging lines, ignoring what models get wrong: spaces, quotes, indentation."""

import difflib
import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence

import msgspec

# The model sends old and new lines; the file has lines similar to the old ones. Only what differs
# between old and new is changed. Every other line stays as it is in the file, so that a mistake of
# the model in a context line never reaches the file.


class IndentShift:
    """Maps the indentation of the old lines to that of the file, and applies it to new lines."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        """`pairs` are lines of the old text and the corresponding lines of the file."""
        self._known: dict[str, str] = {}
        self.consistent = True
        for old, found in pairs:
            if not old.strip():
                continue
            before, after = indentation(old), indentation(found)
            self.consistent &= self._known.setdefault(before, after) == after
        widths = sorted((len(before), len(after)) for before, after in self._known.items())
        self.consistent &= [after for _, after in widths] == sorted(after for _, after in widths)
        self._steps = self._find_steps(sorted(self._known, key=len))

    def apply(self, line: str) -> str:
        if not line.strip():
            return line
        before = indentation(line)
        return self._map_indentation(before) + line[len(before) :]

    def _map_indentation(self, before: str) -> str:
        if before in self._known:
            return self._known[before]
        bases = [known for known in self._known if before.startswith(known)]
        if bases:
            base = max(bases, key=len)
            return self._known[base] + self._scale(before[len(base) :])
        deeper = [known for known in self._known if known.startswith(before)]
        if not deeper:
            return before
        base = min(deeper, key=len)
        away = self._scale(base[len(before) :])
        return self._known[base].removesuffix(away)

    def _scale(self, rest: str) -> str:
        old, new = self._steps
        if old and len(rest) % len(old) == 0 and rest == old * (len(rest) // len(old)):
            return new * (len(rest) // len(old))
        return rest

    def _find_steps(self, known: Sequence[str]) -> tuple[str, str]:
        """Return one level of indentation in the old text and in the file, or two empty strings."""
        for less, more in itertools.pairwise(known):
            low, high = self._known[less], self._known[more]
            if more.startswith(less) and high.startswith(low) and high != low:
                return more[len(less) :], high[len(low) :]
        if len(known) == 1 and known[0] and self._known[known[0]]:
            return self._single_step(known[0], self._known[known[0]])
        return "", ""

    @staticmethod
    def _single_step(old: str, new: str) -> tuple[str, str]:
        """Derive the level from a single line, where one text has tabs and the other has spaces."""
        if set(old) == set(new) or len(set(old)) > 1 or len(set(new)) > 1:
            return "", ""
        tabs, spaces = (old, new) if "\t" in old else (new, old)
        if len(spaces) % len(tabs):
            return "", ""
        unit = " " * (len(spaces) // len(tabs))
        return ("\t", unit) if old is tabs else (unit, "\t")


def indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


class LineAlignment(msgspec.Struct, frozen=True):
    """Which line of the file corresponds to which old line."""

    old: Sequence[str]
    found: Sequence[str]
    places: dict[int, int]  #: Index of the old line → index of the line of the file.

    @classmethod
    def one_to_one(cls, old: Sequence[str], found: Sequence[str]) -> "LineAlignment":
        return cls(old, found, {index: index for index in range(len(old))})


def merge_change(alignment: LineAlignment, new: Sequence[str]) -> list[str] | None:
    """Return the lines of the file with the change, or None when its place is uncertain.

    Every old line that the change touches must be aligned, without a gap.
    """
    old, found, places = alignment.old, alignment.found, alignment.places
    shift = IndentShift([(old[one], found[other]) for one, other in places.items()])
    result: list[str] = []
    done = 0
    changes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for kind, first, last, start, end in changes:
        if kind == "equal":
            continue
        reach = _replaced_span(places, first, last)
        if reach is None or reach[0] < done:
            return None
        result += found[done : reach[0]]
        result += [shift.apply(line) for line in new[start:end]]
        done = reach[1]
    return [*result, *found[done:]]


def _replaced_span(places: dict[int, int], first: int, last: int) -> tuple[int, int] | None:
    """Return the lines of the file that correspond to the old lines `first` to `last`."""
    if last > first:
        touched = [places.get(index, -1) for index in range(first, last)]
        if -1 in touched or touched != list(range(touched[0], touched[0] + len(touched))):
            return None
        return touched[0], touched[-1] + 1
    sides = {places[first - 1] + 1} if first - 1 in places else set()
    if first in places:
        sides.add(places[first])
    return (only := sides.pop(), only) if len(sides) == 1 else None


Key = Callable[[str], str]

_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff]")
_SPACES = re.compile(r"[ \t]+")


def plain_typography(text: str) -> str:
    """Replace typographic quotes, dashes and spaces by ASCII; the length stays the same."""
    return text if text.isascii() else text.translate(_TYPOGRAPHY)


def strip_trailing(line: str) -> str:
    return line.rstrip()


def normalize_typography(line: str) -> str:
    line = line.rstrip()
    if line.isascii():
        return line
    line = _INVISIBLE.sub("", plain_typography(line)).replace("…", "...")
    return unicodedata.normalize("NFC", line).rstrip()


def normalize_spacing(line: str) -> str:
    """Collapse runs of spaces after the indentation."""
    line = normalize_typography(line)
    start = indentation(line)
    return start + _SPACES.sub(" ", line[len(start) :])


def normalize_line(line: str) -> str:
    """Collapse runs of spaces and remove the indentation."""
    return _SPACES.sub(" ", normalize_typography(line).strip())


class LineMatcher(msgspec.Struct, frozen=True):
    """One way to compare lines."""

    name: str  #: The ignored difference, as shown to the model.
    key: Key
    shifted: bool = False  #: The indentation may differ, if it does so consistently for all lines.

    def find_all(self, lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
        """Return the index of the first line of each place where `wanted` is found."""
        if not wanted or len(wanted) > len(lines):
            return []
        keys = [self.key(line) for line in lines]
        target = [self.key(line) for line in wanted]
        if not any(target):
            return []
        size = len(target)
        return [
            start
            for start in indexes_of(target[0], keys[: len(keys) - size + 1])
            if keys[start : start + size] == target
            and (not self.shifted or _is_consistent_shift(wanted, lines[start : start + size]))
        ]


def indexes_of(key: str, keys: Sequence[str]) -> list[int]:
    found: list[int] = []
    start = 0
    while True:
        try:
            start = keys.index(key, start)
        except ValueError:
            return found
        found.append(start)
        start += 1


def _is_consistent_shift(wanted: Sequence[str], found: Sequence[str]) -> bool:
    return IndentShift(list(zip(wanted, found, strict=True))).consistent


TRAILING = LineMatcher("spaces at line ends", strip_trailing)
TYPOGRAPHY = LineMatcher("quotes and dashes", normalize_typography)
SPACING = LineMatcher("the amount of spaces", normalize_spacing)
INDENTATION = LineMatcher("indentation", normalize_line, shifted=True)
LINE_MATCHERS = (TRAILING, TYPOGRAPHY, SPACING, INDENTATION)
"""From strict to loose; each ignores all that the previous one does."""
