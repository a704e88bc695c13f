"""The tool calls of a turn: running, finished and stopped, with changes of files as diffs."""

import difflib
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, takewhile
from typing import Any, Literal

import msgspec

from hermes.core.approval_text import BEGIN, visible_line
from hermes.core.events import (
    SubagentFinished,
    SubagentProgress,
    SubagentStarted,
    ToolFinished,
    ToolOutput,
    ToolStarted,
)
from hermes.core.messages import ToolCall
from hermes.tui.markdown.code import find_file_highlighter, syntax_colours
from hermes.tui.markdown.parser import Roles, Run
from hermes.tui.skins import DisplayState, Level
from hermes.tui.text import (
    TAB,
    Depth,
    Paint,
    Rgb,
    break_ranges,
    cut,
    escape_codes,
    format_duration,
    is_light,
    one_line,
    safe,
    width,
)
from hermes.tui.tool_results import (
    INDENT,
    CallInfo,
    Mark,
    ToolOutcome,
    as_text,
    complete_text,
    count_lines,
    cut_rows,
    describe_call,
    headline,
    more_line,
    parse_call,
    parse_outcome,
    parse_tasks,
    todo_rows,
    wrap_rows,
)
from hermes.util.text import many

# Changes of files, read from the result of the call or, failing that, from its arguments.

DiffKind = Literal["same", "added", "removed", "gap", "title", "note", "more"]
NO_FILE = "/dev/null"  #: The name of a file that does not exist, in the head of a diff.
MAX_DIFF_LINES = 2_000  #: Lines of a diff that are used.
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
    kind: DiffKind
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
            # The content of a new file is added; the old content of a replaced file is unknown.
            kind: DiffKind = "added" if "created " in result.partition("\n")[0] else "same"
            notes = [_note(line) for line in result.split("\n") if _NOTE.match(line)]
            return [*number_lines(kind, call.text("content")), *notes]
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


def number_lines(kind: DiffKind, content: str) -> list[DiffLine]:
    lines, missing = _split_lines(content)
    shown = [_diff_line(kind, text, at) for at, text in enumerate(lines, 1)]
    return [*shown, DiffLine("more", number=missing)] if missing else shown


def parse_reported_diff(
    result: str, clean: Callable[[str], str] | None = None
) -> Iterator[DiffLine]:
    """Parse the diff in a result of `patch`, or in a question about an edit.

    Hunks end where their header says, so file contents are never taken for text of the tool.
    `clean` makes a line safe for the terminal.
    """
    clean = clean or _safe
    old = new = lost = won = 0
    first, source = True, ""
    for text in result.split("\n"):
        sign = text[:1]
        if (lost or won) and sign in ("-", "+", " ", ""):
            kind: DiffKind = "removed" if sign == "-" else "added" if sign == "+" else "same"
            yield DiffLine(kind, clean(text[1:]), old if kind == "removed" else new)
            old, lost = (old + 1, lost - 1) if kind != "added" else (old, lost)
            new, won = (new + 1, won - 1) if kind != "removed" else (new, won)
            lost, won = max(lost, 0), max(won, 0)
        elif hunk := _HUNK.match(text):
            old, new = int(hunk["old"]), int(hunk["new"])
            lost, won = int(hunk["lost"] or 1), int(hunk["won"] or 1)
            if not first:
                yield DiffLine("gap")
            first = False
        elif text.startswith("--- "):
            first, source = True, text[4:]
        elif text.startswith("+++ "):
            created, deleted = source == NO_FILE, text[4:] == NO_FILE
            verb = "create" if created else "delete" if deleted else "change"
            yield DiffLine("title", clean(f"{verb} {source if deleted else text[4:]}"))
        elif more := _MORE.fullmatch(text):
            lost = won = 0
            yield DiffLine("more", number=int(more[1]))
        elif _TITLE.match(text):
            first = True
            yield DiffLine("title", _safe(text))
        elif _NOTE.match(text):
            yield _note(text)


