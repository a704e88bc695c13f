"""The query language of the message search, the same for both databases."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Literal

import msgspec

from hermes.util.text import clean

# Scripts that do not separate words by spaces. A word index takes a whole Chinese sentence for one
# word, and a Korean word with its particle for another word. Text in these scripts is found by its
# characters instead.

RANGES = (
    (0x0E00, 0x109F, "Thai, Lao, Tibetan, Myanmar"),
    (0x1100, 0x11FF, "Hangul jamo"),
    (0x1780, 0x17FF, "Khmer"),
    (0x3000, 0xA4CF, "kana, bopomofo, Hangul letters, Han with extension A, their signs, Yi"),
    (0xA960, 0xA97F, "Hangul jamo extended A"),
    (0xA9E0, 0xA9FF, "Myanmar extended B"),
    (0xAA60, 0xAA7F, "Myanmar extended A"),
    (0xAC00, 0xD7FF, "Hangul, Hangul jamo extended B"),
    (0xF900, 0xFAFF, "Han compatibility forms"),
    (0xFF66, 0xFFDC, "halfwidth katakana and Hangul"),
    (0x1AFF0, 0x1B16F, "kana supplements"),
    (0x20000, 0x3FFFF, "Han extensions B and later, Han compatibility supplement"),
)
"""First and last code point of each range, and its content, in ascending order."""


@cache
def _character() -> re.Pattern[str]:
    return re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last, _ in RANGES) + "]")


def is_unspaced(text: str) -> bool:
    """Return whether `text` has a character of a script written without spaces."""
    return not text.isascii() and _character().search(text) is not None


# The query language.
#
#     disk error            both words, in any order
#     "disk error"          this phrase
#     disk OR error         either
#     disk NOT error        the first without the second
#     deploy*               words with this prefix
#     chat-send             joined words are a phrase
#
# NOT binds the next term, OR is weakest: `a b OR c NOT d` is (a and b) or (c and not d). The
# operators are upper-case words. Other syntax of a database has no meaning here.
#
# Every text is a valid query. A quote without its partner, an operator without an operand and signs
# that are not part of a word are dropped; the terms of a group with nothing but NOT are searched
# for. Only the first `MAX_TEXT` characters and the first `MAX_TERMS` terms count.

MAX_TEXT = 2000
MAX_TERMS = 64

_QUOTES = str.maketrans("“”„‟＂", '"""""')
_TOKEN = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')
# As SQLite's unicode61 sees them: letters, digits and private-use characters, with the combining
# accents that follow. The underscore separates.
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_ACCENTS = "\u0300-\u0331"
_WORD = re.compile(f"(?:[^\\W_]|[{_PRIVATE}])(?:[^\\W_]|[{_PRIVATE}{_ACCENTS}])*")
_ACCENT = re.compile(f"[{_ACCENTS}]")


class Term(msgspec.Struct, frozen=True):
    words: tuple[str, ...]  #: One word, or the words of a phrase in order.
    text: str  #: The source text without quotes, star and signs at the ends.
    prefix: bool = False  #: The last word is a prefix.

    @property
    def is_unspaced(self) -> bool:
        """True if the term is found as a substring, not as words."""
        return is_unspaced(self.text)


class Group(msgspec.Struct, frozen=True):
    all_of: tuple[Term, ...]  #: Never empty.
    none_of: tuple[Term, ...] = ()


class Query(msgspec.Struct, frozen=True):
    any_of: tuple[Group, ...]  #: Empty when the text has no term.

    @property
    def wanted(self) -> tuple[Term, ...]:
        """Every term that a match may contain."""
        return tuple(term for group in self.any_of for term in group.all_of)


_Operator = Literal["AND", "OR", "NOT"]
_OPERATORS: dict[str, _Operator] = {"AND": "AND", "OR": "OR", "NOT": "NOT"}


def parse_query(text: str) -> Query:
    groups: list[Group | None] = []
    wanted: list[Term] = []
    unwanted: list[Term] = []
    is_negated = False
    count = 0
    for item in _items(clean(text[:MAX_TEXT]).translate(_QUOTES)):
        if isinstance(item, Term):
            (unwanted if is_negated else wanted).append(item)
            count += 1
        elif item == "OR":
            groups.append(_group(wanted, unwanted))
            wanted, unwanted = [], []
        is_negated = item == "NOT"
        if count == MAX_TERMS:
            break
    groups.append(_group(wanted, unwanted))
    return Query(tuple(group for group in groups if group))


def _group(wanted: list[Term], unwanted: list[Term]) -> Group | None:
    if wanted:
        return Group(tuple(wanted), tuple(unwanted))
    return Group(tuple(unwanted)) if unwanted else None


def _items(text: str) -> Iterator[Term | _Operator | None]:
    """Yield terms and operators in order; None for a token without a word."""
    for phrase, star, token in _TOKEN.findall(text):
        if not token:
            yield _term(phrase, is_prefix=bool(star))
            continue
        start, end = _bounds(token)
        operator = _OPERATORS.get(token[start:end])
        is_prefix = token[end : end + 1] == "*"
        yield operator if operator and not is_prefix else _term(token, is_prefix=is_prefix)


def _term(text: str, *, is_prefix: bool) -> Term | None:
    words = tuple(_composed(word) for word in _WORD.findall(text))
    if not words:
        return None
    start, end = _bounds(text)
    return Term(words, text[start:end], is_prefix)


def _composed(word: str) -> str:
    """Return `word` with accents composed with their letters, or dropped where that fails."""
    if not _ACCENT.search(word):
        return word
    return _ACCENT.sub("", unicodedata.normalize("NFC", word))


def _bounds(text: str) -> tuple[int, int]:
    """Return start and end of `text` without the signs around it. Marks are not signs: a Thai or
    Burmese word may end with one."""
    start, end = 0, len(text)
    while start < end and _is_sign(text[start]):
        start += 1
    while start < end and _is_sign(text[end - 1]):
        end -= 1
    return start, end


def _is_sign(character: str) -> bool:
    return unicodedata.category(character)[0] not in "LNM" and not _WORD.match(character)
