"""The words of a text, and the text form of the `tsvector` that finds them.

PostgreSQL's own parsers and dictionaries have no part in it: the words are split here, the same
way on every server. Letters and digits of any script make words, everything else separates them;
case and diacritics do not count. A run of a script written without spaces is found by its single
characters and its overlapping pairs, which need no positions, and counts as one word for the
distance of its neighbours.
"""

import unicodedata
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import NamedTuple

from hermes.store.search.scripts import is_unspaced

POSITIONS = 16_383
"""The highest position PostgreSQL stores."""
POSITIONS_A_LEXEME = 255
LEXEME_BYTES = 2000
VECTOR_BYTES = 1_000_000
"""A little less than PostgreSQL's limit."""

CLIPPED = "…"
"""A lexeme no text has. It marks a vector without the position of every word, in which a phrase
cannot be seen for certain."""

_KEPT_CLASSES = frozenset({0, 7, 8, 9, *range(84, 133)})
"""Combining classes of marks that are letters of their script: vowel signs, nukta, kana voicing,
virama, tones. The marks of all other classes are diacritics."""


class Piece(NamedTuple):
    text: str
    is_run: bool
    """Whether it is a run of a script written without spaces, or else a word."""


def pieces(text: str) -> Iterator[Piece]:
    """The words and runs of `text` in order, folded."""
    plain = _folded(text)
    characters = set(plain)
    separators = {ord(c): " " for c in characters if not _is_part_of_word(c)}
    unspaced = {c for c in characters if is_unspaced(c)}
    for word in plain.translate(separators).split():
        if unspaced.isdisjoint(word):
            yield Piece(_cut(word), False)
        else:
            for is_run, part in groupby(word, unspaced.__contains__):
                whole = "".join(part)
                yield Piece(whole if is_run else _cut(whole), is_run)


def grams(run: str) -> list[str]:
    """What a run is looked up by: its pairs, or itself when it is one character."""
    return [first + second for first, second in pairwise(run)] or [run]


def vector(text: str) -> str:
    """The `tsvector` of a text, within PostgreSQL's limits however long the text is: first
    positions are left out, then the words that come last."""
    found: dict[str, list[int]] = {}
    clipped = False
    for position, piece in enumerate(pieces(text), 1):
        if piece.is_run:
            for lexeme in (*piece.text, *grams(piece.text)):
                found.setdefault(lexeme, [])
            continue
        positions = found.setdefault(piece.text, [])
        if position <= POSITIONS and len(positions) < POSITIONS_A_LEXEME:
            positions.append(position)
        else:
            clipped = True
    return _rendered(found, clipped)


def quoted(lexeme: str) -> str:
    """A lexeme as `tsvector` and `tsquery` read it."""
    escaped = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _rendered(found: dict[str, list[int]], clipped: bool) -> str:
    kept = {CLIPPED: list[int]()} if clipped else {}
    room = VECTOR_BYTES
    for lexeme, positions in found.items():
        room -= len(lexeme.encode()) + 1
        if room < 0:
            break
        kept[lexeme] = positions
    made = []
    for lexeme, positions in kept.items():
        size = 2 + 2 * len(positions)
        if positions and size <= room:
            room -= size
            made.append(f"{quoted(lexeme)}:{','.join(map(str, positions))}")
        else:
            clipped = clipped or bool(positions)
            made.append(quoted(lexeme))
    if clipped and CLIPPED not in kept:
        made.append(quoted(CLIPPED))
    return " ".join(made)


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", text.casefold())
    diacritics = {ord(c): None for c in set(apart) if _is_diacritic(c)}
    return unicodedata.normalize("NFC", apart.translate(diacritics))


def _is_diacritic(character: str) -> bool:
    """Variation selectors, which have class 0, and enclosing marks count as such."""
    category = unicodedata.category(character)
    if category == "Mn":
        is_selector = "VARIATION SELECTOR" in unicodedata.name(character, "")
        return is_selector or unicodedata.combining(character) not in _KEPT_CLASSES
    return category == "Me"


def _is_part_of_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character) in ("Mn", "Mc", "Co")


def _cut(word: str) -> str:
    if len(word) * 4 <= LEXEME_BYTES:
        return word
    return word.encode()[:LEXEME_BYTES].decode(errors="ignore")