def added_files(patch: str) -> dict[str, list[DiffLine]]:
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
        lines += [_diff_line("same" if kind == "equal" else "removed", text) for text in old[i:j]]
        if kind != "equal":
            lines += [_diff_line("added", text) for text in new[k:m]]
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
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines[:MAX_DIFF_LINES], max(0, len(lines) - MAX_DIFF_LINES)


def _note(text: str) -> DiffLine:
    return DiffLine("note", _safe(text.strip("[]")))


def _diff_line(kind: DiffKind, text: str, number: int = 0) -> DiffLine:
    return DiffLine(kind, _safe(text), number)


def _safe(text: str) -> str:
    return safe(text[:MAX_LINE_CHARS].rstrip("\r")).replace("\n", " ")


Range = tuple[int, int]
Piece = tuple[str, Roles, bool]  #: A text, the roles of its syntax, and whether it was changed.
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


EXPAND_HINT = " · ctrl-o shows all"
_SIGNS: Mapping[DiffKind, str] = {"added": "+", "removed": "-", "same": " "}
_DIFF_ROLES: Mapping[DiffKind, str] = {
    "added": "added", "removed": "removed", "same": "dim", "title": "strong", "note": "warn",
}  # fmt: skip
_BANDS: Mapping[str, Mapping[DiffKind, tuple[Rgb, Rgb]]] = {
    "dark": {"added": ((20, 48, 31), (33, 88, 52)), "removed": ((58, 24, 29), (112, 41, 48))},
    "light": {
        "added": ((221, 246, 226), (164, 228, 178)),
        "removed": ((253, 229, 228), (250, 187, 184)),
    },
}
"""Backgrounds of changed lines, and of the changed words in them."""
_BAND_TEXT = {
    "dark": {"text": "#d5dae0", "dim": "#8d949c"},
    "light": {"text": "#24292f", "dim": "#656d76"},
}


class DiffPainter:
    """Paints the text of diff lines.

    With 256 colours or more, changed lines have a background and the syntax colours of the file
    at `path`; a terminal with fewer colours shows them in the colour of their kind.
    """

    def __init__(self, paint: Paint, path: str = "") -> None:
        self.paint = paint
        self._path = path
        self._bands: dict[DiffKind, tuple[Paint, Paint]] = {}
        if paint.depth >= Depth.INDEXED and "#" in paint.colours["added"]:
            behind = paint.background
            kind_of_band = "light" if is_light(behind) else "dark"
            syntax = syntax_colours(paint.depth, behind)
            colours = {**syntax, **_BAND_TEXT[kind_of_band]}
            self._bands = {
                kind: (paint.on(line, colours), paint.on(words, colours))
                for kind, (line, words) in _BANDS[kind_of_band].items()
            }
            self._plain = Paint({**syntax, **paint.colours}, paint.depth, background=behind)
        self.restart()

    def restart(self, path: str = "") -> None:
        """Forget the state of the syntax, before lines that do not follow the last ones or are of
        another file."""
        self._path = path or self._path
        find = find_file_highlighter if self._bands else lambda _path: None
        self._before, self._after = find(self._path), find(self._path)

    def runs(self, line: DiffLine) -> list[Run]:
        """Return the text of the next line with the roles of its syntax."""
        if self._before is None or self._after is None:
            return [(line.text, ())]
        found = self._before.line(line.text) if line.kind != "added" else []
        return self._after.line(line.text) if line.kind != "removed" else found

    def row(self, line: DiffLine, head: tuple[str, str], pieces: Iterable[Piece], room: int) -> str:
        """Return a row: number and sign, then pieces of the text; bands have `room` columns."""
        number, sign = head
        if line.kind not in self._bands:
            paint, role = self.paint, _DIFF_ROLES[line.kind]
            strong = reverse_paint(paint, role)
            if self._bands:
                text = "".join(self._plain((*roles, "text")[0], text) for text, roles, _ in pieces)
            else:
                text = "".join(
                    strong(text) if changed else paint(role, text) for text, _, changed in pieces
                )
            return paint("dim", number) + paint(role, sign) + text
        normal, changed_words = self._bands[line.kind]
        shown, used = [normal("dim", number) + normal(_DIFF_ROLES[line.kind], sign)], 0
        for text, roles, changed in pieces:
            painter = changed_words if changed else normal
            shown.append(painter((*roles, "text")[0], text))
            used += width(text)
        return "".join(shown) + normal("text", " " * (room - used))


