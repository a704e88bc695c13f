"""A text file during an edit, unified diffs, and syntax checks.

`TextDocument` shows the text with plain line feeds and keeps the CRLF line ends, byte order mark
and invalid bytes of the file.
"""

import codecs
import json
import re
import sys
import threading
import warnings
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from hermes.core.errors import ToolArgumentsInvalid
from hermes.util.lazy import late_pattern

BOM = "\ufeff"  #: The byte order mark as a character.

_CRLF = late_pattern(r"\r\n")


class Edit(msgspec.Struct, frozen=True):
    """`text[start:end]` becomes `new`."""

    start: int
    end: int
    new: str


class TextDocument:
    """The text of a file. Bytes that are not UTF-8 become surrogate escapes and survive an edit."""

    def __init__(self, data: bytes) -> None:
        self.has_bom = data.startswith(codecs.BOM_UTF8)
        raw = data[len(codecs.BOM_UTF8) if self.has_bom else 0 :].decode("utf-8", "surrogateescape")
        self._raw = raw
        # Positions in `text` of line feeds that follow a carriage return in the file.
        self._crlf_positions = (
            [match.start() - number for number, match in enumerate(_CRLF.finditer(raw))]
            if "\r\n" in raw
            else []
        )
        self.text = raw.replace("\r\n", "\n") if self._crlf_positions else raw
        self.crlf = len(self._crlf_positions) * 2 > self.text.count("\n")
        """True when most lines end with CRLF; new lines get CRLF too."""

    def apply(self, edits: Sequence[Edit]) -> bytes:
        """Return the file with the edits, which must not overlap."""
        pieces: list[str] = []
        position = 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            pieces.append(self._original(position, edit.start))
            pieces.append(edit.new.replace("\n", "\r\n") if self.crlf else edit.new)
            position = edit.end
        pieces.append(self._original(position, len(self.text)))
        return encode_text("".join(pieces), has_bom=self.has_bom)

    def _original(self, start: int, end: int) -> str:
        return self._raw[self._raw_position(start) : self._raw_position(end)]

    def _raw_position(self, position: int) -> int:
        """Convert a position in `text` to one in the file."""
        return position + bisect_left(self._crlf_positions, position)


def is_binary(data: bytes) -> bool:
    return b"\0" in data


def encode_text(text: str, *, has_bom: bool) -> bytes:
    return (codecs.BOM_UTF8 if has_bom else b"") + text.encode("utf-8", "surrogateescape")


