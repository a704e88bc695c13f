"""A changed copy of a skill that is never changed in place: where it came from, and of what."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes.skills.skill import MAX_SKILL_DEPTH, Skill, Source
from hermes.util.atomic import write_bytes

MARK_FILE = ".overlay.json"
SKIPPED_FOLDERS = frozenset({".git", "__pycache__", "node_modules", ".venv"})


class SkillOverlay(msgspec.Struct, frozen=True):
    name: str
    source: Source
    """Of the original."""
    hash: str
    """Of the original, as it was when it was copied; see `content_hash`."""
    version: str = ""


def read_overlay(folder: Path) -> SkillOverlay | None:
    """What the folder of a skill is a changed copy of; None when it is a skill of its own."""
    try:
        return parse_mark((folder / MARK_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.DecodeError:
        return SkillOverlay(folder.name, Source.EXTERNAL, "")


def parse_mark(data: bytes) -> SkillOverlay:
    """What a mark says. Raises `msgspec.DecodeError`."""
    return msgspec.json.decode(data, type=SkillOverlay)


def find_copy(name: str, home: Path) -> Path | None:
    """The folder of the copy below `<home>/skills` that was made of the skill `name`."""
    for depth in range(1, MAX_SKILL_DEPTH + 1):
        for mark in sorted(home.glob("[!.]*/" * depth + MARK_FILE)):
            overlay = read_overlay(mark.parent)
            if overlay is not None and overlay.name == name:
                return mark.parent
    return None


def content_hash(folder: Path) -> str:
    """The same for the same files, whatever their place, their times and what the system left."""
    total = hashlib.sha256()
    for path in sorted(list_files(folder)):
        inner = hashlib.sha256((folder / path).read_bytes()).hexdigest()
        total.update(f"{inner}  ".encode() + os.fsencode(path) + b"\n")
    return f"sha256:{total.hexdigest()}"


def list_files(folder: Path) -> Iterator[str]:
    """Regular files of a skill, as paths below it. A link is no file: it may lead anywhere."""
    for place, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if each not in SKIPPED_FOLDERS]
        for file in files:
            path = Path(place, file)
            if path.is_file() and not path.is_symlink() and file != MARK_FILE:
                yield path.relative_to(folder).as_posix()


def copy_skill(skill: Skill, target: Path) -> None:
    """The files of `skill` in the new folder `target`, with the mark that says so."""
    for path in list_files(skill.folder):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(skill.folder / path, target / path)
        mode = (skill.folder / path).stat().st_mode
        (target / path).chmod(0o755 if mode & 0o100 else 0o644)
    mark = SkillOverlay(skill.name, skill.source, content_hash(skill.folder), skill.version)
    write_bytes(target / MARK_FILE, msgspec.json.encode(mark), mode=0o644)