def diff_rows(
    lines: Sequence[DiffLine], columns: int, paint: Paint, most: int, *, whole: bool, path: str = ""
) -> list[str]:
    """Return at most `most` rows, plus one with the number of remaining lines.

    Long lines are cut, or wrapped with `whole`. `path` names the file, for its syntax colours.
    """
    missing = sum(line.number for line in lines if line.kind == "more")
    lines = [line for line in lines if line.kind != "more"]
    shown, words = lines[:most], changed_words(lines[:most])
    digits = len(str(max((line.number for line in shown), default=0) or ""))
    # Line numbers are left out if less than 10 columns would remain for the text.
    gutter = digits if columns - len(INDENT) - digits - 3 >= 10 else 0
    rows: list[str] = []
    painter = DiffPainter(paint, path)
    room = columns - len(INDENT) - (gutter and gutter + 1) - 2
    # Bands are as wide as the longest line.
    room = min(room, max((width(line.text) for line in shown if line.number), default=room) + 1)
    for at, line in enumerate(shown):
        if line.kind in _SIGNS:
            found = list(_line_rows(line, words.get(at, []), gutter, room, painter, whole=whole))
        else:
            painter.restart(line.text.partition(" ")[2] if line.kind == "title" else "")
            text = cut("⋮" if line.kind == "gap" else line.text, columns - len(INDENT))
            found = [INDENT + paint(_DIFF_ROLES.get(line.kind, "dim"), text)]
        if len(rows) + len(found) > most:
            shown = shown[:at]
            break
        rows += found
    missing += len(lines) - len(shown)
    hint = EXPAND_HINT if len(shown) < len(lines) else ""
    return [*rows, more_line(missing, columns, paint, hint)] if missing else rows


def unified_diff_rows(diff: str, columns: int, paint: Paint) -> list[str]:
    """Return the rows of a diff of git: a title for each file, and its changes."""
    rows: list[str] = []
    for part in re.split(r"(?m)^diff --git ", diff)[1:]:
        head, hunk, body = part.partition("\n@@ ")
        name = head.partition("\n")[0].rpartition(" b/")[2]
        state = next((word for word in ("new", "deleted") if f"\n{word} file mode" in head), "")
        lines = list(parse_reported_diff(f"@@ {body}")) if hunk else []
        note = "" if hunk else head.rpartition("\n")[2] if "Binary" in head else ""
        title = " ".join(filter(None, (_safe(name), f"({state})" if state else "", note)))
        rows += [paint("strong", cut(title, columns))]
        rows += diff_rows(lines, columns, paint, MAX_DIFF_LINES, whole=False, path=name)
    return rows


def question_diff_rows(
    diff: str, columns: int, paint: Paint, most: int
) -> tuple[list[str], bool] | None:
    """Return the rows of the diff in a question, and whether some are left out.

    The text comes from the model: characters that cannot be seen are escaped, and each row has the
    margin of a subject, which text of Hermes never has. Of a long diff the beginning and the end
    are shown. Returns None for a text with lines that are not part of a diff.
    """

    def clean(text: str) -> str:
        body = text.lstrip(" \t")
        return text[: len(text) - len(body)].expandtabs(TAB) + visible_line(body)

    lines = list(parse_reported_diff(diff, clean))
    kinds = [line.kind for line in lines]
    hunks = kinds.count("gap") + kinds.count("title")
    if len(lines) - kinds.count("gap") + kinds.count("title") + hunks != diff.count("\n") + 1:
        return None
    last = (most - 1) * 2 // 5 or 1
    first, missing = most - 1 - last, len(lines) - most
    if missing > 0:
        note = DiffLine("note", f"… {many(len(lines) - first - last, 'line')} not shown …")
        lines = [*lines[:first], note, *lines[-last:]]
    room = columns - len(BEGIN) + len(INDENT)
    rows = diff_rows(lines, room, paint, sys.maxsize, whole=True)
    if len(rows) > most:  # long lines take several rows
        missing += len(rows) - most
        text = f"… {many(len(rows) - first - last, 'row')} not shown …"
        rows = [*rows[:first], INDENT + paint("warn", text), *rows[-last:]]
    return [paint("dim", BEGIN) + row[len(INDENT) :] for row in rows], missing > 0


