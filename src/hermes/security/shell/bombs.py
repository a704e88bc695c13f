"""Fork bombs by the way they are written, beside what the tree shows."""

import re

FORK_BOMB = re.compile(
    r"(?<![\w:.])([\w:.]{1,64})\s{0,9}\(\s{0,9}\)\s{0,9}[{(][^})]{0,200}?(?<![\w:.])\1\s{0,9}\|\s{0,9}&?\s{0,9}\1\s{0,9}&"
    r"|\bfunction\s{1,9}([\w:.]{1,64})\s{0,9}(?:\(\s*\))?\s{0,9}[{(][^})]{0,200}?(?<![\w:.])\2\s{0,9}\|\s{0,9}\2\s{0,9}&"
)
SELF_START = re.compile(
    r"(?:\./)?\$\{?0\}?\s{0,9}[|&]\s{0,9}(?:\./)?\$\{?0\}?(?!\w)|%0\s{0,9}\|\s{0,9}%0"
)
FORK_LOOP = re.compile(
    r"while\s{0,9}\(?\s{0,9}(?:1|true)\s{0,9}\)?[\s:;{]{0,40}(?:os\.)?fork\b|fork\s{1,9}while\s{1,9}(?:fork|1)"
    r"|\bloop\s{0,9}(?:do|\{)\s{0,9}(?:Process\.)?fork",
    re.IGNORECASE,
)
"""In code of other languages."""
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)


def spells_bomb(code: str) -> bool:
    """Whether shell code, its here-documents taken out, starts itself without end. What stands in
    quotes is text here; when a shell runs that text, it is looked at as code of its own."""
    if ("|" not in code and "&" not in code) or ("(" not in code and "0" not in code):
        return False
    bare = _QUOTED.sub("''", code)
    return bool(FORK_BOMB.search(bare) or SELF_START.search(bare))
