"""The text of an approval request. Every surface shows this text, and nothing in it is hidden.

The subject comes from the model, so it is treated as hostile: characters that cannot be seen are
escaped, each row has a margin that text of Hermes never has, long runs of one character are
counted, and a text that is too long keeps its beginning and its end.
"""

import os
import unicodedata
from collections.abc import Iterator

import msgspec

from hermes.core.events import ApprovalAsked
from hermes.util.lazy import late_pattern
from hermes.util.text import many, visible

COLUMNS = 100  #: Width of a row in chats, which have no columns of their own.
ROWS = 60  #: Rows of a subject that are shown.
MAX_READ = 100_000  #: Characters read at each end of a subject; more never fit on a screen.
MAX_FACT = 1_000  #: Characters of a reason, a folder or a name.
BEGIN, CONTINUED = "│ ", "↪ "
"""Margins: of a line of the subject, and of a row that continues the line above."""
WORDS = {
    "read": "read this",
    "write": "change this",
    "execute": "run this",
    "network": "open this",
    "send": "send this",
    "spend": "spend money on this",
    "persist": "keep this for later sessions",
}
"""What a call wants to do, by effect."""

_PIECE = late_pattern(r"(?P<blank>(?:[ \t]*\n){4,})|(?P<one>[^\n])(?P=one){63,}|[^\n]|\n")
_BACKTICKS = late_pattern("`+")


class ApprovalText(msgspec.Struct, frozen=True):
    """The parts of a request, in the order in which they are shown."""

    title: str  #: Which tool wants what.
    subject: tuple[str, ...]  #: What would be done, in rows with their margins.
    facts: tuple[str, ...]  #: The reason to ask, the folder, and who asked; one line each.
    hidden: int = 0  #: Characters of the subject that are not shown.

    @property
    def lines(self) -> tuple[str, ...]:
        return (self.title, *self.subject, *self.facts)


def render_approval(
    question: ApprovalAsked, *, asked_by: str = "", columns: int = COLUMNS, rows: int = ROWS
) -> ApprovalText:
    """Return the request in rows of at most `columns`; of the subject at most `rows`, from its
    beginning and its end. The title and the facts are not wrapped."""
    subject, hidden = _fit(question.subject, max(columns - len(BEGIN), 20), max(rows, 3))
    facts = (
        _fact(question.reason),
        *([f"in the folder {_fact(tilde_folder(question.folder))}"] if question.folder else []),
        *([f"asked by {_fact(asked_by)}"] if asked_by else []),
    )
    wish = WORDS.get(question.effect, "do this")
    return ApprovalText(f"{_fact(question.tool)} wants to {wish}:", subject, facts, hidden)


def hook_request(event: str, command: str) -> ApprovalAsked:
    """Return the request for the command of a hook, which runs at each `event`."""
    return ApprovalAsked("", "A hook of your settings", command, f"at {event}", effect="execute")


def fenced(lines: tuple[str, ...]) -> str:
    """Return a Markdown code block that no text in it can end."""
    text = "\n".join(lines)
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}\n{text}\n{mark}"


def tilde_folder(folder: str) -> str:
    """Return `folder` with the user's home folder written as `~`."""
    home = os.path.expanduser("~")  # noqa: PTH111 - the folder may be one of another machine
    return f"~{folder[len(home) :]}" if f"{folder}/".startswith(f"{home}/") else folder


def _fact(text: str) -> str:
    shown = visible(text).replace("\n", "\\n")
    if len(shown) <= MAX_FACT:
        return shown
    half = MAX_FACT // 2
    return f"{shown[:half]}{_missing(len(shown) - 2 * half)}{shown[-half:]}"


def _missing(number: int) -> str:
    return f" … {many(number, 'character')} not shown … "


def _fit(text: str, columns: int, most: int) -> tuple[tuple[str, ...], int]:
    """Return at most `most` rows, and how many characters are in none of them."""
    is_long = len(text) > 2 * MAX_READ
    head = list(_rows(text[:MAX_READ] if is_long else text, columns))
    if not is_long and len(head) <= most:
        return tuple(row for row, _size in head), 0
    tail = list(_rows(text[-MAX_READ:], columns)) if is_long else head
    last = (most - 1) * 2 // 5 or 1
    head, tail = head[: most - 1 - last], tail[-last:]
    hidden = len(text) - sum(size for _row, size in (*head, *tail))
    first, end = ([row for row, _size in part] for part in (head, tail))
    return (*first, _missing(hidden).strip(), *end), hidden


def _rows(text: str, columns: int) -> Iterator[tuple[str, int]]:
    """Yield the rows of a text, and how many characters of it each stands for."""
    margin, row, used, size = BEGIN, "", 0, 0
    for piece, length in _pieces(text):
        wide = _columns(piece)
        if piece == "\n":
            yield f"{margin}{row}".rstrip(), size + 1
            margin, row, used, size = BEGIN, "", 0, 0
            continue
        if row and used + wide > columns:
            yield f"{margin}{row}", size
            margin, row, used, size = CONTINUED, "", 0, 0
        row, used, size = row + piece, used + wide, size + length
    yield f"{margin}{row}".rstrip(), size


def _pieces(text: str) -> Iterator[tuple[str, int]]:
    """Yield what is shown for each character or run of characters, and its length in the text."""
    for found in _PIECE.finditer(text):
        piece = found[0]
        if found["blank"]:
            yield "\n", 1
            yield f"[… {many(piece.count(chr(10)) - 1, 'blank line')} …]", len(piece) - 2
            yield "\n", 1
        elif len(piece) > 1:
            yield f'[… {len(piece):,} × "{visible(piece[0])}" …]', len(piece)
        elif piece == "\n":
            yield piece, 1
        else:
            yield visible(piece), 1


def visible_line(text: str) -> str:
    """Return a line with everything in it to be seen, and long runs of one character counted."""
    return "".join(piece for piece, _length in _pieces(text))


def _columns(piece: str) -> int:
    if piece.isascii():
        return len(piece)
    return sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in piece)