def _line_rows(
    line: DiffLine,
    words: Sequence[Range],
    digits: int,
    room: int,
    painter: DiffPainter,
    *,
    whole: bool,
) -> Iterator[str]:
    number = f"{line.number or '':>{digits}} " if digits else ""
    sign = f"{_SIGNS[line.kind]} "
    runs = painter.runs(line)
    text = line.text if whole else cut(line.text, room)
    for start, end in break_ranges(text, room, room):
        pieces = _pieces(text, runs, words, start, end)
        yield INDENT + painter.row(line, (number, sign), pieces, room)
        number, sign = " " * len(number), "  "


def _pieces(
    text: str, runs: Sequence[Run], words: Sequence[Range], start: int, end: int
) -> Iterator[Piece]:
    """Split the range at the boundaries of runs and of changed words. The text of the runs may
    differ after a cut."""
    edges = {start, end, *accumulate(len(run) for run, _ in runs)}
    edges |= {edge for word in words for edge in word}
    inner = sorted(edge for edge in edges if start <= edge <= end)
    roles = [(at, each) for at, (_, each) in zip(_starts(runs), runs, strict=True)]
    for first, last in pairwise(inner):
        role = next((each for at, each in reversed(roles) if at <= first), ())
        yield text[first:last], role, any(a <= first < b for a, b in words)


def _starts(runs: Sequence[Run]) -> list[int]:
    return [0, *accumulate(len(run) for run, _ in runs[:-1])] if runs else []


def reverse_paint(paint: Paint, role: str) -> Callable[[str], str]:
    """Return a painter with the inverted colour of a role, for changed words."""
    code = escape_codes(f"{paint.colours.get(role, '')} reverse", paint.depth)
    return lambda text: f"\x1b[{code}m{text}\x1b[0m" if code and text else text


# Calls.

MAX_ROWS = 8  #: Rows of all running calls together.
MAX_OUTPUT_CHARS = 4_000  #: Characters of output that are kept in memory.


SubagentEvent = SubagentStarted | SubagentProgress | SubagentFinished


class RunningCall:
    """A running call. Its time starts when it is first painted."""

    def __init__(self, call: ToolCall) -> None:
        self.call = parse_call(call)
        self._began: float | None = None
        self._output = ""
        self._children: dict[int, str] = {}

    def add_output(self, text: str) -> None:
        self._output = (self._output + text[-MAX_OUTPUT_CHARS:])[-MAX_OUTPUT_CHARS:]

    def subagent(self, event: SubagentEvent) -> None:
        if isinstance(event, SubagentFinished):
            text = f"{event.status}, {format_duration(event.seconds)}"
        else:
            text = event.goal if isinstance(event, SubagentStarted) else event.text
        self._children[event.child] = text[:MAX_OUTPUT_CHARS]

    def head(self, display: DisplayState, columns: int, now: float) -> str:
        began = self._began = now if self._began is None else self._began
        return headline(self.call, display, columns, [f"{max(0, int(now - began))} s"])

    def below(self, display: DisplayState, columns: int, most: int) -> list[str]:
        """Return the rows of its subagents, or its last lines of output."""
        room = columns - len(INDENT)
        if self._children:
            children = sorted(self._children.items())[:most]
            few = [one_line(f"[{child + 1}] {text}", room) for child, text in children]
        else:
            # Text before a carriage return is dropped, as on a screen.
            lines = (line.rstrip("\r").rpartition("\r")[2] for line in self._output.split("\n"))
            shown = [safe(line).replace("\n", " ").rstrip() for line in lines if line.strip()]
            few = [cut(line, room) for line in shown[-min(most, 3) :]] if most > 0 else []
        return [INDENT + display.paint("dim", line) for line in few]


