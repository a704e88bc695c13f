"""Parsing a patch over several files, and locating its hunks.

The formats are `*** Begin Patch` and the unified diff.
"""

import re
from collections.abc import Sequence
from typing import Literal, NoReturn

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.tools.editing import matching
from hermes.tools.editing.document import Edit, TextLines
from hermes.tools.editing.matching import (
    LINE_MATCHERS,
    LineAlignment,
    LineMatcher,
    merge_change,
    normalize_line,
    number_lines,
)
from hermes.util.lazy import late_pattern

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, UPDATE, DELETE = "*** Add File:", "*** Update File:", "*** Delete File:"
MOVE, END_OF_FILE = "*** Move to:", "*** End of File"
NO_FILE = "/dev/null"
HINT = (
    "a patch is `*** Begin Patch`, then for each file `*** Add File: P` (lines with +), "
    "`*** Update File: P` (`@@` hunks of lines with space, - or +) or `*** Delete File: P`, "
    "then `*** End Patch`"
)


class Hunk(msgspec.Struct, frozen=True):
    old: list[str]  #: Context lines and removed lines.
    new: list[str]  #: Context lines and added lines.
    headers: tuple[str, ...] = ()
    """Lines of the file above the hunk, from `@@ line`, outermost first."""
    line: int = 0  #: First line according to a unified diff, from 1; 0 when unknown.
    at_end: bool = False  #: True when the hunk ends at the end of the file.
    ended: bool | None = None
    """Whether the file ends with a line feed afterwards; None when unknown."""


class PatchSection(msgspec.Struct, frozen=True):
    """The change of one file."""

    kind: Literal["add", "update", "delete"]
    path: str
    hunks: tuple[Hunk, ...] = ()
    content: str = ""  #: The content of a new file.
    move_to: str = ""

    @property
    def paths(self) -> list[str]:
        return [self.path, self.move_to] if self.move_to else [self.path]


def parse_patch(text: str) -> list[PatchSection]:
    """Return the sections of a patch, in order; raises `ToolArgumentsInvalid`."""
    lines = text.split("\n")
    stripped = [line.strip() for line in lines]
    if BEGIN in stripped:
        sections = _EnvelopeParser(lines, stripped).sections()
    elif any(line.startswith("--- ") for line in lines) or "rename from" in text:
        sections = _UnifiedParser(lines).sections()
    else:
        raise ToolArgumentsInvalid("this is not a patch", hint=HINT)
    if not sections:
        raise ToolArgumentsInvalid("the patch changes nothing", hint=HINT)
    return sections


def _make_hunk(lines: Sequence[str], **fields: object) -> Hunk:
    """Make a hunk from lines with their signs; trailing lines without a sign are dropped."""
    body = list(lines)
    while body and not body[-1]:
        body.pop()
    old = [line[1:] for line in body if line[:1] != "+"]
    new = [line[1:] for line in body if line[:1] != "-"]
    return msgspec.structs.replace(Hunk(old, new), **fields)


class _EnvelopeParser:
    def __init__(self, lines: list[str], stripped: list[str]) -> None:
        first = stripped.index(BEGIN)
        if END not in stripped[first:]:
            raise ToolArgumentsInvalid(
                f"the patch has no `{END}`: it may have been cut off", hint="send all of it again"
            )
        self._lines = lines[: stripped.index(END, first)]
        self._next = first + 1

    def sections(self) -> list[PatchSection]:
        found: list[PatchSection] = []
        while self._next < len(self._lines):
            line = self._lines[self._next]
            self._next += 1
            if line.startswith(ADD):
                body = self._body()
                while body and not body[-1].strip():
                    body.pop()
                for added in body:
                    if added and not added.startswith("+"):
                        self._wrong(added, "of a new file must begin with +")
                content = "".join(f"{added[1:]}\n" for added in body)
                found.append(PatchSection("add", _header_path(line, ADD), content=content))
            elif line.startswith(DELETE):
                found.append(PatchSection("delete", _header_path(line, DELETE)))
            elif line.startswith(UPDATE):
                found.append(self._update(_header_path(line, UPDATE)))
            elif line.strip():
                self._wrong(line, "is not a file header")
        return found

    def _body(self) -> list[str]:
        """Return the lines up to the next file header."""
        start = self._next
        while self._next < len(self._lines) and not self._lines[self._next].startswith(
            (ADD, UPDATE, DELETE)
        ):
            self._next += 1
        return self._lines[start : self._next]

    def _update(self, path: str) -> PatchSection:
        body = self._body()
        move_to = ""
        if body and body[0].startswith(MOVE):
            move_to = _header_path(body.pop(0), MOVE)
        hunks: list[Hunk] = []
        headers: list[str] = []
        lines: list[str] = []

        def finish(*, at_end: bool = False) -> None:
            if any(lines) or (headers and at_end):
                hunks.append(_make_hunk(lines, headers=tuple(headers), at_end=at_end))
                headers.clear()
            lines.clear()

        for line in body:
            if line.startswith("@@"):
                finish()
                numbers = _RANGE.match(line)  # line numbers have no meaning in this format
                header = (numbers[3] if numbers else line[2:].removesuffix("@@")).strip()
                headers += [header] if header else []
            elif line.startswith(END_OF_FILE):
                finish(at_end=True)
            elif line[:1] in ("", " ", "+", "-"):
                lines.append(line)
            else:
                self._wrong(line, "begins with neither space, + nor -")
        finish()
        if not hunks and not move_to:
            raise ToolArgumentsInvalid(f"the update of {path} has no hunk", hint=HINT)
        return PatchSection("update", path, tuple(hunks), move_to=move_to)

    def _wrong(self, line: str, what: str) -> NoReturn:
        raise ToolArgumentsInvalid(f"the line {line[:80]!r} of the patch {what}", hint=HINT)


