"""Project context files (AGENTS.md and others): find them, scan them, shorten them.

`project_context` loads the files of the working folder for the system prompt; of the supported
kinds, the first that exists wins. `SubfolderHints` loads the files of subfolders later, when a tool
first touches them.
"""

import logging
import os
import os.path
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path, PurePath
from typing import Any, NamedTuple, Protocol

from hermes.security.injection import blocked, scan
from hermes.util.files import inside, upwards
from hermes.util.lazy import late_pattern

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 1_000_000  #: Larger files are not loaded.
MAX_NAMES = 1_000  #: Directory entries that are read of one folder.
TEXT_ENDINGS = (".md", ".mdc", ".txt", ".cursorrules")
"""A symlink is followed only to a file with one of these endings, so that a link in a project of
unknown origin cannot load a private key."""

CONTEXT_FILE_MAX_CHARS = 20_000
HEAD_PERCENT, TAIL_PERCENT = 70, 20
"""Percentages of the limit that are kept of a longer file. The marker takes part of the rest."""
MAX_NAME_CHARS = 200

HERMES_FILES = (".hermes.md", "HERMES.md")
AGENTS_FILES = ("AGENTS.md", "agents.md")
CLAUDE_FILES = ("CLAUDE.md", "claude.md")
CURSOR_RULES = ".cursorrules"
CURSOR_FOLDER, CURSOR_ENDING = ".cursor/rules", ".mdc"
MAX_RULES = 50
GIT = ".git"

FRONTMATTER_FENCE = "---"
HEADING = """\
# Project Context
These instruction files of the project were loaded for you; follow them."""

Redact = Callable[[str], str]


