"""A text as a chain of words, in which phrases are looked for.

Words stand with one space between them, whatever stood there before; a dot stands where a
sentence, a paragraph or a list item ends. A piece of one or two words ends nothing: `Ignore. All.
Previous.` is one phrase cut up.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from typing import Final

_WORD = re.compile(r"[^\W_]+")
_END = re.compile(
    r"""[.!?。]+["')\]*_`]*(?=\s)|\n\s*\n|\n[ \t]*(?=(?:[-+*]|\#{1,6}|\d{1,3}[.)])[ \t]|\|)"""
)
_RUN = re.compile(r"(?<![a-z])[a-z]{18,}+")
_IN_CHAIN = re.compile(r"[^ .]+")
_SENTENCE: Final = 3
"""Words of two letters or more that make a piece a sentence."""
_LEET = re.compile(r"(?<![a-z0-9@$!|])[a-z@!|]{0,14}[0134578@$|][a-z0-9@$!|]{0,14}")
_READINGS = tuple(str.maketrans("01345789@$!|", f"o{one}eastbgasi{one}") for one in "il")


class Words:
    """The words of a plain (folded) text."""

    def __init__(self, plain: str, known: frozenset[str]) -> None:
        self.plain = _unleet(plain, known)
        chain: list[str] = []
        at = 0
        for end in (*(match.end() for match in _END.finditer(self.plain)), len(self.plain)):
            words = _WORD.findall(self.plain, at, end)
            at = end
            chain += words
            if sum(len(word) > 1 for word in words) >= _SENTENCE:
                chain.append(".")
        self.chain = " ".join(chain)
        self._squeezed = "".join(chain)
        self._held: dict[str, bool] = {}

    def holds(self, word: str) -> bool:
        """Whether the word stands anywhere, cut up or not, or as a part of another."""
        known = self._held.get(word)
        if known is None:
            known = self._held[word] = word in self._squeezed
        return known

    def sentences(self, words: Iterable[str]) -> list[int]:
        """The numbers of the sentences in which one of the words stands."""
        dots = self._dots[0]
        return sorted(
            {
                bisect_right(dots, match.start())
                for word in words
                if self.holds(word)
                for match in re.finditer(re.escape(word), self._squeezed)
            }
        )

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Where the sentences from `first` to `last` stand in the chain."""
        dots = self._dots[1]
        start = dots[first - 1] + 2 if first > 0 else 0
        return start, dots[last] + 1 if last < len(dots) else len(self.chain)

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """Sentences with a word too long to be one: `ignoreallpreviousinstructions`."""
        dots = self._dots[1]
        numbers = {bisect_right(dots, match.start()) for match in _RUN.finditer(self.chain)}
        return [self.span(number, number) for number in sorted(numbers)]

    @cached_property
    def _dots(self) -> tuple[list[int], list[int]]:
        """Where sentences end, in the squeezed text and in the chain."""
        both = (self._squeezed, self.chain)
        squeezed, chain = ([m.start() for m in re.finditer(r"\.", text)] for text in both)
        return squeezed, chain

    @cached_property
    def _spans(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Where each word starts in the chain, and its span in the plain text."""
        starts = [match.start() for match in _IN_CHAIN.finditer(self.chain)]
        return starts, [match.span() for match in _WORD.finditer(self.plain)]

    def in_plain(self, start: int, end: int) -> tuple[int, int]:
        """Where the words between two places of the chain stand in the plain text."""
        starts, spans = self._spans
        first = bisect_right(starts, start) - 1
        last = bisect_right(starts, max(start, end - 1)) - 1
        return spans[max(first, 0)][0], spans[max(last, 0)][1]


def _unleet(plain: str, known: frozenset[str]) -> str:
    """`1gn0r3` as `ignore`; only what becomes a word some rule looks for is changed."""

    def read(match: re.Match[str]) -> str:
        bare = match[0].rstrip("!|")
        for reading in _READINGS:
            word = bare.translate(reading)
            if word in known:
                return word + match[0][len(bare) :]
        return match[0]

    return _LEET.sub(read, plain)
