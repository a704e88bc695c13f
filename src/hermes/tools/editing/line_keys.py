"""Comparing lines while looking past what models get wrong: spaces, quotes, indentation."""

import re
import unicodedata
from collections.abc import Callable, Sequence

import msgspec

from hermes.tools.editing.merging import Shift, indentation

Key = Callable[[str], str]

_ONE_FOR_ONE = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff]")
_SPACES = re.compile(r"[ \t]+")


def as_typed(text: str) -> str:
    """Typographic quotes, dashes and spaces as a keyboard has them; the length stays."""
    return text if text.isascii() else text.translate(_ONE_FOR_ONE)


def without_trailing(line: str) -> str:
    return line.rstrip()


def plain(line: str) -> str:
    line = line.rstrip()
    if line.isascii():
        return line
    line = _INVISIBLE.sub("", as_typed(line)).replace("…", "...")
    return unicodedata.normalize("NFC", line).rstrip()


def spaced(line: str) -> str:
    """Runs of spaces inside the line as one; its indentation counts."""
    line = plain(line)
    start = indentation(line)
    return start + _SPACES.sub(" ", line[len(start) :])


def bare(line: str) -> str:
    """Without indentation as well."""
    return _SPACES.sub(" ", plain(line).strip())


class Look(msgspec.Struct, frozen=True):
    """One way to compare lines."""

    name: str
    """What was looked past, as the model is told."""
    key: Key
    shifted: bool = False
    """Indentation may differ, in the same way for all lines."""

    def windows(self, lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
        """Where `wanted` stands in `lines`: the index of each first line."""
        if not wanted or len(wanted) > len(lines):
            return []
        keys = [self.key(line) for line in lines]
        target = [self.key(line) for line in wanted]
        if not any(target):
            return []
        size = len(target)
        return [
            start
            for start in places_of(target[0], keys[: len(keys) - size + 1])
            if keys[start : start + size] == target
            and (not self.shifted or _consistent(wanted, lines[start : start + size]))
        ]


def places_of(key: str, keys: Sequence[str]) -> list[int]:
    found: list[int] = []
    start = 0
    while True:
        try:
            start = keys.index(key, start)
        except ValueError:
            return found
        found.append(start)
        start += 1


def _consistent(wanted: Sequence[str], found: Sequence[str]) -> bool:
    return Shift(list(zip(wanted, found, strict=True))).consistent


TRAILING = Look("spaces at line ends", without_trailing)
TYPOGRAPHY = Look("quotes and dashes", plain)
SPACING = Look("the amount of spaces", spaced)
INDENTATION = Look("indentation", bare, shifted=True)
LADDER = (TRAILING, TYPOGRAPHY, SPACING, INDENTATION)
"""From strict to loose; each looks past all that the one before does."""