def normalize_argument(text: str, name: str) -> str:
    """Return an argument with plain line feeds and without a byte order mark.

    Raises `ToolArgumentsInvalid` for text that cannot be encoded.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ToolArgumentsInvalid(f"{name} is not valid text: {error.reason}") from error
    return text.removeprefix(BOM).replace("\r\n", "\n")


def display_text(text: str) -> str:
    """Return text of a file for the model: invalid bytes as U+FFFD, like `read_file`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class TextLines:
    """The lines of a text; converts edits of whole lines to edits of characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ended = text.endswith("\n") or not text
        """True when the last line ends with a line feed."""
        self.lines = text.split("\n")
        if self.ended:
            self.lines.pop()
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def number_at(self, position: int) -> int:
        """Return the number of the line, from 1, that contains a position."""
        return self.text.count("\n", 0, position) + 1

    def replace_lines(
        self, first: int, last: int, new: Sequence[str], *, ended: bool | None = None
    ) -> Edit:
        """Return the edit that replaces the lines `first` to `last` (exclusive) by `new`.

        When the edit reaches the end of the file, `ended` says whether the last line ends with a
        line feed afterwards; None keeps it as it is.
        """
        start = min(self._starts[first], len(self.text))
        if last < len(self.lines):
            return Edit(start, self._starts[last], "".join(f"{line}\n" for line in new))
        ended = self.ended if ended is None else ended
        body = "\n".join(new) + ("\n" if ended and new else "")
        if first == len(self.lines) and not self.ended and new:
            body = f"\n{body}"
        elif not new and 0 < first < last and not ended:
            start -= 1  # the line before becomes the last one, without a line feed
        return Edit(start, len(self.text), body)


MAX_DIFF_LINES = 80
MAX_DIFF_CHARS = 6_000
MAX_LINE_CHARS = 300  #: For one line of a diff.
CONTEXT_LINES = 3
MAX_COMPARED_LINES = 20_000  #: A diff of more changed lines would take too long.


def unified_diff(before: bytes, after: bytes) -> str:
    """Return the diff without its two header lines; "" when only line ends differ."""
    if is_binary(before) or is_binary(after):
        return ""
    old, new = (TextDocument(data).text.splitlines() for data in (before, after))
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    changed = max(len(old), len(new)) - head - tail
    if not changed:
        return ""
    if changed > MAX_COMPARED_LINES:
        return f"[{len(old)} lines became {len(new)}]"
    first = max(head - CONTEXT_LINES, 0)
    cut = max(tail - CONTEXT_LINES, 0)
    return _limit_diff(_hunks(old[first : len(old) - cut], new[first : len(new) - cut], first))


def full_diff(path: str, before: bytes | None, after: bytes | None) -> str:
    """Return the complete diff of a file for a person who decides about it; "" if it cannot be
    shown as lines. None is a file that does not exist."""
    if any(data is not None and is_binary(data) for data in (before, after)):
        return ""
    old, new = (TextDocument(data or b"").text.split("\n") for data in (before, after))
    if max(len(old), len(new)) > MAX_COMPARED_LINES:
        return ""
    if old[-1] == new[-1] == "":  # after the end of the last line
        del old[-1], new[-1]
    source, goal = ("/dev/null" if data is None else path for data in (before, after))
    hunks = _hunks(old, new, 0)
    return "\n".join((f"--- {source}", f"+++ {goal}", *hunks)) if hunks else ""


def _common_prefix(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines at the start are equal."""
    for count, (one, other) in enumerate(zip(old, new, strict=False)):
        if one != other:
            return count
    return min(len(old), len(new))


def _hunks(old: Sequence[str], new: Sequence[str], above: int) -> list[str]:
    import difflib  # slow to load, and only an edit needs it

    lines: list[str] = []
    for group in difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT_LINES):
        (_, start, _, begin, _), (_, _, end, _, finish) = group[0], group[-1]
        lines.append(
            f"@@ -{above + start + 1},{end - start} +{above + begin + 1},{finish - begin} @@"
        )
        for kind, i, j, k, m in group:
            if kind == "equal":
                lines += [f" {line}" for line in old[i:j]]
                continue
            lines += [f"-{line}" for line in old[i:j]]
            lines += [f"+{line}" for line in new[k:m]]
    return lines


def _limit_diff(lines: list[str]) -> str:
    shown: list[str] = []
    room = MAX_DIFF_CHARS
    for line in lines[:MAX_DIFF_LINES]:
        text = display_text(line)
        text = text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]} […]"
        room -= len(text)
        if room < 0:
            break
        shown.append(text)
    if len(shown) < len(lines):
        shown.append(f"[… {len(lines) - len(shown)} more lines of the diff]")
    return "\n".join(shown)


MAX_CHECKED_BYTES = 500_000  #: Larger files get no syntax check.


class SyntaxProblem(msgspec.Struct, frozen=True):
    line: int  #: From 1; 0 when it is not known.
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


SyntaxCheck = Callable[[bytes], SyntaxProblem | None]


def new_syntax_problem(path: str, before: bytes | None, after: bytes) -> SyntaxProblem | None:
    """Return the syntax problem that an edit introduced, or None."""
    check = _check_for(path, after)
    if check is None or len(after) > MAX_CHECKED_BYTES:
        return None
    problem = check(after)
    if problem is None or before is None or len(before) > MAX_CHECKED_BYTES:
        return problem
    old = check(before)
    return None if old is not None and old.text == problem.text else problem


