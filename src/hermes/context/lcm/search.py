"""Looking for words or a pattern in texts."""

import contextlib
import re
from collections.abc import Callable

import jsonschema_rs

from hermes.util.text import clean

WINDOW = 240
"""Characters of a snippet, and of the pieces a long line is searched in."""
OVERLAP = 60
_REGEX_SIGN = re.compile(r"[\\^$*+?{}\[\]|()]")

Search = Callable[[str], str | None]
"""A snippet around what was found in a text, or None."""


def search_for(query: str) -> Search:
    """All words of the query, in any order and case. A query with regex signs is looked for as it
    stands and, if it is one, as a pattern for a line."""
    words = clean(query).casefold().split()
    with contextlib.suppress(ValueError):
        if _REGEX_SIGN.search(query):
            pattern = _pattern(clean(query))
            return lambda text: _with_words(text, words) or pattern(clean(text))
    return lambda text: _with_words(text, words)


def _pattern(query: str) -> Search:
    """Raises ValueError for what is no pattern."""
    # This engine takes linear time whatever the pattern, unlike `re`.
    validator = jsonschema_rs.validator_for(
        {"pattern": f"(?i){query}"}, pattern_options=jsonschema_rs.RegexOptions()
    )
    return lambda text: _matching(text, validator.is_valid)


def _matching(text: str, matches: Callable[[str], bool]) -> str | None:
    line = next((line for line in text.splitlines() if matches(line)), None)
    if line is None:
        return None
    starts = range(0, len(line) or 1, WINDOW - OVERLAP)
    pieces = (line[start : start + WINDOW] for start in starts)
    return next((piece for piece in pieces if matches(piece)), line[:WINDOW]).strip()


def _with_words(text: str, words: list[str]) -> str | None:
    folded = text.casefold()
    if not words or not all(word in folded for word in words):
        return None
    at = folded.index(words[0])
    # Folding may change lengths, so the place is only about right; the snippet is wide enough.
    start = max(0, min(at, len(text)) - WINDOW // 3)
    return " ".join(text[start : start + WINDOW].split())
