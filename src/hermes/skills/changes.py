"""A recorded change of skills: what was done to which files, by whom and why."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path, PurePosixPath

import msgspec

from hermes.skills.skill import LINKED_FOLDERS

# Changes and commits

BY_HAND = "changed by hand"
AS_FOUND = "as it was before the first recorded change"
MAX_REASON_LENGTH = 500
SHORT_ID_LENGTH = 8  #: Characters of an id that are displayed.

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


class Author(StrEnum):
    AGENT = "agent"
    REVIEW = "review"  #: The review after a piece of work.
    USER = "user"
    HUB = "hub"


class SkillChange(msgspec.Struct, frozen=True):
    """A change that is about to be made."""

    action: str  #: create, patch, edit, delete, …, undo, retire; "by hand" for manual changes.
    skills: tuple[str, ...]
    reason: str
    who: Author
    session: str = ""
    paths: tuple[str, ...] = ()
    """Files and folders it touches, relative to the skill folder; empty means any."""
    undoes: str = ""  #: The id of the change that it undoes.


class SkillCommit(msgspec.Struct, frozen=True):
    """A recorded change."""

    id: str
    at: float  #: Seconds since 1970.
    action: str
    skills: tuple[str, ...]
    reason: str
    who: str
    session: str = ""
    undoes: str = ""

    @property
    def short(self) -> str:
        return self.id[:SHORT_ID_LENGTH]

    @property
    def label(self) -> str:
        """The id and the reason, for messages."""
        return f"{self.short} ({self.reason})"


def format_message(change: SkillChange) -> str:
    """Return the commit message: the reason, then one `Key: value` a line as in git trailers."""
    reason = _one_line(change.reason)[:MAX_REASON_LENGTH] or " ".join(
        (change.action, *change.skills)
    )
    trailers = [
        *(("Skill", name) for name in change.skills),
        ("Action", change.action),
        ("By", change.who.value),
        ("Session", change.session),
        ("Undoes", change.undoes),
    ]
    lines = [f"{key}: {_one_line(value)}" for key, value in trailers if value]
    return "\n".join((reason, "", *lines, ""))


def parse_commit(commit_id: str, at: str, message: str) -> SkillCommit:
    """The inverse of `format_message`; missing values of a foreign commit are ""."""
    reason, _, rest = message.strip("\n").partition("\n")
    found: dict[str, list[str]] = {}
    for line in rest.splitlines():
        key, colon, value = line.partition(": ")
        if colon:
            found.setdefault(key, []).append(value)
    return SkillCommit(
        id=commit_id,
        at=float(at),
        action=found.get("Action", [""])[0],
        skills=tuple(found.get("Skill", ())),
        reason=reason,
        who=found.get("By", [""])[0],
        session=found.get("Session", [""])[0],
        undoes=found.get("Undoes", [""])[0],
    )


def _one_line(text: str) -> str:
    """Return the text on one line, so that a reason cannot contain a trailer."""
    return " ".join(_CONTROL.sub(" ", text).split())


# Files of skills

RETIRED = ".retired"  #: The folder of skills that are archived but not used.
SKIPPED_FOLDERS = frozenset({".git", "__pycache__", "node_modules", ".venv"})


def walk_files(folder: Path | str) -> Iterator[str]:
    """Yield everything below a folder that is not a folder, as relative paths."""
    for place, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if each not in SKIPPED_FOLDERS]
        relative = Path(place).relative_to(folder)
        yield from (str(relative / file) for file in files)


def skill_names(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the skills to which files belong, judged by their paths."""
    found: dict[str, None] = {}
    for path in paths:
        folders = [each for each in PurePosixPath(path).parts[:-1] if each != RETIRED]
        linked = next((n for n, each in enumerate(folders) if n and each in LINKED_FOLDERS), None)
        if name := folders[:linked][-1:]:
            found[name[0]] = None
    return tuple(sorted(found))


def is_reachable(workspace: Path, path: str) -> bool:
    """Whether `path` can be written without following a link or replacing a folder."""
    place = workspace
    for part in PurePosixPath(path).parts[:-1]:
        place /= part
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            return False
    return (workspace / path).is_symlink() or not (workspace / path).is_dir()


def remove_empty_folders(folder: Path, stop: Path) -> None:
    """Remove empty folders from `folder` upwards, excluding `stop`."""
    with contextlib.suppress(OSError):  # not empty, or gone
        while folder != stop and stop in folder.parents:
            folder.rmdir()
            folder = folder.parent