def _check_for(path: str, data: bytes) -> SyntaxCheck | None:
    name = PurePath(path)
    if name.suffix:
        return CHECKS.get(name.suffix.lower())
    first = data[:100].split(b"\n")[0]
    if first.startswith(b"#!"):
        return next((check for word, check in SHEBANGS.items() if word in first), None)
    return None


_WARNINGS_LOCK = threading.Lock()  #: The filters of `warnings` are global to the process.


def _python(data: bytes) -> SyntaxProblem | None:
    import symtable  # slow to load, as are the parsers below

    version = ".".join(map(str, _VERSION))
    try:
        with _WARNINGS_LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symtable.symtable(data, "", "exec")  # type: ignore[arg-type] # bytes: for `coding:`
    except SyntaxError as error:
        return SyntaxProblem(error.lineno or 0, f"{error.msg} (Python {version})")
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxProblem(0, f"{str(error) or 'too deeply nested'} (Python {version})")
    return None


_VERSION = sys.version_info[:2]


def _json(data: bytes) -> SyntaxProblem | None:
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        if _COMMENTS.search(data):
            return None  # JSON with comments: settings of editors and compilers
        return SyntaxProblem(error.lineno, error.msg)
    except (UnicodeDecodeError, RecursionError) as error:
        return SyntaxProblem(0, str(error))
    return None


_COMMENTS = late_pattern(rb"^\s*(//|/\*)|[,{\[]\s*(//|/\*)", re.MULTILINE)


def _yaml(data: bytes) -> SyntaxProblem | None:
    if b"{{" in data or b"{%" in data:
        return None  # a template, not YAML yet
    import yaml

    from hermes.util.yaml_loader import YamlTooComplex, check_limits

    try:
        check_limits(data.decode("utf-8", "replace"))
        for _ in yaml.compose_all(data, Loader=yaml.CSafeLoader):
            pass
    except YamlTooComplex:
        return None  # it may be valid, but parsing it could take too long
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        text = getattr(error, "problem", None) or str(error)
        return SyntaxProblem(mark.line + 1 if mark else 0, text)
    except RecursionError as error:
        return SyntaxProblem(0, str(error))
    return None


_AT_LINE = late_pattern(r" \(at line (\d+), column \d+\)")


def _toml(data: bytes) -> SyntaxProblem | None:
    import tomllib

    try:
        tomllib.loads(data.decode())
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        return SyntaxProblem(int(found[1]) if found else 0, _AT_LINE.sub("", str(error)))
    except (UnicodeDecodeError, RecursionError) as error:
        return SyntaxProblem(0, str(error))
    return None


def _xml(data: bytes) -> SyntaxProblem | None:
    from xml.parsers import expat

    try:
        expat.ParserCreate().Parse(data, True)
    except expat.ExpatError as error:
        return SyntaxProblem(error.lineno, expat.ErrorString(error.code))
    return None


def _shell(data: bytes) -> SyntaxProblem | None:
    import tree_sitter
    import tree_sitter_bash as bash

    tree = tree_sitter.Parser(tree_sitter.Language(bash.language())).parse(data)
    if not tree.root_node.has_error:
        return None
    wrong: Any = tree.root_node
    while not (wrong.is_error or wrong.is_missing):
        below = next((child for child in wrong.children if child.has_error), None)
        if below is None:
            break
        wrong = below
    last = len(data.splitlines())  # a missing end is reported for the last line
    return SyntaxProblem(min(wrong.start_point[0] + 1, last), "the shell syntax looks wrong")


CHECKS: dict[str, SyntaxCheck] = {
    ".py": _python, ".pyi": _python, ".json": _json, ".yaml": _yaml, ".yml": _yaml,
    ".toml": _toml, ".xml": _xml, ".svg": _xml, ".sh": _shell, ".bash": _shell,
}  # fmt: skip
SHEBANGS: dict[bytes, SyntaxCheck] = {b"python3": _python, b"bash": _shell, b"/sh": _shell}
