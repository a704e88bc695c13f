"""Whether a reply can be the text of a note."""

import re

from hermes.context.compressor.check import LEAST_CHARS, Unusable, cleaned

SHORT_SOURCE = 400
"""Characters below which almost any reply will do."""
LEAST_WORDS = 5
PIECES, PIECE_CHARS, MOST_COPIED = 10, 100, 8
"""A reply of which more than so many pieces stand in the source is a copy, not notes."""

_WORD = re.compile(r"\w{4,}")
_SPEAKERS = frozenset({"user", "assistant", "tool"})


def usable(reply: str, source: str) -> str:
    """The reply as a note on `source`. Raises `Unusable`."""
    text = cleaned(reply)
    if len(source) <= SHORT_SOURCE:
        return text
    if len(text) < LEAST_CHARS or len(set(text.split())) < LEAST_WORDS:
        raise Unusable("it says too little")
    if len((_words(text) & _words(source)) - _SPEAKERS) < 2:
        raise Unusable("it is about something else")
    if _copied(text, source):
        raise Unusable("it only repeats what it was given")
    return text


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _copied(text: str, source: str) -> bool:
    """Whether nearly all of it stands there in one go. Notes that quote sentences have words of
    their own, or leave something out, in between."""
    said, there = (" ".join(each.split()) for each in (text, source))
    step = max(1, (len(said) - PIECE_CHARS) // (PIECES - 1))
    pieces = [said[step * number :][:PIECE_CHARS] for number in range(PIECES)]
    return sum(piece in there for piece in pieces) > MOST_COPIED
