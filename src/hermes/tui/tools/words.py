"""Which words of a changed line are others now."""

import re
from collections.abc import Sequence
from itertools import accumulate, takewhile

from hermes.tui.tools.diffs import Line, steps

Range = tuple[int, int]
MOST_COMPARED = 2_500
"""Pairs of words worth comparing; more of them count as changed as a whole."""
LEAST_ALIKE = 0.35
"""Share of the characters that two lines must have in common to be the same line, changed."""

_MARKS = "[\u0300-\u036f\ufe0f\U0001f3fb-\U0001f3ff]*"
_WORD = re.compile(rf"[0-9A-Za-z_\u00c0-\u2e7f]+|\s+|(?:\S{_MARKS}\u200d)*\S{_MARKS}")
"""Words, spaces and single characters; what is seen as one emoji stays together."""


def changed_words(lines: Sequence[Line]) -> dict[int, list[Range]]:
    """Ranges of the texts by the index of their line, for lines that replace each other."""
    found: dict[int, list[Range]] = {}
    at = 0
    while at < len(lines):
        removed = _run(lines, at, "removed")
        added = _run(lines, at + removed, "added") if removed else 0
        for old in range(at, at + min(removed, added)):
            new = old + removed
            pair = changed(lines[old].text, lines[new].text)
            if pair is not None:
                found[old], found[new] = pair
        at += removed + added or 1
    return found


def _run(lines: Sequence[Line], start: int, kind: str) -> int:
    return sum(1 for _ in takewhile(lambda line: line.kind == kind, lines[start:]))


def changed(before: str, after: str) -> tuple[list[Range], list[Range]] | None:
    """What differs; None when the lines have too little in common."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    differing = [step for step in steps(old, new, MOST_COMPARED) if step[0] != "equal"]
    ranges = (
        _ranges(old, [(i, j) for _, i, j, _, _ in differing]),
        _ranges(new, [(k, m) for _, _, _, k, m in differing]),
    )
    longest = max(len(before), len(after), 1)
    most = max(sum(end - start for start, end in each) for each in ranges)
    return ranges if 1 - most / longest >= LEAST_ALIKE else None


def _ranges(words: Sequence[str], changed: Sequence[Range]) -> list[Range]:
    """Ranges of words as ranges of characters; those with only a space between are joined."""
    joined: list[Range] = []
    for first, last in changed:
        if first == last:
            continue
        if joined and "".join(words[joined[-1][1] : first]).isspace():
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    starts = list(accumulate(map(len, words), initial=0))
    return [(starts[first], starts[last]) for first, last in joined]
