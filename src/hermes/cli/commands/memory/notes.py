"""The built-in notes of everybody, as they lie on the disk."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes.app.tools import project_root
from hermes.cli.context import Cli
from hermes.config.settings.abilities import MemorySettings
from hermes.core.errors import UsageError
from hermes.memory import (
    MEMORY_FILE,
    OWNER_FILE,
    USER_FILE,
    MemoryScope,
    Notebook,
    NoteFile,
    NoteLocation,
    NoteTarget,
    note_locations,
    notes,
)
from hermes.security.injection import scan

YOURS = "yours"
LOCK_SECONDS = 10
TARGETS: tuple[NoteTarget, ...] = ("memory", "user", "project", "chat")
PERSONAL = ("memory", "user")
SHARED: dict[str, NoteTarget] = {"projects": "project", "chats": "chat"}


class Notes(msgspec.Struct, frozen=True):
    """One file with notes."""

    target: NoteTarget
    owner: str
    """`yours`, else whom or what they belong to."""
    place: NoteLocation
    file: NoteFile
    limit: int

    @property
    def title(self) -> str:
        return f"{self.target} ({self.owner})"

    def fullness(self) -> str:
        """Raises `ToolError` when the file cannot be read."""
        size = len(notes.join_entries(self.file.read()))
        return f"{100 * size // max(self.limit, 1)}%, {size:,}/{self.limit:,} characters"

    def notebook(self) -> Notebook:
        return Notebook(self.target, self.title, self.file, self.limit, scan)


class Shelf:
    """All notes of a home."""

    def __init__(self, cli: Cli) -> None:
        self._folder = cli.home.memories
        self._settings: MemorySettings = cli.load().settings.memory

    def all(self, target: str = "") -> list[Notes]:
        """Those that exist, yours first."""
        return [notes for notes in self._found() if target in ("", notes.target)]

    def one(self, target: NoteTarget, of: str) -> Notes:
        """The notes meant by a target and a part of their owner's name. Without it: yours, or
        those of the project in the working folder; they may not exist yet."""
        if not of:
            own = self._own(target)
            if own is not None:
                return own
        found = [notes for notes in self.all(target) if of.casefold() in notes.owner.casefold()]
        if len(found) == 1:
            return found[0]
        known = ", ".join(notes.owner for notes in found or self.all(target)) or "nobody"
        problem = f"{len(found)} notes" if found else "no notes"
        raise UsageError(
            f"there are {problem} for {target} {of}".rstrip(),
            hint=f"name one of them with --of; there are notes of: {known}",
        )

    def _own(self, target: NoteTarget) -> Notes | None:
        scope = MemoryScope(project=project_root(Path.cwd()) if target == "project" else "")
        place = note_locations(self._folder, scope).get(target)
        if place is None:
            return None
        return self._notes(target, place.owner.removeprefix(f"{target} ") or YOURS, place)

    def _found(self) -> Iterator[Notes]:
        yield from self._of_person(self._folder, YOURS)
        for folder in _folders(self._folder / "users"):
            yield from self._of_person(folder, f"user {_owner(folder).removeprefix('user ')}")
        for name, target in SHARED.items():
            for folder in _folders(self._folder / name):
                owner = _owner(folder)
                place = NoteLocation(folder / MEMORY_FILE, owner)
                if place.file.exists():
                    yield self._notes(target, owner.removeprefix(f"{target} "), place)

    def _of_person(self, folder: Path, owner: str) -> Iterator[Notes]:
        kinds: tuple[tuple[NoteTarget, str], ...] = (("memory", MEMORY_FILE), ("user", USER_FILE))
        for target, name in kinds:
            place = NoteLocation(folder / name, "" if owner == YOURS else owner)
            if place.file.exists():
                yield self._notes(target, owner, place)

    def _notes(self, target: NoteTarget, owner: str, place: NoteLocation) -> Notes:
        settings = self._settings
        limit = settings.user_char_limit if target == "user" else settings.memory_char_limit
        return Notes(target, owner, place, NoteFile(self._folder, place, LOCK_SECONDS), limit)


def _folders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.glob("*") if each.is_dir())


def _owner(folder: Path) -> str:
    """What the file beside the notes says, else the name of the folder."""
    try:
        return (folder / OWNER_FILE).read_text("utf-8", "replace").strip() or folder.name
    except OSError:
        return folder.name
