"""Changed copies of skills that are not changed in place, and the marks of their origin."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes.skills.changes import walk_files
from hermes.skills.skill import MAX_SKILL_DEPTH, Skill, Source
from hermes.util.files import write_bytes

MARK_FILE = ".overlay.json"


class SkillOverlay(msgspec.Struct, frozen=True):
    """The mark in the folder of a changed copy."""

    name: str
    source: Source  #: The source of the original.
    hash: str  #: The `content_hash` of the original when it was copied.
    version: str = ""


def read_overlay(folder: Path) -> SkillOverlay | None:
    """Return the mark of a folder, or None when it is not a changed copy."""
    try:
        return parse_mark((folder / MARK_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.DecodeError:
        return SkillOverlay(folder.name, Source.EXTERNAL, "")


def parse_mark(data: bytes) -> SkillOverlay:
    """Parse a mark file. Raises `msgspec.DecodeError`."""
    return msgspec.json.decode(data, type=SkillOverlay)


def find_copy(name: str, home: Path) -> Path | None:
    """Return the folder below `<home>/skills` with the copy of the skill `name`, or None."""
    for depth in range(1, MAX_SKILL_DEPTH + 1):
        for mark in sorted(home.glob("[!.]*/" * depth + MARK_FILE)):
            overlay = read_overlay(mark.parent)
            if overlay is not None and overlay.name == name:
                return mark.parent
    return None


def content_hash(folder: Path) -> str:
    """Return a hash of the files that does not depend on location, times or system files."""
    total = hashlib.sha256()
    for path in sorted(list_files(folder)):
        inner = hashlib.sha256((folder / path).read_bytes()).hexdigest()
        total.update(f"{inner}  ".encode() + os.fsencode(path) + b"\n")
    return f"sha256:{total.hexdigest()}"


def list_files(folder: Path) -> Iterator[str]:
    """Yield the regular files of a skill as relative paths. Links are skipped: they may lead
    anywhere."""
    for name in walk_files(folder):
        path = folder / name
        if path.is_file() and not path.is_symlink() and path.name != MARK_FILE:
            yield name


def copy_skill(skill: Skill, target: Path) -> None:
    """Copy the files of `skill` to the new folder `target` and add the mark."""
    for path in list_files(skill.folder):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(skill.folder / path, target / path)
        mode = (skill.folder / path).stat().st_mode
        (target / path).chmod(0o755 if mode & 0o100 else 0o644)
    mark = SkillOverlay(skill.name, skill.source, content_hash(skill.folder), skill.version)
    write_bytes(target / MARK_FILE, msgspec.json.encode(mark), mode=0o644)