def _header_path(line: str, header: str) -> str:
    path = line[len(header) :].strip()
    if not path:
        raise ToolArgumentsInvalid(f"`{header}` names no file", hint=HINT)
    return path


_RANGE = late_pattern(r"@@+ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@+ ?(.*)")


class _UnifiedParser:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def sections(self) -> list[PatchSection]:
        starts = [n for n in range(len(self._lines)) if self._is_header(n)]
        olds = [line[12:].strip() for line in self._lines if line.startswith("rename from ")]
        news = [line[10:].strip() for line in self._lines if line.startswith("rename to ")]
        renames = list(zip(olds, news, strict=False))
        found = [
            self._section(start, end)
            for start, end in zip(starts, [*starts[1:], len(self._lines)], strict=True)
        ]
        moved = {old for old, _ in renames}
        done = [
            msgspec.structs.replace(section, move_to=dict(renames)[section.path])
            if section.path in moved and not section.move_to
            else section
            for section in found
        ]
        alone = moved - {section.path for section in found}
        return done + [
            PatchSection("update", old, move_to=new) for old, new in renames if old in alone
        ]

    def _is_header(self, number: int) -> bool:
        """True for a file header: a removed line `-- x` looks alike, but lacks `+++` and a hunk."""
        after = [*self._lines[number + 1 : number + 3], "", ""]
        return (
            self._lines[number].startswith("--- ")
            and after[0].startswith("+++ ")
            and (after[1].startswith("@@") or not after[1].strip())
        )

    def _section(self, start: int, end: int) -> PatchSection:
        old, new = self._name(start), self._name(start + 1)
        if old.startswith(("a/", NO_FILE)) and new.startswith(("b/", NO_FILE)):
            old, new = old.removeprefix("a/"), new.removeprefix("b/")
        hunks = self._hunks(start + 2, end)
        if old == NO_FILE:
            lines = [line for hunk in hunks for line in hunk.new]
            unended = any(hunk.ended is False for hunk in hunks)
            return PatchSection("add", new, content="\n".join(lines) + ("" if unended else "\n"))
        if new == NO_FILE:
            return PatchSection("delete", old)
        if not hunks:
            raise ToolArgumentsInvalid(f"the diff of {old} has no hunk", hint=HINT)
        return PatchSection("update", old, tuple(hunks), move_to=new if new != old else "")

    def _name(self, number: int) -> str:
        return self._lines[number][4:].partition("\t")[0].strip().strip('"')

    def _hunks(self, start: int, end: int) -> list[Hunk]:
        hunks: list[Hunk] = []
        body: list[str] = []
        numbers: re.Match[str] | None = None
        for line in [*self._lines[start:end], "@@ end"]:
            if line.startswith("@@"):
                if numbers is not None:
                    hunks.append(_numbered_hunk(body, numbers))
                numbers, body = _RANGE.match(line), []
                if numbers is None and line != "@@ end":
                    raise ToolArgumentsInvalid(
                        f"{line[:80]!r} is not a hunk header", hint="write @@ -1,3 +1,4 @@"
                    )
            elif line[:1] in ("", " ", "+", "-", "\\"):
                body.append(line)
            elif not line.startswith(_GIT_LINES):
                raise ToolArgumentsInvalid(
                    f"the line {line[:80]!r} of the diff begins with neither space, + nor -"
                )
        return hunks


_GIT_LINES = (
    "diff ", "index ", "new file", "deleted file", "similarity", "rename ", "old mode", "new mode",
    "Binary files", "```",
)  # fmt: skip
"""Lines that git writes between two files."""


def _numbered_hunk(body: list[str], numbers: re.Match[str]) -> Hunk:
    unended = [n for n, line in enumerate(body) if line.startswith("\\")]
    # The mark follows the last line of one side or of both.
    ended = body[unended[-1] - 1][:1] == "-" if unended else None
    lines = [line for line in body if not line.startswith("\\")]
    line = int(numbers[1]) + (numbers[2] == "0")
    return _make_hunk(lines, line=line, ended=ended, at_end=bool(unended))


HUNK_MATCHERS = (LineMatcher("", lambda line: line), *LINE_MATCHERS)
SHOWN_PLACES = 20