class FileTree(Protocol):
    """Read access to files by absolute path. No method raises; an unreadable file is missing."""

    def read(self, path: str) -> str | None:
        """Return the text of a regular file, or None."""

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if `folder` is not a folder."""

    def exists(self, path: str) -> bool: ...

    def is_folder(self, path: str) -> bool: ...


class LocalFileTree:
    """The files of this machine. With `within`, no file outside that folder is read, also not
    through a link: the folder then belongs to a user who may not read the others."""

    def __init__(self, within: str = "") -> None:
        self._within = os.path.realpath(within) if within else ""

    def read(self, path: str) -> str | None:
        try:
            data = _read_bytes(path, self._within)
        except (OSError, ValueError):  # a NUL in the path raises ValueError
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
            return sorted(os.listdir(folder))[:MAX_NAMES]  # noqa: PTH208 - names, not paths
        except (OSError, ValueError):
            return []

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)  # noqa: PTH112 - returns False where Path raises


def _read_bytes(path: str, within: str) -> bytes | None:
    """Return the content, or None for other file types, links to other types and large files."""
    # Without O_NONBLOCK, opening a named pipe of that name would wait for a writer.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(handle, "rb") as file:  # noqa: PTH123 - a file descriptor
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            return None
        # The open file, because a link could be replaced meanwhile.
        linux = sys.platform == "linux"
        opened = (
            str(Path(f"/proc/self/fd/{handle}").readlink()) if linux else os.path.realpath(path)
        )
        if within and not opened.startswith(f"{within}/"):
            log.warning("%r is not loaded: it links to a file of another folder", path)
            return None
        if not opened.lower().endswith(TEXT_ENDINGS):
            log.warning("%r is not loaded: it links to a file that is not a text file", path)
            return None
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        log.warning("%r is not loaded: it has more than %s bytes", path, f"{MAX_FILE_BYTES:,}")
        return None
    return data


def vet_text(
    name: str, text: str, redact: Redact = str, *, limit: int = CONTEXT_FILE_MAX_CHARS
) -> str:
    """Return `text` redacted and shortened for a prompt, or a line that says why it is blocked."""
    text = text.removeprefix("\ufeff").strip()
    findings = scan(text) if text else ()
    if findings:
        log.warning("%s is not loaded: prompt injection? (%s)", name, ", ".join(findings))
        return blocked(name, findings)
    # Redact before shortening: half a key would not be recognised.
    text = redact(text)
    if len(text) <= limit:
        return text
    head, tail = limit * HEAD_PERCENT // 100, limit * TAIL_PERCENT // 100
    marker = (
        f"[... {name} is cut: the first {head:,} and the last {tail:,} of {len(text):,} characters"
        " are shown. Read the rest with the file tools. ...]"
    )
    return f"{text[:head]}\n\n{marker}\n\n{text[-tail:]}"


def is_safe_name(name: str) -> bool:
    """Return whether a file name may enter a prompt; a project chooses its names, too."""
    if name.isprintable() and len(name) <= MAX_NAME_CHARS and not scan(name):
        return True
    log.warning("%r is not loaded because of its name", name)
    return False


class ContextFile(NamedTuple):
    name: str  #: The file name; for one of several rules, with its folder.
    text: str


def project_context(tree: FileTree, folder: str, redact: Redact = str, *, soul: str = "") -> str:
    """Return the vetted context files for work in `folder` under one heading, or "".

    `soul` is the vetted text of SOUL.md if it is to follow them; it has no heading.
    """
    sections = list(_sections(find_context_files(tree, folder), redact))
    return "\n\n".join(filter(None, [HEADING if sections else "", *sections, soul]))


def _sections(files: list[ContextFile], redact: Redact) -> Iterator[str]:
    """Yield a section per file, until together they reach the limit of a single file."""
    room, left_out = CONTEXT_FILE_MAX_CHARS, []
    for file in files:
        if room <= 0:
            left_out.append(file.name)
            continue
        text = vet_text(file.name, file.text, redact)
        room -= len(text)
        yield f"## {file.name}\n\n{text}"
    if left_out:
        yield f"[Not shown for their size: {', '.join(left_out)}. Read them with the file tools.]"


def find_context_files(tree: FileTree, folder: str) -> list[ContextFile]:
    """Return the files of the first kind that has any with text in them."""
    return next((files for find in KINDS if (files := list(find(tree, folder)))), [])


def find_first(tree: FileTree, folder: str, names: tuple[str, ...]) -> Iterator[ContextFile]:
    """Yield the first of these files that has text; at most one."""
    for name in names:
        text = tree.read(inside(folder, name))
        if text and text.strip("\ufeff \t\r\n"):
            yield ContextFile(name, text)
            return


def without_frontmatter(text: str) -> str:
    """Return `text` without its front matter, unless that is unclosed or the only content."""
    text = text.removeprefix("\ufeff")
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].rstrip() != FRONTMATTER_FENCE:
        return text
    for number, line in enumerate(lines[1:], 2):
        if line.rstrip() == FRONTMATTER_FENCE:
            return "".join(lines[number:]).strip() or text
    return text


def _hermes_file(tree: FileTree, folder: str) -> Iterator[ContextFile]:
    """Yield the nearest one, from the working folder up to the root of its git repository."""
    for each in _up_to_git_root(tree, folder):
        for file in find_first(tree, each, HERMES_FILES):
            yield ContextFile(file.name, without_frontmatter(file.text))
            return


def _up_to_git_root(tree: FileTree, folder: str) -> Sequence[str]:
    """Return `folder` and its parents up to the repository root; only `folder` outside of one."""
    parents = upwards(folder)
    for depth, each in enumerate(parents, 1):
        if tree.exists(inside(each, GIT)):  # a folder, or a file in a worktree
            return parents[:depth]
    return [folder]


def _cursor_rules(tree: FileTree, folder: str) -> Iterator[ContextFile]:
    yield from find_first(tree, folder, (CURSOR_RULES,))
    names = [n for n in tree.names(inside(folder, CURSOR_FOLDER)) if n.endswith(CURSOR_ENDING)]
    for name in names[:MAX_RULES]:
        if is_safe_name(name):
            yield from find_first(tree, folder, (f"{CURSOR_FOLDER}/{name}",))


KINDS: tuple[Callable[[FileTree, str], Iterator[ContextFile]], ...] = (
    _hermes_file,
    partial(find_first, names=AGENTS_FILES),
    partial(find_first, names=CLAUDE_FILES),
    _cursor_rules,
)
"""Finders of each kind of file, by priority."""

SUBFOLDER_FILES = (*AGENTS_FILES, *CLAUDE_FILES, CURSOR_RULES)
"""By priority; each folder contributes one."""
HINT_MAX_CHARS = 8_000
MAX_HINTS_PER_RESULT = 3
"""Files shown with one tool result. Further ones follow when their folder is touched again."""
THIRD_PARTY_FOLDERS = frozenset(
    {".git", ".venv", "__pycache__", "node_modules", "site-packages", "vendor", "venv"}
)
"""Folders with third-party code, whose context files are not meant for this project."""

PATH_ARGUMENTS = ("path", "file_path", "workdir", "cwd", "folder")
FOLDER_ARGUMENTS = ("workdir", "cwd")  #: Arguments that relative paths in a command start from.
MAX_ARGUMENT_CHARS = 4_000  #: Characters of a command or patch that are searched for paths.
MAX_PATHS = 20

_WORD = late_pattern(r"""[^\s'"`|&;<>()$={},]+""")
_CD_TARGET = late_pattern(r"""\b(?:cd|pushd)\s+['"]?([^\s'"`|&;<>()$]+)""")
_PATCHED_FILE = late_pattern(r"^(?:\*\*\* \w+ (?:File|to):|\+\+\+ b/)(.+)$", re.MULTILINE)


class SubfolderHints:
    """Context files of subfolders, each shown once per session with the first tool result there."""

    def __init__(self, tree: FileTree, root: str, redact: Redact = str) -> None:
        self._tree, self._redact = tree, redact
        self._given_root = root
        self._visited: set[PurePath] = set()

    @cached_property
    def _root(self) -> PurePath:
        return PurePath(os.path.normpath(self._given_root))

    def hints_for(self, paths: Iterable[str], folder: str = "") -> str:
        """Return the text to append to the result of a tool that touched `paths`; mostly "".

        Relative paths start in `folder`, itself relative to the root. Visited folders cost no
        file access.
        """
        hints: list[str] = []
        for path in paths:
            for each in self._new_folders(path, folder):
                if len(hints) == MAX_HINTS_PER_RESULT:
                    return "\n\n".join(hints)
                self._visited.add(each)
                hints += self._hint(each)
        return "\n\n".join(hints)

    def reset(self) -> None:
        """Allow all hints again; called after a compaction, which may have removed them."""
        self._visited.clear()

    def _new_folders(self, path: str, folder: str) -> Iterator[PurePath]:
        """Yield the unvisited folders from below the root down to `path`."""
        touched = PurePath(os.path.normpath(self._root / folder / path))
        if touched.name in SUBFOLDER_FILES:
            # The tool call itself reads or writes the context file.
            self._visited.add(touched.parent)
        if touched == self._root or not touched.is_relative_to(self._root):
            return
        each = self._root
        for name in touched.relative_to(self._root).parts:
            if name in THIRD_PARTY_FOLDERS:
                return
            each /= name
            if each not in self._visited:
                yield each

    def _hint(self, folder: PurePath) -> list[str]:
        if not self._tree.is_folder(str(folder)):
            return []
        for file in find_first(self._tree, str(folder), SUBFOLDER_FILES):
            name = (folder.relative_to(self._root) / file.name).as_posix()
            if is_safe_name(name):
                text = vet_text(name, file.text, self._redact, limit=HINT_MAX_CHARS)
                return [f"[Project context for this folder: {name}]\n{text}"]
        return []


def paths_in_arguments(arguments: dict[str, Any]) -> list[str]:
    """Return the distinct paths in the arguments of a tool call, at most `MAX_PATHS`."""
    named = [value for name in PATH_ARGUMENTS if (value := _text(arguments, name))]
    start = next((value for name in FOLDER_ARGUMENTS if (value := _text(arguments, name))), "")
    command = _text(arguments, "command")
    words = [*_CD_TARGET.findall(command), *filter(_is_path, _WORD.findall(command))]
    in_command = [os.path.join(start, word) for word in words]  # noqa: PTH118 - text
    patched = [path.strip() for path in _PATCHED_FILE.findall(_text(arguments, "patch"))]
    return list(dict.fromkeys([*named, *in_command, *patched]))[:MAX_PATHS]


def _is_path(word: str) -> bool:
    return "/" in word and "://" not in word and not word.startswith(("-", "~", "/dev/"))


def _text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name)
    return value[:MAX_ARGUMENT_CHARS] if isinstance(value, str) and "\0" not in value else ""
