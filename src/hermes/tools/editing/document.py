"""A text file as it is edited: with plain line feeds, while its own line ends and mark are kept."""

import codecs
import difflib
import json
import re
import symtable
import sys
import threading
import tomllib
import warnings
from bisect import bisect_left
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import PurePath
from typing import Any

import msgspec

from hermes.core.errors import ToolArgumentsInvalid

BOM = "\ufeff"
"""The byte order mark as a character."""

_CRLF = re.compile(r"\r\n")


class Edit(msgspec.Struct, frozen=True):
    """`text[start:end]` becomes `new`."""

    start: int
    end: int
    new: str


class Document:
    """The text of a file. Bytes that are not UTF-8 survive an edit as surrogate escapes."""

    def __init__(self, data: bytes) -> None:
        self.marked = data.startswith(codecs.BOM_UTF8)
        raw = data[len(codecs.BOM_UTF8) if self.marked else 0 :].decode("utf-8", "surrogateescape")
        self._raw = raw
        # Where in `text` a line feed stands that follows a carriage return in the file.
        self._returns = (
            [match.start() - number for number, match in enumerate(_CRLF.finditer(raw))]
            if "\r\n" in raw
            else []
        )
        self.text = raw.replace("\r\n", "\n") if self._returns else raw
        self.crlf = len(self._returns) * 2 > self.text.count("\n")
        """Most lines end with CRLF; new ones do too."""

    def edited(self, edits: Sequence[Edit]) -> bytes:
        """The file with the edits made, which must not overlap."""
        pieces: list[str] = []
        position = 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            pieces.append(self._original(position, edit.start))
            pieces.append(edit.new.replace("\n", "\r\n") if self.crlf else edit.new)
            position = edit.end
        pieces.append(self._original(position, len(self.text)))
        return encode_text("".join(pieces), marked=self.marked)

    def _original(self, start: int, end: int) -> str:
        return self._raw[self._place(start) : self._place(end)]

    def _place(self, position: int) -> int:
        """Where a position of `text` is in the file."""
        return position + bisect_left(self._returns, position)


def is_binary(data: bytes) -> bool:
    return b"\0" in data


def encode_text(text: str, *, marked: bool) -> bytes:
    return (codecs.BOM_UTF8 if marked else b"") + text.encode("utf-8", "surrogateescape")


def normalize_argument(text: str, name: str) -> str:
    """An argument as it is looked for: plain line feeds, no byte order mark, valid text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ToolArgumentsInvalid(f"{name} is not valid text: {error.reason}") from error
    return text.removeprefix(BOM).replace("\r\n", "\n")


def display_text(text: str) -> str:
    """Text of a file as a model may see it: odd bytes as U+FFFD, as `read_file` shows them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class TextLines:
    """The lines of a text, and edits of whole lines as edits of characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ended = text.endswith("\n") or not text
        """The last line has a line end."""
        self.lines = text.split("\n")
        if self.ended:
            self.lines.pop()
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def number_at(self, position: int) -> int:
        """The number of the line, from 1, in which a position is."""
        return self.text.count("\n", 0, position) + 1

    def replaced(
        self, first: int, last: int, new: Sequence[str], *, ended: bool | None = None
    ) -> Edit:
        """Lines `first` to before `last` become `new`.

        `ended` says whether the file's last line, when it is part of this, has a line end
        afterwards; as before, when not given.
        """
        start = min(self._starts[first], len(self.text))
        if last < len(self.lines):
            return Edit(start, self._starts[last], "".join(f"{line}\n" for line in new))
        ended = self.ended if ended is None else ended
        body = "\n".join(new) + ("\n" if ended and new else "")
        if first == len(self.lines) and not self.ended and new:
            body = f"\n{body}"
        elif not new and 0 < first < last and not ended:
            start -= 1  # the line before becomes the last one, without an end
        return Edit(start, len(self.text), body)


# What an edit changed, as a unified diff of bounded size.

MAX_DIFF_LINES = 80
MAX_DIFF_CHARS = 6_000
MAX_LINE_CHARS = 300
"""Characters of a line that are shown."""
CONTEXT_LINES = 3
MAX_COMPARED_LINES = 20_000
"""Changed lines that are worth comparing."""


def unified_diff(before: bytes, after: bytes) -> str:
    """The diff without its two header lines; "" when only line ends differ."""
    if is_binary(before) or is_binary(after):
        return ""
    old, new = (Document(data).text.splitlines() for data in (before, after))
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


def _common_prefix(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines at the start are the same."""
    for count, (one, other) in enumerate(zip(old, new, strict=False)):
        if one != other:
            return count
    return min(len(old), len(new))