def running_lines(
    calls: Iterable[RunningCall], display: DisplayState, columns: int, now: float
) -> list[str]:
    every = list(calls)
    few = every if len(every) <= MAX_ROWS else every[: MAX_ROWS - 1]
    room = MAX_ROWS - len(few) if display.activity != "hidden" else 0
    lines: list[str] = []
    for call in few:
        below = call.below(display, columns, room if len(few) == len(every) else 0)
        lines += [call.head(display, columns, now), *below]
        room -= len(below)
    if len(few) < len(every):
        more = cut(f"… +{len(every) - len(few)} more", columns - len(INDENT))
        lines.append(INDENT + display.paint("dim", more))
    return lines


LIMITS: Mapping[Level, tuple[int, int, int]] = {"collapsed": (4, 16, 16), "full": (40, 60, 40)}
"""Maximum rows of text, of a diff and of tasks. Collapsed results show a text only for errors."""


def result_rows(
    call: CallInfo,
    outcome: ToolOutcome,
    diff: Sequence[DiffLine],
    display: DisplayState,
    columns: int,
    level: Level,
) -> list[str]:
    if level not in LIMITS:
        return []
    (most_lines, most_diff, most_tasks), paint = LIMITS[level], display.paint
    if diff:
        path = describe_call(call)
        return diff_rows(diff, columns, paint, most_diff, whole=level == "full", path=path)
    if call.name == "todo" and parse_tasks(outcome.text):
        rows = todo_rows(outcome.text, columns - len(INDENT), paint, most_tasks)
        return [INDENT + row for row in rows]
    if outcome.error:
        return wrap_rows(outcome.text, columns, paint, "error", most_lines)
    if level == "collapsed":
        missing = outcome.lines - len(outcome.brief) if outcome.brief else 0
        more = [more_line(missing, columns, paint, EXPAND_HINT)] if missing > 0 else []
        return [*more, *cut_rows(outcome.brief, columns, paint, "dim")]
    return wrap_rows(outcome.text, columns, paint, "dim", most_lines) if outcome.text else []


def argument_rows(call: CallInfo, display: DisplayState, columns: int, *, diff: bool) -> list[str]:
    """Return the arguments as rows, without those that the diff shows."""
    left_out = ("old_string", "new_string", "content", "patch") if diff else ()
    given: Mapping[str, Any] = {"": call.unread} if call.unread else call.arguments
    lines = []
    for name, value in given.items():
        text, label = as_text(value), f"{one_line(name, 40)}:"
        if name in left_out:
            continue
        if "\n" in text.strip("\n"):
            lines += [label, *(f"  {line}" for line in text.strip("\n").split("\n"))]
        else:
            lines.append(f"{label} {text}" if name else text)
    whole = "\n".join(lines)
    return wrap_rows(whole, columns, display.paint, "text", LIMITS["full"][0]) if whole else []


MARKS: Mapping[Mark, tuple[str, str]] = {
    "ok": ("ok", "✓"),
    "failed": ("error", "✗"),
    "stopped": ("warn", "■"),
}
"""Role and symbol."""


MAX_FOLDED, MAX_FOLDED_CHARS = 50, 4_000_000  #: Results that can be expanded afterwards.
MAX_EXPANDED_ROWS = 5_000


class FoldedResult(msgspec.Struct, frozen=True):
    """A result that was not shown completely."""

    call: CallInfo
    outcome: ToolOutcome
    diff: tuple[DiffLine, ...]

    @property
    def title(self) -> str:
        return one_line(f"{self.call.name} {describe_call(self.call)}", 200)

    def rows(self, display: DisplayState, columns: int) -> list[str]:
        """Return the line of the call and the complete result."""
        paint, most = display.paint, MAX_EXPANDED_ROWS
        head = headline(self.call, display, columns, [self.outcome.note], MARKS[self.outcome.mark])
        if self.diff:
            path = describe_call(self.call)
            return [head, *diff_rows(self.diff, columns, paint, most, whole=True, path=path)]
        text = complete_text(self.outcome.text)
        return [head, *wrap_rows(text, columns, paint, "text", most)]


