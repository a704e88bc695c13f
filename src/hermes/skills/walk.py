"""Where SKILL.md files lie below a folder, without being led astray by what else is there."""

import os
from itertools import islice
from pathlib import Path

from hermes.skills.reading import Stamp, why
from hermes.skills.skill import CATEGORY_FILE, SKILL_FILE, Broken, Root, Source

DEEPEST = 3
"""Folders from the root to that of a skill: two categories and its own."""
MOST_FOLDERS = 5_000
"""Of one root. Somebody's whole home is no collection of skills."""
MOST_DEEPER = 500
"""Folders below those that are looked for skills which lie too deep."""
SKIPPED = frozenset({"node_modules", "__pycache__", "venv"})

CHANGING = Stamp(-1, -1, -1)
"""Of what could not be read: it is looked at again every time."""


class Walk:
    """What was found below the roots given to `visit`."""

    def __init__(self) -> None:
        self.skills: list[tuple[str, Root]] = []
        """The folder of each, and the root it lies below."""
        self.categories: list[tuple[str, Root]] = []
        """The folder of each that is described."""
        self.broken: list[Broken] = []
        self.seen: dict[str, Stamp] = {}
        """Everything that was looked at. As long as all of it is the same, so is the result."""
        self.missing: list[str] = []
        """Roots that are not there."""
        self._deeper = MOST_DEEPER

    def visit(self, root: Root) -> None:
        path = str(root.path)
        if not os.path.lexists(path):
            self.missing.append(path)
        # A file astray in the user's own folder must not hide all that is in there.
        elif root.source is Source.USER or not self._is_skill(path, root):
            self._look_into(path, root, 1, MOST_FOLDERS)

    def _is_skill(self, folder: str, root: Root) -> bool:
        file = f"{folder}/{SKILL_FILE}"
        try:
            self.seen[file] = Stamp.of(os.stat(file))  # noqa: PTH116 - five times as quick
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self._cannot(file, root, why(error))
            return True
        self.skills.append((folder, root))
        return True

    def _look_into(self, folder: str, root: Root, depth: int, room: int) -> int:
        """How many folders may still be looked into."""
        try:
            # The stamp first: what changes in the meantime is seen the next time.
            self.seen[folder] = Stamp.of(os.stat(folder))  # noqa: PTH116 - quicker
            with os.scandir(folder) as entries:
                inside = sorted((each.name, each) for each in entries)
        except OSError as error:
            self._cannot(folder, root, why(error))
            return room
        for name, entry in inside:
            if not _counts(name) or not self._is_printable(entry, root):
                continue
            if self._is_folder(entry, root):
                room = self._enter(entry.path, root, depth, room)
            elif name == CATEGORY_FILE:
                self._describes(entry.path, folder, root)
            elif name.lower() == SKILL_FILE.lower():
                self._misplaced(entry, root, depth)
        return room

    def _enter(self, folder: str, root: Root, depth: int, room: int) -> int:
        if room <= 0:
            return room
        if room == 1:
            reason = f"there are more than {MOST_FOLDERS:,} folders; the rest is not looked at"
            self._cannot(str(root.path), root, reason, changing=False)
        elif self._is_skill(folder, root):
            pass
        elif depth < DEEPEST:
            return self._look_into(folder, root, depth + 1, room - 1)
        else:
            self._note(folder)
            self._look_below(folder, root)
        return room - 1

    def _look_below(self, folder: str, root: Root) -> None:
        """Skills that lie too deep are not used, but whoever put them there is told."""
        for place, folders, files in islice(os.walk(folder), self._deeper):
            self._deeper -= 1
            if SKILL_FILE in files:
                reason = f"it lies too deep: at most {DEEPEST - 1} categories may stand above it"
                self._cannot(f"{place}/{SKILL_FILE}", root, reason, changing=False)
                folders.clear()
            folders[:] = sorted(each for each in folders if each.isprintable() and _counts(each))

    def _misplaced(self, entry: os.DirEntry[str], root: Root, depth: int) -> None:
        if depth == 1 and root.source is Source.USER:
            reason = "a skill needs a folder of its own"
        elif entry.name == SKILL_FILE:  # a link that leads nowhere, as was said
            return
        else:
            reason = f"it must be called {SKILL_FILE}, not {entry.name}"
        self._cannot(entry.path, root, reason, changing=False)

    def _is_printable(self, entry: os.DirEntry[str], root: Root) -> bool:
        """Names become text of prompts, lists and files."""
        if entry.name.isprintable():
            return True
        path = entry.path.encode("utf-8", "backslashreplace").decode()
        self._cannot(path, root, "its name cannot be printed", changing=False)
        return False

    def _is_folder(self, entry: os.DirEntry[str], root: Root) -> bool:
        try:
            if not entry.is_symlink():
                return entry.is_dir()
            real = os.path.realpath(entry.path, strict=True)
        except OSError as error:
            self._cannot(entry.path, root, f"the link leads nowhere: {why(error)}")
            return False
        above = os.path.realpath(Path(entry.path).parent)
        if f"{above}/".startswith(f"{real}/"):
            self._cannot(entry.path, root, "the link leads back to a folder above it")
            return False
        return Path(real).is_dir()

    def _describes(self, file: str, folder: str, root: Root) -> None:
        if self._note(file):
            self.categories.append((folder, root))

    def _note(self, path: str) -> bool:
        try:
            self.seen[path] = Stamp.of(os.stat(path))  # noqa: PTH116 - quicker
        except OSError:
            self.seen[path] = CHANGING
            return False
        return True

    def _cannot(self, path: str, root: Root, reason: str, *, changing: bool = True) -> None:
        if changing:
            self.seen[path] = CHANGING
        self.broken.append(Broken(Path(path), root.source, reason))


def _counts(name: str) -> bool:
    return not name.startswith(".") and name not in SKIPPED
