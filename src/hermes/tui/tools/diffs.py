"""What a call changed in files, line by line: from its result or, failing that, its arguments."""

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import chain, takewhile
from typing import Literal

import msgspec

from hermes.tui.cells import safe
from hermes.tui.tools.calls import Call

Kind = Literal["same", "added", "removed", "gap", "title", "note", "more"]
MOST = 2_000
"""Lines that are read of a diff."""
LONGEST = 2_000
"""Characters that are read of a line."""
MOST_COMPARED = 40_000
"""Pairs of lines of an old and a new text that are worth comparing; beyond that, all of one became
all of the other."""

_HUNK = re.compile(r"@@ -(?P<old>\d+)(?:,(?P<lost>\d+))? \+(?P<new>\d+)(?:,(?P<won>\d+))? @@")
_TITLE = re.compile(r"(?:changed|created|deleted|moved) \S")
_NOTE = re.compile(r"warning: |\[syntax error: |\[\d+ lines became \d+\]")
_MORE = re.compile(r"\[… (\d+) more lines of the diff\]")
_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")

Step = tuple[str, int, int, int, int]


class Line(msgspec.Struct, frozen=True):
    """Safe for a terminal, and one line."""

    kind: Kind
    text: str = ""
    number: int = 0
    """In the new file, of a removed line in the old one; 0 when it is not known. Of `more`, how
    many lines are missing."""


def changes(call: Call, result: str) -> list[Line]:
    """Empty when the call changed no file that is known of."""
    match call.name:
        case "patch":
            return _patched(call, result)
        case "write_file":
            return _written(call, result)
        case "skill_manage" if call.text("action") == "patch":
            return compared(call.text("old_string"), call.text("new_string"))
        case _:
            return []


def _patched(call: Call, result: str) -> list[Line]:
    reported = list(reported_lines(result))
    patch, known = call.text("patch"), [line for line in reported if line.kind != "title"]
    if call.text("old_string") and not any(_changed(line) for line in known):
        return [*known, *compared(call.text("old_string"), call.text("new_string"))]
    new = added_files(patch)
    created = (_with_content(line, new) for line in reported)
    lines = list(chain.from_iterable(created))
    if len([line for line in lines if line.kind == "title"]) == 1:
        lines = [line for line in lines if line.kind != "title"]  # the call names its only file
    return lines


def _changed(line: Line) -> bool:
    return line.kind in ("added", "removed")


def _with_content(line: Line, new: dict[str, list[Line]]) -> list[Line]:
    path = line.text.removeprefix("created ")
    return [line, *new.get(path, [])] if line.kind == "title" and path != line.text else [line]


def _written(call: Call, result: str) -> list[Line]:
    """The content of a new file is added; of a replaced one nobody knows what was there before."""
    kind: Kind = "added" if "created " in result.partition("\n")[0] else "same"
    notes = [_note(line) for line in result.split("\n") if _NOTE.match(line)]
    return [*numbered(kind, call.text("content")), *notes]


def numbered(kind: Kind, content: str) -> list[Line]:
    lines, missing = _lines_of(content)
    shown = [_line(kind, text, at) for at, text in enumerate(lines, 1)]
    return [*shown, Line("more", number=missing)] if missing else shown


def reported_lines(result: str) -> Iterator[Line]:
    """The diff in what `patch` answers. Hunks end where their head says, so what a file holds is
    never taken for a word of the tool."""
    old = new = lost = won = 0
    first = True
    for text in result.split("\n"):
        sign = text[:1]
        if (lost or won) and sign in ("-", "+", " ", ""):
            kind: Kind = "removed" if sign == "-" else "added" if sign == "+" else "same"
            yield _line(kind, text[1:], old if kind == "removed" else new)
            old, lost = (old + 1, lost - 1) if kind != "added" else (old, lost)
            new, won = (new + 1, won - 1) if kind != "removed" else (new, won)
            lost, won = max(lost, 0), max(won, 0)
        elif hunk := _HUNK.match(text):
            old, new = int(hunk["old"]), int(hunk["new"])
            lost, won = int(hunk["lost"] or 1), int(hunk["won"] or 1)
            if not first:
                yield Line("gap")
            first = False
        elif more := _MORE.fullmatch(text):
            lost = won = 0
            yield Line("more", number=int(more[1]))
        elif _TITLE.match(text):
            first = True
            yield Line("title", _safe(text))
        elif _NOTE.match(text):
            yield _note(text)


def added_files(patch: str) -> dict[str, list[Line]]:
    """The content of the new files in a patch, by path."""
    files: dict[str, list[str]] = {}
    content: list[str] | None = None
    for text in patch.split("\n"):
        if section := _SECTION.match(text):
            path = section[2].strip()
            content = files.setdefault(path, []) if section[1] == "Add" else None
        elif content is not None and text.startswith("+"):
            content.append(text[1:])
    return {path: numbered("added", "\n".join(lines)) for path, lines in files.items()}


def compared(before: str, after: str) -> list[Line]:
    """The diff of two parts of a file; where in the file they stand is not known."""
    (old, cut_old), (new, cut_new) = _lines_of(before), _lines_of(after)
    lines: list[Line] = []
    for kind, i, j, k, m in steps(old, new, MOST_COMPARED):
        if kind == "equal":
            lines += [_line("same", text) for text in old[i:j]]
            continue
        lines += [_line("removed", text) for text in old[i:j]]
        lines += [_line("added", text) for text in new[k:m]]
    missing = cut_old + cut_new
    return [*lines, Line("more", number=missing)] if missing else lines


def steps(old: Sequence[str], new: Sequence[str], most: int) -> list[Step]:
    """How the one becomes the other, as `difflib` tells it."""
    head = _same(old, new)
    tail = _same(old[head:][::-1], new[head:][::-1])
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(left) * len(right) > most:
        middle = [("replace", 0, len(left), 0, len(right))]
    else:
        middle = [*difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes()]
    moved = [(kind, i + head, j + head, k + head, m + head) for kind, i, j, k, m in middle]
    ends = [("equal", 0, head, 0, head)] if head else []
    rest = (len(old) - tail, len(old), len(new) - tail, len(new))
    return [*ends, *moved, ("equal", *rest)]


def _same(old: Sequence[str], new: Sequence[str]) -> int:
    """How many entries at the start are the same."""
    pairs = zip(old, new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _lines_of(text: str) -> tuple[list[str], int]:
    """The lines of a text, and how many were left out."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines[:MOST], max(0, len(lines) - MOST)


def _note(text: str) -> Line:
    return Line("note", _safe(text.strip("[]")))


def _line(kind: Kind, text: str, number: int = 0) -> Line:
    return Line(kind, _safe(text), number)


def _safe(text: str) -> str:
    return safe(text[:LONGEST].rstrip("\r")).replace("\n", " ")
