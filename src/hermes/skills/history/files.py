"""Files as git knows them, and putting them into the folder of skills."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from hermes.skills.skill import LINKED_FOLDERS
from hermes.util.atomic import write_bytes

LINK = "120000"
EXECUTABLE = "100755"
REGULAR = ("100644", EXECUTABLE)
RETIRED = ".retired"
"""The folder of skills that are kept, but not used any more."""

_UNFINISHED = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")
"""How `util.atomic` calls a file that is not yet in its place."""


class Entry(msgspec.Struct, frozen=True):
    """A file in a tree."""

    mode: str
    id: str


class Put(msgspec.Struct, frozen=True):
    """What becomes of one path; None takes the file away."""

    path: str
    entry: Entry | None


def skills_of(paths: Iterator[str]) -> tuple[str, ...]:
    """The names of the skills that files belong to, as far as their paths tell."""
    found: dict[str, None] = {}
    for path in paths:
        folders = [each for each in PurePosixPath(path).parts[:-1] if each != RETIRED]
        linked = next((n for n, each in enumerate(folders) if n and each in LINKED_FOLDERS), None)
        if name := folders[:linked][-1:]:
            found[name[0]] = None
    return tuple(sorted(found))


def reachable(workspace: Path, path: str) -> bool:
    """Whether `path` can be written without following a link or replacing a folder."""
    place = workspace
    for part in PurePosixPath(path).parts[:-1]:
        place /= part
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            return False
    return (workspace / path).is_symlink() or not (workspace / path).is_dir()


def put(workspace: Path, wanted: Put, content: Callable[[str], bytes]) -> None:
    """Make it so. `content` gives the bytes of an id."""
    target = workspace / wanted.path
    if not reachable(workspace, wanted.path):
        raise OSError(f"{wanted.path} cannot be reached")
    if wanted.entry is None:
        target.unlink(missing_ok=True)
        drop_empty(target.parent, workspace)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    data = content(wanted.entry.id)
    if target.is_symlink() or wanted.entry.mode == LINK:
        target.unlink(missing_ok=True)
    if wanted.entry.mode == LINK:
        target.symlink_to(os.fsdecode(data))
    else:
        write_bytes(target, data, mode=0o755 if wanted.entry.mode == EXECUTABLE else 0o644)


def sweep(workspace: Path, path: str) -> None:
    """Remove what a process that died while it replaced a file at or below `path` left there."""
    place = workspace / path
    for left in place.rglob(".*.tmp") if place.is_dir() else place.parent.glob(".*.tmp"):
        if _UNFINISHED.fullmatch(left.name) and left.is_file():
            left.unlink(missing_ok=True)


def drop_empty(folder: Path, stop: Path) -> None:
    """Remove folders that hold nothing, from `folder` up to below `stop`."""
    with contextlib.suppress(OSError):  # not empty, or gone
        while folder != stop and stop in folder.parents:
            folder.rmdir()
            folder = folder.parent
