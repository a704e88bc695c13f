"""The memory every agent has: short notes in files, and a profile of the user."""

from pathlib import Path

import msgspec

from hermes.core.errors import ToolArgumentsInvalid
from hermes.memory.notebook import Notebook, Scan
from hermes.memory.notes import NoteFile
from hermes.memory.places import Place, Scope, Target, places


class MemoryOptions(msgspec.Struct, frozen=True):
    memory_enabled: bool = True
    """`memory.memory_enabled`: notes of every kind, general, of projects and of chats."""
    user_profile_enabled: bool = True
    """`memory.user_profile_enabled`"""
    memory_char_limit: int = 2200
    """`memory.memory_char_limit`: characters of each file with notes."""
    user_char_limit: int = 1375
    """`memory.user_char_limit`: characters of the profile."""
    lock_seconds: float = 10
    """How long a write waits for other processes."""


class Snapshot(msgspec.Struct, frozen=True):
    """Finished texts for the system prompt; "" when there is nothing to tell."""

    memory: str = ""
    """Notes in general, on the project and on the chat."""
    user: str = ""


HEADINGS: dict[Target, str] = {
    "memory": "Memory: your notes from earlier sessions",
    "project": "Notes on the project",
    "chat": "Notes on this chat",
    "user": "About the user",
}


class BuiltinMemory:
    """Every call reads the files anew: other processes and people write them too. Calls block for
    as long as the disk takes, and writes for as long as others hold the lock."""

    def __init__(self, notebooks: dict[Target, Notebook]) -> None:
        self._notebooks = notebooks

    @property
    def targets(self) -> tuple[Target, ...]:
        """What can be written to; empty when memory is switched off."""
        return tuple(self._notebooks)

    def notebook(self, target: str) -> Notebook:
        """The notes of a target. Raises `ToolArgumentsInvalid` for one that is not there."""
        for name, found in self._notebooks.items():
            if name == target:
                return found
        known = " or ".join(self.targets) or "nothing: memory is switched off"
        raise ToolArgumentsInvalid(f"there is no target {target!r} here", hint=f"use {known}")

    def snapshot(self) -> Snapshot:
        """What the system prompt of a new session says, as the files are now. It never raises: a
        file that cannot be read is named in the text."""
        sections = {target: notes.section() for target, notes in self._notebooks.items()}
        profile = sections.pop("user", "")
        return Snapshot("\n\n".join(filter(None, sections.values())), profile)


def open_memory(folder: Path, scope: Scope, options: MemoryOptions, scan: Scan) -> BuiltinMemory:
    """The memory of a session. `folder` is `<home>/memories`; the first write makes it.
    `scan` is `hermes.security.injection.scan`."""

    def notebook(target: Target, place: Place) -> Notebook:
        file = NoteFile(folder, place, options.lock_seconds)
        limit = options.user_char_limit if target == "user" else options.memory_char_limit
        about = " ".join(place.about.split())
        heading = HEADINGS[target] if not about or scan(about) else f"{HEADINGS[target]} {about}"
        return Notebook(target, heading, file, limit, scan)

    enabled = {
        target: options.user_profile_enabled if target == "user" else options.memory_enabled
        for target in HEADINGS
    }
    return BuiltinMemory(
        {
            target: notebook(target, place)
            for target, place in places(folder, scope).items()
            if enabled[target]
        }
    )
