"""Changes of files by a tool call, as coloured diffs.

They are read from the result of the call or, failing that, from its arguments.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Literal

import msgspec

from hermes.tui.text import Paint, break_ranges, cut, escape_codes, safe
from hermes.tui.tool_results import INDENT, CallInfo, more_line

Kind = Literal["same", "added", "removed", "gap", "title", "note", "more"]
MAX_LINES = 2_000  #: Lines of a diff that are used.
MAX_LINE_CHARS = 2_000  #: Characters of a line that are used.
MAX_COMPARED_LINES = 40_000
"""Pairs of lines up to which texts are compared; larger ones count as replaced completely."""

_HUNK = re.compile(r"@@ -(?P<old>\d+)(?:,(?P<lost>\d+))? \+(?P<new>\d+)(?:,(?P<won>\d+))? @@")
_TITLE = re.compile(r"(?:changed|created|deleted|moved) \S")
_NOTE = re.compile(r"warning: |\[syntax error: |\[\d+ lines became \d+\]")
_MORE = re.compile(r"\[… (\d+) more lines of the diff\]")
_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")

Step = tuple[str, int, int, int, int]


class DiffLine(msgspec.Struct, frozen=True):
    """A line of a diff, safe for a terminal."""

    kind: Kind
    text: str = ""
    number: int = 0
    """Line number in the new file, or in the old file for a removed line; 0 if unknown.

    For `more`, the number of missing lines.
    """


def file_changes(call: CallInfo, result: str) -> list[DiffLine]:
    """Return the changes of a call; empty if no changed file is known."""
    match call.name:
        case "patch":
            return _patch_changes(call, result)
        case "write_file":
            return _write_changes(call, result)
        case "skill_manage" if call.text("action") == "patch":
            return diff_texts(call.text("old_string"), call.text("new_string"))
        case _:
            return []


def _patch_changes(call: CallInfo, result: str) -> list[DiffLine]:
    reported = list(parse_reported_diff(result))
    known = [line for line in reported if line.kind != "title"]
    if call.text("old_string") and not any(line.kind in ("added", "removed") for line in known):
        return [*known, *diff_texts(call.text("old_string"), call.text("new_string"))]
    new, lines = added_files(call.text("patch")), []
    for line in reported:
        lines.append(line)
        if line.kind == "title" and line.text.startswith("created "):
            lines += new.get(line.text.removeprefix("created "), [])
    if len(reported) - len(known) == 1:
        lines = [line for line in lines if line.kind != "title"]  # the call names its only file
    return lines


def _write_changes(call: CallInfo, result: str) -> list[DiffLine]:
    """The content of a new file is added; the old content of a replaced file is unknown."""
    kind: Kind = "added" if "created " in result.partition("\n")[0] else "same"
    notes = [_note(line) for line in result.split("\n") if _NOTE.match(line)]
    return [*number_lines(kind, call.text("content")), *notes]


def number_lines(kind: Kind, content: str) -> list[DiffLine]:
    lines, missing = _split_lines(content)
    shown = [_line(kind, text, at) for at, text in enumerate(lines, 1)]
    return [*shown, DiffLine("more", number=missing)] if missing else shown


def parse_reported_diff(result: str) -> Iterator[DiffLine]:
    """Parse the diff in a result of `patch`.

    Hunks end where their header says, so file contents are never taken for text of the tool.
    """
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
                yield DiffLine("gap")
            first = False
        elif more := _MORE.fullmatch(text):
            lost = won = 0
            yield DiffLine("more", number=int(more[1]))
        elif _TITLE.match(text):
            first = True
            yield DiffLine("title", _safe(text))
        elif _NOTE.match(text):
            yield _note(text)


def added_files(patch: str) -> dict[str, list[DiffLine]]:
    """Return the contents of the new files in a patch, by path."""
    files: dict[str, list[str]] = {}
    content: list[str] | None = None
    for text in patch.split("\n"):
        if section := _SECTION.match(text):
            path = section[2].strip()
            content = files.setdefault(path, []) if section[1] == "Add" else None
        elif content is not None and text.startswith("+"):
            content.append(text[1:])
    return {path: number_lines("added", "\n".join(lines)) for path, lines in files.items()}


def diff_texts(before: str, after: str) -> list[DiffLine]:
    """Return the diff of two fragments, without line numbers."""
    (old, cut_old), (new, cut_new) = _split_lines(before), _split_lines(after)
    lines: list[DiffLine] = []
    for kind, i, j, k, m in diff_steps(old, new, MAX_COMPARED_LINES):
        lines += [_line("same" if kind == "equal" else "removed", text) for text in old[i:j]]
        if kind != "equal":
            lines += [_line("added", text) for text in new[k:m]]
    missing = cut_old + cut_new
    return [*lines, DiffLine("more", number=missing)] if missing else lines


def diff_steps(old: Sequence[str], new: Sequence[str], most: int) -> list[Step]:
    """Return the opcodes of `difflib` that turn `old` into `new`."""
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(left) * len(right) > most:
        middle = [("replace", 0, len(left), 0, len(right))]
    else:
        middle = [*difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes()]
    moved = [(kind, i + head, j + head, k + head, m + head) for kind, i, j, k, m in middle]
    ends = [("equal", 0, head, 0, head)] if head else []
    rest = (len(old) - tail, len(old), len(new) - tail, len(new))
    return [*ends, *moved, ("equal", *rest)]


def _common_prefix(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = zip(old, new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _split_lines(text: str) -> tuple[list[str], int]:
    """Return the lines of a text and the number of lines left out."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines[:MAX_LINES], max(0, len(lines) - MAX_LINES)


