"""Scripts whose words cannot be told apart by spaces.

A word index sees a whole Chinese sentence as one word, and a Korean word with its particle as
another word. Text in these scripts is found by its characters instead.
"""

import re
from functools import cache

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
"""First and last code point of each range, and what is in it, in ascending order."""


@cache
def _character() -> re.Pattern[str]:
    return re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last, _ in RANGES) + "]")


def is_unspaced(text: str) -> bool:
    """Whether `text` holds a character of a script written without spaces."""
    return not text.isascii() and _character().search(text) is not None