def locate_hunks(text: str, hunks: Sequence[Hunk]) -> tuple[list[Edit], list[str]]:
    """Return the edits of all hunks, and the differences that were ignored to find them.

    Raises `ToolError` for the first hunk whose place is missing or ambiguous.
    """
    target = TextLines(text)
    search = _HunkLocator(target)
    edits = [search.hunk(number, hunk) for number, hunk in enumerate(hunks, 1)]
    return edits, sorted(search.ignored)


class _HunkLocator:
    """Locates hunks in order; each is searched for below the previous one first."""

    def __init__(self, target: TextLines) -> None:
        self._target = target
        self._taken: list[range] = []
        self._below = 0
        self._drift = 0
        self.ignored: set[str] = set()

    def hunk(self, number: int, hunk: Hunk) -> Edit:
        if hunk.old == hunk.new:
            raise ToolError(f"hunk {number} changes nothing")
        start = self.after_headers(number, hunk.headers)
        hunk = _without_blank_ends(hunk)
        if not hunk.old:
            return self._insert(hunk, start)
        first = self._place(number, hunk, start)
        found = self._target.lines[first : first + len(hunk.old)]
        lines = merge_change(LineAlignment.one_to_one(hunk.old, found), hunk.new)
        if lines is None:  # cannot happen: every line is aligned
            raise ToolError(f"hunk {number} cannot be carried over")
        self._taken.append(range(first, first + len(hunk.old)))
        self._below = first + len(hunk.old)
        return self._target.replace_lines(first, self._below, lines, ended=hunk.ended)

    def after_headers(self, number: int, headers: Sequence[str]) -> int:
        """Return the line below the last header; each is searched for below the previous one."""
        start = self._below
        for header in headers:
            keys = [normalize_line(line) for line in self._target.lines]
            wanted = normalize_line(header)
            below = [n for n in range(start, len(keys)) if keys[n] == wanted] or [
                n for n in range(start, len(keys)) if wanted in keys[n]
            ]
            if not below and not self._taken:
                raise ToolError(
                    f"hunk {number}: there is no line {header!r}",
                    hint="write a line of the file behind @@, or leave it out",
                )
            if not below:
                # From the top: the hunk is above the previous one.
                return _HunkLocator(self._target).after_headers(number, headers)
            start = below[0] + 1
        return start

    def _insert(self, hunk: Hunk, start: int) -> Edit:
        """Insert lines where the diff says, below the header, or at the end of the file."""
        place = len(self._target.lines)
        if hunk.line and not hunk.at_end:
            place = min(hunk.line - 1, place)
        elif hunk.headers:
            place = start
        self._below = place
        return self._target.replace_lines(place, place, hunk.new, ended=hunk.ended)

    def _place(self, number: int, hunk: Hunk, start: int) -> int:
        lines = self._target.lines
        for look in HUNK_MATCHERS:
            found = [place for place in look.find_all(lines, hunk.old) if self._free(place, hunk)]
            if hunk.at_end:
                found = [place for place in found if place + len(hunk.old) == len(lines)] or found
            if not found:
                continue
            place = self._choose(number, hunk, found, start)
            if look.name:
                self.ignored.add(look.name)
            if hunk.line:
                self._drift = place + 1 - hunk.line
            return place
        raise self._missing(number, hunk)

    def _free(self, place: int, hunk: Hunk) -> bool:
        end = place + len(hunk.old)
        return not any(place < taken.stop and taken.start < end for taken in self._taken)

    def _choose(self, number: int, hunk: Hunk, found: list[int], start: int) -> int:
        if len(found) == 1:
            return found[0]
        if hunk.line:
            nearest = sorted(found, key=lambda place: abs(place + 1 - hunk.line - self._drift))
            gaps = [abs(place + 1 - hunk.line - self._drift) for place in nearest[:2]]
            if gaps[0] < gaps[1]:
                return nearest[0]
        below = [place for place in found if place >= start]
        if len(below) == 1 or (below and hunk.headers):
            return below[0]
        numbers = ", ".join(str(place + 1) for place in found[:SHOWN_PLACES])
        raise ToolError(
            f"hunk {number} fits {len(found)} places: lines {numbers}",
            hint="add lines of context, or `@@ line` with a line above the right place",
        )

    def _missing(self, number: int, hunk: Hunk) -> ToolError:
        lines = self._target.lines
        span = matching.closest_block(lines, hunk.old)
        closest = f"; the closest is\n{number_lines(lines, *span)}" if span else ""
        return ToolError(
            f"the lines of hunk {number} are not in the file{closest}",
            hint="copy context and removed lines from the file as they are",
        )


def _without_blank_ends(hunk: Hunk) -> Hunk:
    """Drop blank context lines around a hunk: models often invent them."""
    old, new = list(hunk.old), list(hunk.new)
    while len(old) > 1 and new and not old[0].strip() and not new[0].strip():
        old, new = old[1:], new[1:]
    while len(old) > 1 and new and not old[-1].strip() and not new[-1].strip():
        old, new = old[:-1], new[:-1]
    return Hunk(old, new, hunk.headers, hunk.line, hunk.at_end, hunk.ended)
