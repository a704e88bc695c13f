"""The text of a memory file: entries with a line holding `§` between them.

People write these files by hand too, so reading is liberal: spaces around the sign, empty entries,
entries that stand there twice, Windows line ends and a byte order mark are all fine. Writing has
one form.
"""

import re
from collections.abc import Sequence

from hermes.util.text import clean

SEPARATOR = "\n§\n"

_LINE = re.compile(r"^[^\S\n]*§[^\S\n]*$", re.MULTILINE)
_LINE_END = re.compile("\r\n?|[\u2028\u2029\x85]")


def split(text: str) -> tuple[str, ...]:
    """The entries in order, each once."""
    parts = (part.strip() for part in _LINE.split(tidy(text)))
    return tuple(dict.fromkeys(part for part in parts if part))


def join(entries: Sequence[str]) -> str:
    """What counts against the limit; a file has one more newline at its end."""
    return SEPARATOR.join(entries)


def tidy(text: str) -> str:
    """`text` as it can be stored: no NUL, no lone surrogates, no byte order marks, one kind of
    line end, nothing blank around it."""
    return _LINE_END.sub("\n", clean(text).replace("\ufeff", "")).strip()


def holds_separator(entry: str) -> bool:
    """Whether `entry` would be read back as several."""
    return _LINE.search(entry) is not None
