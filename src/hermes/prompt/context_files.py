"""Project context files: what a project wants an agent to know. The first kind found wins."""

import logging
import os
import os.path
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import PurePath
from typing import Any, NamedTuple, Protocol

from hermes.security.injection import blocked, scan
from hermes.util.paths import inside, upwards

# Where project files are read: on this machine, or wherever the agent works.

log = logging.getLogger(__name__)

LARGEST_FILE = 1_000_000
"""Bytes. What is larger was not written to be read by a model."""
MOST_NAMES = 1_000
"""Files of one folder that are looked at."""
TEXT_ENDINGS = (".md", ".mdc", ".txt", ".cursorrules")
"""A link is followed to such a file only, so that none in a foreign project leads to a key."""


class Tree(Protocol):
    """Files by absolute path. Nothing here raises: what cannot be read is not there."""

    def read(self, path: str) -> str | None:
        """The text of a regular file; None when there is none."""
        ...

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted; empty when it is none."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_folder(self, path: str) -> bool: ...


class LocalTree:
    """Files of this machine."""

    def read(self, path: str) -> str | None:
        try:
            data = _read_bytes(path)
        except (OSError, ValueError):  # a NUL in the path is a ValueError
            return None
        if data is None:
            return None
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            log.warning("%r is not loaded: it is not UTF-8 text", path)
            return None
        return text

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(folder))[:MOST_NAMES]  # noqa: PTH208 - names, not paths
        except (OSError, ValueError):
            return []

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)  # noqa: PTH112 - answers False where Path raises


def _read_bytes(path: str) -> bytes | None:
    """None for what is not a file, leads somewhere else or is too large."""
    # A pipe of that name must not hold us up.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(handle, "rb") as file:  # noqa: PTH123 - of a handle
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            return None
        if not os.path.realpath(path).lower().endswith(TEXT_ENDINGS):
            log.warning("%r is not loaded: it leads to a file that is no text for models", path)
            return None
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        log.warning("%r is not loaded: it has more than %s bytes", path, f"{LARGEST_FILE:,}")
        return None
    return data


# What a file passes before the model sees it: the scan, the redaction, the cut.

CONTEXT_FILE_MAX_CHARS = 20_000
HEAD, TAIL = 70, 20
"""Hundredths of the limit that are kept of a longer file. The marker takes part of the rest."""
LONGEST_NAME = 200

Redact = Callable[[str], str]


def vetted(
    name: str, text: str, redact: Redact = str, *, limit: int = CONTEXT_FILE_MAX_CHARS
) -> str:
    """`text` as it may stand in a prompt: whole, cut, or replaced by a line that says why not."""
    text = text.removeprefix("\ufeff").strip()
    findings = scan(text) if text else ()
    if findings:
        log.warning("%s is not loaded: prompt injection? (%s)", name, ", ".join(findings))
        return blocked(name, findings)
    # Before the cut: half a key would not be recognised.
    return cut(name, redact(text), limit)


