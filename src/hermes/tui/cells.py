"""Text by the columns it takes on a terminal."""

import re

from wcwidth import iter_graphemes, wcswidth

from hermes.util.plain import plain

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
TAB = 4


def safe(text: str) -> str:
    """`text` without what would steer the terminal: a model, a tool or a file may have written it.
    Line ends become `\\n`, tabs become spaces."""
    if text.isascii() and text.isprintable():
        return text
    return plain(text).expandtabs(TAB)


def width(text: str) -> int:
    """Columns of a line without control characters; colours take none."""
    if text.isascii() and "\x1b" not in text:
        return len(text)
    columns = wcswidth(COLOUR.sub("", text))
    return columns if columns >= 0 else len(text)


def cut(text: str, columns: int) -> str:
    """The beginning of a line that fits; an ellipsis tells that there was more. Plain text only."""
    if width(text) <= columns:
        return text
    taken = end = 0
    for cluster in iter_graphemes(text):
        taken += max(0, wcswidth(cluster))
        if taken > columns - 1:
            break
        end += len(cluster)
    return text[:end] + "…" if columns > 0 else ""


def one_line(text: str, columns: int) -> str:
    """All of a text on one line, cut to fit."""
    return cut(" ".join(safe(text[: 8 * columns + 200]).split()), columns)
