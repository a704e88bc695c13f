"""Which stars, underscores and tildes dress the text between them."""

import unicodedata
from collections import Counter
from collections.abc import Iterable

from hermes.tui.wrapping import ideographic

REACH = 1000
"""Characters within which markup must be closed; else it is text. It bounds how long a row of a
paragraph can be undecided."""
STRONG, EMPHASIS = 2, 1


class Mark:
    """A run of one of `*_~` that may open or close emphasis."""

    __slots__ = ("at", "char", "closed", "closes", "left", "opened", "opens", "size")

    def __init__(self, at: int, run: str, before: str, after: str) -> None:
        self.at = at
        self.char = run[0]
        self.size = self.left = len(run)
        left, right = _flanking(before, after), _flanking(after, before)
        if self.char == "_":
            self.opens = left and (not right or _punctuation(before))
            self.closes = right and (not left or _punctuation(after))
        else:
            usable = self.char == "*" or self.size == STRONG
            self.opens, self.closes = left and usable, right and usable
        self.opened: list[int] = []
        self.closed: list[int] = []
        """How many characters of the run opened or closed something, match by match."""


def pair(marks: Iterable[Mark]) -> list[Mark]:
    """Pair the marks; those that are still able to open something are returned.

    Which marks are paired does not change when more text follows.
    """
    able: list[Mark] = []
    count = Counter[str]()
    for mark in marks:
        while mark.closes and mark.left and count[mark.char]:
            index = _opener(mark, able)
            if index < 0:
                break
            _match(able[index], mark)
            first_gone = index + (1 if able[index].left else 0)
            count.subtract([gone.char for gone in able[first_gone:]])
            del able[first_gone:]
        if mark.opens and mark.left:
            able.append(mark)
            count[mark.char] += 1
    return able


def _opener(closer: Mark, able: list[Mark]) -> int:
    """The nearest mark that the closer closes; -1 if there is none."""
    for index in range(len(able) - 1, -1, -1):
        opener = able[index]
        if closer.at - opener.at > REACH:
            break
        if opener.char == closer.char and _compatible(opener, closer):
            return index
    return -1


def _match(opener: Mark, closer: Mark) -> None:
    size = STRONG if opener.left >= STRONG and closer.left >= STRONG else EMPHASIS
    opener.left -= size
    closer.left -= size
    opener.opened.append(size)
    closer.closed.append(size)


def _compatible(opener: Mark, closer: Mark) -> bool:
    """CommonMark's rule of three: `*a**b*` is not read as two emphases."""
    if not (opener.closes or closer.opens) or (opener.size + closer.size) % 3:
        return True
    return opener.size % 3 == 0 and closer.size % 3 == 0


def _flanking(outside: str, inside: str) -> bool:
    """Whether a mark clings to what is inside. Beside ideographs there are no spaces."""
    if inside.isspace():
        return False
    return (
        not _punctuation(inside)
        or outside.isspace()
        or _punctuation(outside)
        or ideographic(outside)
    )


def _punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"