def cut(name: str, text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head, tail = limit * HEAD // 100, limit * TAIL // 100
    marker = (
        f"[... {name} is cut: the first {head:,} and the last {tail:,} of {len(text):,} characters"
        " are shown. Read the rest with the file tools. ...]"
    )
    return f"{text[:head]}\n\n{marker}\n\n{text[-tail:]}"


def presentable(name: str) -> bool:
    """Whether the name of a file may stand in a prompt: it is text of the project as well."""
    if name.isprintable() and len(name) <= LONGEST_NAME and not scan(name):
        return True
    log.warning("%r is not loaded because of its name", name)
    return False


HERMES_FILES = (".hermes.md", "HERMES.md")
AGENTS_FILES = ("AGENTS.md", "agents.md")
CLAUDE_FILES = ("CLAUDE.md", "claude.md")
CURSOR_RULES = ".cursorrules"
CURSOR_FOLDER, CURSOR_ENDING = ".cursor/rules", ".mdc"
MOST_RULES = 50
GIT = ".git"

FENCE = "---"
HEADING = """\
# Project Context
These files of the project were loaded for you; follow what they say."""


class Found(NamedTuple):
    name: str
    """As shown: the file name, with its folder for one of several rules."""
    text: str


Kind = Callable[[Tree, str], Iterator[Found]]


def project_context(tree: Tree, folder: str, redact: Redact = str, *, soul: str = "") -> str:
    """The context files for work in `folder`, vetted, under one heading; "" when there are none.

    `soul` is the vetted text of SOUL.md when it is to follow them.
    """
    sections = list(_sections(find(tree, folder), redact))
    if soul:
        sections.append(f"## SOUL.md\n\n{soul}")
    return "\n\n".join([HEADING, *sections]) if sections else ""


def _sections(files: list[Found], redact: Redact) -> Iterator[str]:
    """One for each file, until together they reach the size that one file may have."""
    room, left_out = CONTEXT_FILE_MAX_CHARS, []
    for file in files:
        if room <= 0:
            left_out.append(file.name)
            continue
        text = vetted(file.name, file.text, redact)
        room -= len(text)
        yield f"## {file.name}\n\n{text}"
    if left_out:
        yield f"[Not shown for their size: {', '.join(left_out)}. Read them with the file tools.]"


def find(tree: Tree, folder: str) -> list[Found]:
    """The files of the first kind that has any with text in them."""
    return next((files for kind in KINDS if (files := list(kind(tree, folder)))), [])


def first_of(tree: Tree, folder: str, names: tuple[str, ...]) -> Iterator[Found]:
    """The first of these files that has text; at most one."""
    for name in names:
        text = tree.read(inside(folder, name))
        if text and text.strip("\ufeff \t\r\n"):
            yield Found(name, text)
            return


def without_frontmatter(text: str) -> str:
    """`text` without the block of settings at its beginning, if it has a whole one and more."""
    text = text.removeprefix("\ufeff")
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].rstrip() != FENCE:
        return text
    for number, line in enumerate(lines[1:], 2):
        if line.rstrip() == FENCE:
            return "".join(lines[number:]).strip() or text
    return text


def _hermes(tree: Tree, folder: str) -> Iterator[Found]:
    """The nearest, from the working folder up to the root of its git repository."""
    for each in _up_to_git_root(tree, folder):
        for file in first_of(tree, each, HERMES_FILES):
            yield Found(file.name, without_frontmatter(file.text))
            return


def _up_to_git_root(tree: Tree, folder: str) -> Sequence[str]:
    way = upwards(folder)
    for steps, each in enumerate(way, 1):
        if tree.exists(inside(each, GIT)):  # a folder, or a file in a worktree
            return way[:steps]
    return [folder]


def _agents(tree: Tree, folder: str) -> Iterator[Found]:
    return first_of(tree, folder, AGENTS_FILES)


def _claude(tree: Tree, folder: str) -> Iterator[Found]:
    return first_of(tree, folder, CLAUDE_FILES)


def _cursor(tree: Tree, folder: str) -> Iterator[Found]:
    yield from first_of(tree, folder, (CURSOR_RULES,))
    names = [n for n in tree.names(inside(folder, CURSOR_FOLDER)) if n.endswith(CURSOR_ENDING)]
    for name in names[:MOST_RULES]:
        if presentable(name):
            yield from first_of(tree, folder, (f"{CURSOR_FOLDER}/{name}",))


KINDS: tuple[Kind, ...] = (_hermes, _agents, _claude, _cursor)
"""By priority."""


# Context files of subfolders, shown once when the agent first works there.

FILES = (*AGENTS_FILES, *CLAUDE_FILES, CURSOR_RULES)
"""By priority; one for each folder."""
HINT_MAX_CHARS = 8_000
MOST_AT_ONCE = 3
"""Files shown with one tool result; the next ones come when their folder is touched again."""
FOREIGN = frozenset(
    {".git", ".venv", "__pycache__", "node_modules", "site-packages", "vendor", "venv"}
)
"""Folders with the work of others, whose files are not meant for the agent."""

