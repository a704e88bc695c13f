"""Whether a file still parses after an edit. In-process only: no linter is started."""

import json
import re
import symtable
import sys
import threading
import tomllib
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import PurePath
from typing import Any

import msgspec

MOST_BYTES = 500_000
"""Larger files are not checked."""


class Problem(msgspec.Struct, frozen=True):
    line: int
    """0 when it is not known."""
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


Check = Callable[[bytes], Problem | None]


def new_problem(path: str, before: bytes | None, after: bytes) -> Problem | None:
    """What is wrong with the file now and was not before the edit; None when nothing is."""
    check = _check_of(path, after)
    if check is None or len(after) > MOST_BYTES:
        return None
    problem = check(after)
    if problem is None or before is None or len(before) > MOST_BYTES:
        return problem
    old = check(before)
    return None if old is not None and old.text == problem.text else problem


def _check_of(path: str, data: bytes) -> Check | None:
    name = PurePath(path)
    if name.suffix:
        return CHECKS.get(name.suffix.lower())
    first = data[:100].split(b"\n")[0]
    if first.startswith(b"#!"):
        return next((check for word, check in SHEBANGS.items() if word in first), None)
    return None


_FILTERS = threading.Lock()
"""The filters of warnings belong to the whole process."""


def _python(data: bytes) -> Problem | None:
    version = ".".join(map(str, _VERSION))
    try:
        with _FILTERS, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symtable.symtable(data, "", "exec")  # type: ignore[arg-type] # bytes: for `coding:`
    except SyntaxError as error:
        return Problem(error.lineno or 0, f"{error.msg} (Python {version})")
    except (ValueError, RecursionError, MemoryError) as error:
        return Problem(0, f"{str(error) or 'too deeply nested'} (Python {version})")
    return None


_VERSION = sys.version_info[:2]


def _json(data: bytes) -> Problem | None:
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        if _COMMENTS.search(data):
            return None  # JSON with comments: settings of editors and compilers
        return Problem(error.lineno, error.msg)
    except (UnicodeDecodeError, RecursionError) as error:
        return Problem(0, str(error))
    return None


_COMMENTS = re.compile(rb"^\s*(//|/\*)|[,{\[]\s*(//|/\*)", re.MULTILINE)


def _yaml(data: bytes) -> Problem | None:
    if b"{{" in data or b"{%" in data:
        return None  # a template, not YAML yet
    yaml = import_module("yaml")
    try:
        for _ in yaml.compose_all(data, Loader=yaml.CSafeLoader):
            pass
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        text = getattr(error, "problem", None) or str(error)
        return Problem(mark.line + 1 if mark else 0, text)
    except RecursionError as error:
        return Problem(0, str(error))
    return None


_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)")


def _toml(data: bytes) -> Problem | None:
    try:
        tomllib.loads(data.decode())
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        return Problem(int(found[1]) if found else 0, _AT_LINE.sub("", str(error)))
    except (UnicodeDecodeError, RecursionError) as error:
        return Problem(0, str(error))
    return None


def _xml(data: bytes) -> Problem | None:
    expat = import_module("xml.parsers.expat")
    try:
        expat.ParserCreate().Parse(data, True)
    except expat.ExpatError as error:
        return Problem(error.lineno, expat.ErrorString(error.code))
    return None


def _shell(data: bytes) -> Problem | None:
    tree_sitter, bash = import_module("tree_sitter"), import_module("tree_sitter_bash")
    tree = tree_sitter.Parser(tree_sitter.Language(bash.language())).parse(data)
    if not tree.root_node.has_error:
        return None
    wrong = _first_error(tree.root_node)
    last = len(data.splitlines())  # what is missing at the end is told of the last line
    return Problem(min(wrong.start_point[0] + 1, last), "the shell syntax looks wrong")


def _first_error(node: Any) -> Any:
    """The first node of the tree that could not be read."""
    while not (node.is_error or node.is_missing):
        below = next((child for child in node.children if child.has_error), None)
        if below is None:
            return node
        node = below
    return node


CHECKS: dict[str, Check] = {
    ".py": _python, ".pyi": _python, ".json": _json, ".yaml": _yaml, ".yml": _yaml,
    ".toml": _toml, ".xml": _xml, ".svg": _xml, ".sh": _shell, ".bash": _shell,
}  # fmt: skip
SHEBANGS: dict[bytes, Check] = {b"python3": _python, b"bash": _shell, b"/sh": _shell}