class ToolView:
    """Shows the tool calls of a turn: running ones in the area, finished ones as lines.

    `DisplayState` is read at each call, because commands may change it.
    """

    def __init__(self, display: DisplayState) -> None:
        self._display = display
        self._running: dict[str, RunningCall] = {}
        self._columns = 80
        self._last = ""
        self._repeats = 0
        self.folded: deque[FoldedResult] = deque(maxlen=MAX_FOLDED)
        """Results of this session that were not shown completely, the latest last."""

    def started(self, event: ToolStarted) -> None:
        self._running[event.call.id] = RunningCall(event.call)

    def output(self, event: ToolOutput) -> None:
        if (running := self._running.get(event.call_id)) is not None:
            running.add_output(event.text)

    def subagent(self, event: SubagentEvent) -> None:
        if (running := self._running.get(event.call_id)) is not None:
            running.subagent(event)

    def running(self, columns: int, now: float) -> list[str]:
        """Return the rows of the running calls. `now` is in seconds of any clock."""
        self._columns = columns
        if self._display.tool_progress == "off":
            return []
        return running_lines(self._running.values(), self._display, columns, now)

    def finished(self, event: ToolFinished, columns: int) -> list[str]:
        self._columns = columns
        running = self._running.pop(event.call_id, None)
        if self._display.tool_progress == "off":
            return []
        call = running.call if running is not None else CallInfo(event.name)
        outcome = parse_outcome(call, event)
        is_repeated = outcome.mark == "ok" and call.name == self._last
        if self._display.tool_progress == "new" and is_repeated:
            self._repeats += 1
            return []
        lines = [*self.flush_repeats(), *self._finished_lines(call, outcome, event)]
        self._last = call.name
        return lines

    def flush_repeats(self) -> list[str]:
        """Return the number of repeated calls of the last tool, with `tool_progress: new`.

        Called before other output and at the end of a turn.
        """
        repeats, self._repeats = self._repeats, 0
        if not repeats:
            return []
        text = f"and {many(repeats, 'more call')} of {self._last}"
        return [INDENT + self._display.paint("dim", one_line(text, self._columns - len(INDENT)))]

    def stop_all(self) -> list[str]:
        """Return lines for the calls that did not finish, and forget them."""
        calls = [running.call for running in self._running.values()]
        self._running.clear()
        if self._display.tool_progress == "off":
            return []
        stopped = [
            headline(call, self._display, self._columns, ["stopped"], MARKS["stopped"])
            for call in calls
        ]
        return [*self.flush_repeats(), *stopped]

    def _finished_lines(
        self, call: CallInfo, outcome: ToolOutcome, event: ToolFinished
    ) -> list[str]:
        display, columns = self._display, self._columns
        diff = file_changes(call, event.result) if outcome.mark == "ok" else []
        took = format_duration(event.seconds) if event.seconds >= 0.1 else ""
        kinds = [line.kind for line in diff]
        added, removed = kinds.count("added"), kinds.count("removed")
        counts = f"{f'+{added} ' if added else ''}{f'-{removed}' if removed else ''}".rstrip()
        notes = [(counts if "more" not in kinds else "") or outcome.note, took]
        shown = LIMITS["collapsed"][1] if diff else len(outcome.brief)
        if (len(diff) or outcome.lines or count_lines(outcome.text)) > shown:
            self.folded.append(FoldedResult(call, outcome, tuple(diff)))
            while sum(len(each.outcome.text) for each in self.folded) > MAX_FOLDED_CHARS:
                self.folded.popleft()
        lines = [headline(call, display, columns, notes, MARKS[outcome.mark])]
        if display.tool_progress == "verbose":
            lines += argument_rows(call, display, columns, diff=bool(diff))
            return [*lines, *result_rows(call, outcome, diff, display, columns, "full")]
        return [*lines, *result_rows(call, outcome, diff, display, columns, display.results)]
