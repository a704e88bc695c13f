"""Comments in Markdown: what authors say to each other, and no reader of the page sees."""

import re
from collections.abc import Sequence

_CODE = re.compile(r"[ \t>]*(`{3,}(?!.*`)|~{3,})")
"""The first line of a block of code."""
_OPEN, _CLOSE = "<!--", "-->"


def without_comments(text: str) -> str:
    """`text` without comments on lines of their own. Those in code, and amid a line, stay."""
    if _OPEN not in text:
        return text
    lines = text.split("\n")
    hidden = comment_lines(lines)
    return "\n".join(line for number, line in enumerate(lines) if number not in hidden)


def comment_lines(lines: Sequence[str]) -> frozenset[int]:
    """The numbers of the lines that hold comments and nothing else."""
    hidden: set[int] = set()
    fence, start = "", -1
    for number, line in enumerate(map(str.strip, lines)):
        if fence:
            if line.strip("> \t").startswith(fence) and not line.strip(f"> \t{fence[0]}"):
                fence = ""
        elif line.startswith(_OPEN):
            start = number
        elif start < 0 and (code := _CODE.match(line)):
            fence = code[1]
        if start >= 0 and _CLOSE in line:
            if line.find(_CLOSE) == len(line) - len(_CLOSE):
                hidden.update(range(start, number + 1))
            start = -1
    return frozenset(hidden)