def _hunks(old: Sequence[str], new: Sequence[str], above: int) -> list[str]:
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


# Whether a file still parses after an edit. In-process only: no linter is started.

MAX_CHECKED_BYTES = 500_000
"""Larger files are not checked."""


class SyntaxProblem(msgspec.Struct, frozen=True):
    line: int
    """0 when it is not known."""
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


SyntaxCheck = Callable[[bytes], SyntaxProblem | None]


def new_syntax_problem(path: str, before: bytes | None, after: bytes) -> SyntaxProblem | None:
    """What is wrong with the file now and was not before the edit; None when nothing is."""
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


_WARNINGS_LOCK = threading.Lock()
"""The filters of warnings belong to the whole process."""


def _python(data: bytes) -> SyntaxProblem | None:
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


_COMMENTS = re.compile(rb"^\s*(//|/\*)|[,{\[]\s*(//|/\*)", re.MULTILINE)


def _yaml(data: bytes) -> SyntaxProblem | None:
    if b"{{" in data or b"{%" in data:
        return None  # a template, not YAML yet
    yaml = import_module("yaml")
    try:
        for _ in yaml.compose_all(data, Loader=yaml.CSafeLoader):
            pass
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        text = getattr(error, "problem", None) or str(error)
        return SyntaxProblem(mark.line + 1 if mark else 0, text)
    except RecursionError as error:
        return SyntaxProblem(0, str(error))
    return None


_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)")


def _toml(data: bytes) -> SyntaxProblem | None:
    try:
        tomllib.loads(data.decode())
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        return SyntaxProblem(int(found[1]) if found else 0, _AT_LINE.sub("", str(error)))
    except (UnicodeDecodeError, RecursionError) as error:
        return SyntaxProblem(0, str(error))
    return None


def _xml(data: bytes) -> SyntaxProblem | None:
    expat = import_module("xml.parsers.expat")
    try:
        expat.ParserCreate().Parse(data, True)
    except expat.ExpatError as error:
        return SyntaxProblem(error.lineno, expat.ErrorString(error.code))
    return None


def _shell(data: bytes) -> SyntaxProblem | None:
    tree_sitter, bash = import_module("tree_sitter"), import_module("tree_sitter_bash")
    tree = tree_sitter.Parser(tree_sitter.Language(bash.language())).parse(data)
    if not tree.root_node.has_error:
        return None
    wrong = _first_error(tree.root_node)
    last = len(data.splitlines())  # what is missing at the end is told of the last line
    return SyntaxProblem(min(wrong.start_point[0] + 1, last), "the shell syntax looks wrong")


def _first_error(node: Any) -> Any:
    """The first node of the tree that could not be read."""
    while not (node.is_error or node.is_missing):
        below = next((child for child in node.children if child.has_error), None)
        if below is None:
            return node
        node = below
    return node


CHECKS: dict[str, SyntaxCheck] = {
    ".py": _python, ".pyi": _python, ".json": _json, ".yaml": _yaml, ".yml": _yaml,
    ".toml": _toml, ".xml": _xml, ".svg": _xml, ".sh": _shell, ".bash": _shell,
}  # fmt: skip
SHEBANGS: dict[bytes, SyntaxCheck] = {b"python3": _python, b"bash": _shell, b"/sh": _shell}