def _note(text: str) -> DiffLine:
    return DiffLine("note", _safe(text.strip("[]")))


def _line(kind: Kind, text: str, number: int = 0) -> DiffLine:
    return DiffLine(kind, _safe(text), number)


def _safe(text: str) -> str:
    return safe(text[:MAX_LINE_CHARS].rstrip("\r")).replace("\n", " ")


Range = tuple[int, int]
_MARKS = "[\u0300-\u036f\ufe0f\U0001f3fb-\U0001f3ff]*"
_WORD = re.compile(rf"[0-9A-Za-z_\u00c0-\u2e7f]+|\s+|(?:\S{_MARKS}\u200d)*\S{_MARKS}")
"""Words, spaces and single characters; an emoji of several parts is one."""


def changed_words(lines: Sequence[DiffLine]) -> dict[int, list[Range]]:
    """Return the changed ranges of lines that replace each other, by index of the line."""
    found: dict[int, list[Range]] = {}
    at = 0
    while at < len(lines):
        removed = _run_length(lines, at, "removed")
        added = _run_length(lines, at + removed, "added") if removed else 0
        for old in range(at, at + min(removed, added)):
            new = old + removed
            if pair := changed_ranges(lines[old].text, lines[new].text):
                found[old], found[new] = pair
        at += removed + added or 1
    return found


def _run_length(lines: Sequence[DiffLine], start: int, kind: str) -> int:
    return sum(1 for _ in takewhile(lambda line: line.kind == kind, lines[start:]))


def changed_ranges(before: str, after: str) -> tuple[list[Range], list[Range]] | None:
    """Return the differing ranges; None when the lines have too little in common."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    # Lines with more than 2,500 pairs of words count as changed completely.
    differing = [step for step in diff_steps(old, new, 2_500) if step[0] != "equal"]
    ranges = (
        _ranges(old, [(i, j) for _, i, j, _, _ in differing]),
        _ranges(new, [(k, m) for _, _, _, k, m in differing]),
    )
    longest = max(len(before), len(after), 1)
    most = max(sum(end - start for start, end in each) for each in ranges)
    return ranges if 1 - most / longest >= 0.35 else None


def _ranges(words: Sequence[str], changed: Sequence[Range]) -> list[Range]:
    """Convert word ranges to character ranges; ranges separated by a space are joined."""
    joined: list[Range] = []
    for first, last in changed:
        if first == last:
            continue
        if joined and "".join(words[joined[-1][1] : first]).isspace():
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    starts = list(accumulate(map(len, words), initial=0))
    return [(starts[first], starts[last]) for first, last in joined]


_SIGNS: Mapping[Kind, str] = {"added": "+", "removed": "-", "same": " "}
_ROLES: Mapping[Kind, str] = {
    "added": "added", "removed": "removed", "same": "dim", "title": "strong", "note": "warn",
}  # fmt: skip


def diff_rows(
    lines: Sequence[DiffLine], columns: int, paint: Paint, most: int, *, whole: bool
) -> list[str]:
    """Return at most `most` rows, plus one with the number of remaining lines.

    Long lines are cut, or wrapped with `whole`.
    """
    missing = sum(line.number for line in lines if line.kind == "more")
    lines = [line for line in lines if line.kind != "more"]
    shown, words = lines[:most], changed_words(lines[:most])
    digits = len(str(max((line.number for line in shown), default=0) or ""))
    # Line numbers are left out if less than 10 columns would remain for the text.
    gutter = digits if columns - len(INDENT) - digits - 3 >= 10 else 0
    rows: list[str] = []
    for at, line in enumerate(shown):
        found = list(_line_rows(line, words.get(at, []), gutter, columns, paint, whole=whole))
        if len(rows) + len(found) > most:
            shown = shown[:at]
            break
        rows += found
    missing += len(lines) - len(shown)
    return [*rows, more_line(missing, columns, paint)] if missing else rows


def _line_rows(
    line: DiffLine, words: Sequence[Range], digits: int, columns: int, paint: Paint, *, whole: bool
) -> Iterator[str]:
    sign = _SIGNS.get(line.kind)
    room = columns - len(INDENT)
    if sign is None:
        text = "⋮" if line.kind == "gap" else line.text
        yield INDENT + paint(_ROLES.get(line.kind, "dim"), cut(text, room))
        return
    number = f"{line.number or '':>{digits}} " if digits else ""
    role, room = _ROLES[line.kind], room - len(number) - 2
    text = line.text if whole else cut(line.text, room)
    strong = reverse_paint(paint, role)
    for start, end in break_ranges(text, room, room):
        dressed = "".join(
            strong(text[a:b]) if changed else paint(role, text[a:b])
            for a, b, changed in _pieces(start, end, words)
        )
        yield INDENT + paint("dim", number) + paint(role, f"{sign} ") + dressed
        number, sign = " " * len(number), " "


def _pieces(start: int, end: int, words: Sequence[Range]) -> Iterator[tuple[int, int, bool]]:
    """Split the range `start` to `end` at the boundaries of changed words."""
    at = start
    for first, last in words:
        first, last = max(first, at), min(last, end)
        if first < last:
            yield at, first, False
            yield first, last, True
            at = last
    yield at, end, False


def reverse_paint(paint: Paint, role: str) -> Callable[[str], str]:
    """Return a painter with the inverted colour of a role, for changed words."""
    code = escape_codes(f"{paint.colours.get(role, '')} reverse", paint.depth)
    return lambda text: f"\x1b[{code}m{text}\x1b[0m" if code and text else text
