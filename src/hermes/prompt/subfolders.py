"""Context files of subfolders, shown once when the agent first works there."""

import os.path
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import PurePath
from typing import Any

from hermes.prompt.context_files import AGENTS_FILES, CLAUDE_FILES, CURSOR_RULES, first_of
from hermes.prompt.tree import Tree
from hermes.prompt.vetting import Redact, presentable, vetted

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
