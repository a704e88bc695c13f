"""What git ignores, told from the rules in the tree without asking git."""

import contextlib
from pathlib import Path

from hermes.terminal.local.search import IgnoreRule, find_repository, is_ignored, parse_gitignore

LONGEST = 200_000
"""Characters of one file of rules."""


class Ignoring:
    """The rules for what is below `folder`, a real path. None apply when it is ignored itself:
    whoever looks into it wants to see what is there."""

    def __init__(self, folder: str) -> None:
        top = find_repository(folder)
        self._top = "" if top is None else top.rstrip("/") + "/"
        self._rules: dict[str, list[IgnoreRule]] = {}
        if self._top and self._is_inside_ignored(folder):
            self._top = ""

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """`path` is absolute and directly below a folder that is not ignored."""
        if not self._top or not path.startswith(self._top):
            return False
        relative = path[len(self._top) :]
        return bool(
            is_ignored(self._for(relative.rpartition("/")[0]), relative, is_folder=is_folder)
        )

    def _is_inside_ignored(self, folder: str) -> bool:
        parts = folder[len(self._top) :].split("/") if folder.startswith(self._top) else []
        paths = (self._top + "/".join(parts[:count]) for count in range(1, len(parts) + 1))
        return any(self.ignores(path, is_folder=True) for path in paths)

    def _for(self, folder: str) -> list[IgnoreRule]:
        """Of the top and every folder down to this one; the last word is that of the nearest."""
        if folder not in self._rules:
            above = (
                self._for(folder.rpartition("/")[0])
                if folder
                else self._own("", ".git/info/exclude")
            )
            base = f"{folder}/" if folder else ""
            self._rules[folder] = above + self._own(base, ".gitignore")
        return self._rules[folder]

    def _own(self, base: str, name: str) -> list[IgnoreRule]:
        with (
            contextlib.suppress(OSError),
            Path(self._top, base, name).open(encoding="utf-8", errors="replace") as file,
        ):
            return parse_gitignore(file.read(LONGEST), base)
        return []