PATH_ARGUMENTS = ("path", "file_path", "workdir", "cwd", "folder")
FOLDER_ARGUMENTS = ("workdir", "cwd")
"""Where the relative paths in a command start."""
LONGEST_LOOK = 4_000
"""Characters of a command or patch that are looked at."""
MOST_PATHS = 20

_WORD = re.compile(r"""[^\s'"`|&;<>()$={},]+""")
_ENTER = re.compile(r"""\b(?:cd|pushd)\s+['"]?([^\s'"`|&;<>()$]+)""")
_PATCHED = re.compile(r"^(?:\*\*\* \w+ (?:File|to):|\+\+\+ b/)(.+)$", re.MULTILINE)


class SubfolderHints:
    """Knows which folders below `root` were looked at. One for each session."""

    def __init__(self, tree: Tree, root: str, redact: Redact = str) -> None:
        self._tree, self._redact = tree, redact
        self._given_root = root
        self._known: set[PurePath] = set()

    @cached_property
    def _root(self) -> PurePath:
        return PurePath(os.path.normpath(self._given_root))

    def entered(self, paths: Iterable[str], folder: str = "") -> str:
        """What to append to the result of a tool that touched `paths`; "" nearly always.

        Relative paths start in `folder` (the root). A folder that is known costs no file access.
        """
        hints: list[str] = []
        for path in paths:
            for each in self._new_folders(path, folder):
                if len(hints) == MOST_AT_ONCE:
                    return "\n\n".join(hints)
                self._known.add(each)
                hints += self._hint(each)
        return "\n\n".join(hints)

    def forget(self) -> None:
        """After a compaction: what was shown may be gone, so it may be shown again."""
        self._known.clear()

    def _new_folders(self, path: str, folder: str) -> Iterator[PurePath]:
        """Folders from below the root down to `path` that were not looked at yet."""
        touched = PurePath(os.path.normpath(self._root / folder / path))
        if touched.name in FILES:
            # The tool itself shows or writes it.
            self._known.add(touched.parent)
        if touched == self._root or not touched.is_relative_to(self._root):
            return
        each = self._root
        for name in touched.relative_to(self._root).parts:
            if name in FOREIGN:
                return
            each /= name
            if each not in self._known:
                yield each

    def _hint(self, folder: PurePath) -> list[str]:
        if not self._tree.is_folder(str(folder)):
            return []
        for file in first_of(self._tree, str(folder), FILES):
            name = (folder.relative_to(self._root) / file.name).as_posix()
            if presentable(name):
                text = vetted(name, file.text, self._redact, limit=HINT_MAX_CHARS)
                return [f"[Project context for this folder: {name}]\n{text}"]
        return []


def paths_in(arguments: dict[str, Any]) -> list[str]:
    """Paths named in the arguments of a tool call, each once, at most `MOST_PATHS`."""
    named = [value for name in PATH_ARGUMENTS if (value := _text(arguments, name))]
    start = next((value for name in FOLDER_ARGUMENTS if (value := _text(arguments, name))), "")
    in_command = [os.path.join(start, word) for word in _words(_text(arguments, "command"))]  # noqa: PTH118 - text
    patched = [path.strip() for path in _PATCHED.findall(_text(arguments, "patch"))]
    return list(dict.fromkeys([*named, *in_command, *patched]))[:MOST_PATHS]


def _words(command: str) -> list[str]:
    """Words that look like a path: with a slash and no address, or behind `cd`."""
    paths = [word for word in _WORD.findall(command) if _is_path(word)]
    return [*_ENTER.findall(command), *paths]


def _is_path(word: str) -> bool:
    return "/" in word and "://" not in word and not word.startswith(("-", "~", "/dev/"))


def _text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name)
    return value[:LONGEST_LOOK] if isinstance(value, str) and "\0" not in value else ""
