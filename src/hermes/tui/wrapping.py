"""Lines broken to the columns of a terminal, never inside of what is seen as one character.

Rows are given as ranges `(start, end)` of the text, so that whoever knows how the text is dressed
can dress the rows. The text is without control characters and escape sequences.
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from wcwidth import iter_graphemes, wcswidth

from hermes.tui.cells import width

Range = tuple[int, int]

_IDEOGRAPHIC = ("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "YI ", "FULLWIDTH", "IDEOGRAPHIC")
_NOT_FIRST = frozenset("、。，．：；？！）」』】〉》〕〗〙’”…ー々っゃゅょッャュョ,.;:!?)]}%")
"""What does not stand at the beginning of a row beside an ideograph."""
_NOT_LAST = frozenset("（「『【〈《〔〖〘‘“([{")


def rows(text: str, columns: int) -> list[Range]:
    """The rows of a paragraph, broken between words. Spaces at both ends of a row are left out.

    A row depends only on where it begins, so all rows but the last two stay what they are when
    more text follows.
    """
    found = []
    at = 0
    while (row := _row(text, at, columns)) is not None:
        found.append(row)
        at = row[1]
    return found


def wrapped(text: str, columns: int) -> list[str]:
    """The rows of a paragraph as texts; at least one."""
    return [text[start:end] for start, end in rows(text, columns)] or [""]


def broken(text: str, first: int, rest: int) -> list[Range]:
    """The rows of a line of code: as many columns as fit in the first and the other rows."""
    found = []
    at, columns = 0, first
    while at < len(text):
        end = _fit(text, at, len(text), columns)
        found.append((at, end))
        at, columns = end, rest
    return found or [(0, 0)]


def ideographic(character: str) -> bool:
    """Whether the character belongs to a script that is written without spaces between words."""
    return character >= "\u2e80" and _ideographic(character)


@lru_cache(4096)
def _ideographic(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_IDEOGRAPHIC)


@lru_cache(4096)
def _columns(cluster: str) -> int:
    return max(0, wcswidth(cluster))


def _row(text: str, at: int, columns: int) -> Range | None:
    """The row that begins at `at` or behind the spaces there."""
    start = end = -1
    used = 0
    for begin, stop, wide in _words(text, at, columns):
        if start < 0:
            start, end, used = begin, stop, wide
            if wide > columns:
                return start, _fit(text, begin, stop, columns)
        elif used + begin - end + wide <= columns:
            used += begin - end + wide
            end = stop
        else:
            break
    if start < 0:
        return None
    if not text.isascii() and width(text[start:end]) > columns:
        # Stray marks take columns that depend on what stands before them.
        end = _fit(text, start, end, columns)
    return start, end


def _words(text: str, at: int, columns: int) -> Iterator[tuple[int, int, int]]:
    """What a row is not broken inside of, with its columns. A word wider than a row is given up
    to where that is known."""
    if not text.isascii():
        yield from _mixed_words(text, at, columns)
        return
    size = len(text)
    while at < size:
        if text[at] == " ":
            at += 1
            continue
        end = text.find(" ", at, at + columns + 1)
        if end < 0:
            end = min(size, at + columns + 1)
        yield at, end, end - at
        at = end


def _mixed_words(text: str, at: int, columns: int) -> Iterator[tuple[int, int, int]]:
    begin, wide, last = at, 0, ""
    for cluster in iter_graphemes(text, at):
        if last and (cluster == " " or wide > columns or _may_break(last[0], cluster[0])):
            yield begin, at, wide
            last = ""
        if cluster != " ":
            if not last:
                begin, wide = at, 0
            wide += _columns(cluster)
            last = cluster
        at += len(cluster)
    if last:
        yield begin, at, wide


def _may_break(before: str, after: str) -> bool:
    return (
        (ideographic(before) or ideographic(after))
        and after not in _NOT_FIRST
        and before not in _NOT_LAST
    )


def _fit(text: str, start: int, end: int, columns: int) -> int:
    """Where a row from `start` must end: at least one character on."""
    if text.isascii():
        return min(end, start + columns)
    at, used = start, 0
    for cluster in iter_graphemes(text, start, end):
        used += _columns(cluster)
        if used > columns or (used == columns and width(text[start : at + len(cluster)]) > columns):
            break
        at += len(cluster)
    while at > start and width(text[start:at]) > columns:
        at -= 1
    return at if at > start else _forced(text, start, end, columns)


def _forced(text: str, start: int, end: int, columns: int) -> int:
    """A cluster that is wider than a row, which only nonsense is, is broken all the same."""
    at = start + 1
    while at < end and width(text[start : at + 1]) <= columns:
        at += 1
    return at
