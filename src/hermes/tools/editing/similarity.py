"""Blocks of lines that are alike but not the same. Used last, and only where one place is meant.

What the change touches must be in the file word for word (but for spaces and quotes); only lines
quoted around it may differ, and those stay as the file has them.
"""

import difflib
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import msgspec

from hermes.tools.editing.line_keys import bare, places_of
from hermes.tools.editing.merging import Alignment, merged

CLOSE = 80.0
"""Least likeness, of 100, of a block between its first and its last line."""
LINE_CLOSE = 70.0
"""Least likeness of a single line."""
RIVAL = 15.0
"""A second block that is less alike by no more than this makes the first one uncertain."""
MOST_WORK = 5_000_000
"""Comparisons of lines; beyond that a look is not worth the time."""
SHOWN = 12
"""Lines shown of the closest block."""


class Block(msgspec.Struct, frozen=True):
    first: int
    last: int
    """The line after its end."""
    new: list[str]
    score: float


def anchored(lines: Sequence[str], old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """Blocks with the same first and last line and much the same between them."""
    keys, wanted = [bare(line) for line in lines], [bare(line) for line in old]
    if len(wanted) < 3 or len(re.findall(r"\w", wanted[0])) < 3 or not wanted[-1]:
        return []
    slack = max(1, len(wanted) // 4)
    blocks: list[Block] = []
    for start in places_of(wanted[0], keys):
        ends = range(start + max(2, len(wanted) - slack), start + len(wanted) + slack + 1)
        found = [
            block
            for end in ends
            if end <= len(keys) and keys[end - 1] == wanted[-1]
            if (block := _block(lines, keys, (start, end), old, wanted, new))
        ]
        if found:
            blocks.append(max(found, key=lambda block: block.score))
    return _certain(blocks)


def _block(
    lines: Sequence[str],
    keys: Sequence[str],
    span: tuple[int, int],
    old: Sequence[str],
    wanted: Sequence[str],
    new: Sequence[str],
) -> Block | None:
    first, last = span
    score = _ratio("\n".join(wanted), "\n".join(keys[first:last]))
    places = _same(wanted, keys[first:last])
    if score < CLOSE or len(places) * 2 < len(wanted):
        return None
    result = merged(Alignment(old, lines[first:last], places), new)
    return None if result is None else Block(first, last, result, score)


def _same(wanted: Sequence[str], keys: Sequence[str]) -> dict[int, int]:
    blocks = difflib.SequenceMatcher(None, wanted, keys, autojunk=False).get_matching_blocks()
    return {block.a + n: block.b + n for block in blocks for n in range(block.size)}


def alike(lines: Sequence[str], old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """Blocks of the same length in which hardly a line differs, and none by a name or a number."""
    size = len(old)
    if size < 4 or len(lines) * size > MOST_WORK:
        return []
    keys, wanted = [bare(line) for line in lines], [bare(line) for line in old]
    allowed = max(1, size // 5)
    blocks: list[Block] = []
    for first in range(len(keys) - size + 1):
        here = keys[first : first + size]
        differing = [n for n in range(size) if wanted[n] != here[n]]
        if len(differing) > allowed or not all(_kin(wanted[n], here[n]) for n in differing):
            continue
        places = {n: n for n in range(size) if n not in differing}
        result = merged(Alignment(old, lines[first : first + size], places), new)
        if result is not None:
            score = _ratio("\n".join(wanted), "\n".join(here))
            blocks.append(Block(first, first + size, result, score))
    return _certain(blocks)


def _kin(one: str, other: str) -> bool:
    """One line says what the other says and something more; neither has a word of its own."""
    words, others = set(re.findall(r"\w+", one)), set(re.findall(r"\w+", other))
    return (words <= others or others <= words) and _ratio(one, other) >= LINE_CLOSE


def _certain(blocks: list[Block]) -> list[Block]:
    """The best block alone when no other comes near, else all that do."""
    best = max((block.score for block in blocks), default=0.0)
    return [block for block in blocks if block.score >= best - RIVAL]


def closest(lines: Sequence[str], old: Sequence[str]) -> tuple[int, int] | None:
    """The lines (first, and the one after the last) most like `old`, if any are."""
    wanted = [bare(line) for line in old]
    telling = max(range(len(wanted)), key=lambda n: len(wanted[n]))
    if not wanted[telling]:
        return None
    keys = [bare(line) for line in lines]
    process, fuzz = import_module("rapidfuzz.process"), import_module("rapidfuzz.fuzz")
    near: list[Any] = process.extract(
        wanted[telling], keys, scorer=fuzz.ratio, limit=20, score_cutoff=50
    )
    text = "\n".join(wanted)
    spans = {
        (start, min(start + len(wanted), len(keys)))
        for _, _, place in near
        for start in [max(place - telling, 0)]
    }
    scores = {span: _ratio(text, "\n".join(keys[span[0] : span[1]])) for span in sorted(spans)}
    best = max(scores, key=lambda span: scores[span], default=None)
    return best if best is not None and scores[best] >= 50 else None


def _ratio(one: str, other: str) -> float:
    return float(import_module("rapidfuzz.fuzz").ratio(one, other))
