"""The files of a skill beside its SKILL.md. None of them may lie outside its folder."""

import os
from pathlib import Path

from hermes.skills.reading import decode, is_garbled
from hermes.skills.skill import LINKED_FOLDERS, SKILL_FILE, Skill, SkillInvalid, SkillNotFound
from hermes.util.text import human_size

MOST_LISTED = 60
"""Files that are named when a skill is loaded."""
DEEPEST = 3
LARGEST = 500_000
"""Bytes of a file that is shown."""


def linked_files(folder: Path) -> tuple[str, ...]:
    """Paths below the folder of a skill, those in the usual folders first."""
    found = [
        path.relative_to(folder).as_posix()
        for path in _files(folder, DEEPEST)
        if inside(path, folder)
    ]
    found = [name for name in found if name != SKILL_FILE and name.isprintable()]
    return tuple(sorted(found, key=_rank))


def listing(names: tuple[str, ...]) -> str:
    """The files by folder, on a line each; "" for none."""
    by_folder: dict[str, list[str]] = {}
    for name in names[:MOST_LISTED]:
        folder, slash, rest = name.partition("/")
        by_folder.setdefault(folder if slash else "", []).append(rest if slash else name)
    lines = [
        f"{folder}/: {', '.join(files)}" if folder else ", ".join(files)
        for folder, files in by_folder.items()
    ]
    if len(names) > MOST_LISTED:
        lines.append(f"and {len(names) - MOST_LISTED:,} more")
    return "\n".join(lines)


def read_linked(skill: Skill, name: str) -> str:
    """The text of one file. Raises `SkillNotFound` and `SkillInvalid`."""
    path = skill.folder / name.strip()
    if (
        name.startswith(("/", "~", "\\"))
        or ".." in Path(name).parts
        or not inside(path, skill.folder)
    ):
        raise SkillInvalid(
            f"{name} lies outside the folder of the skill {skill.name!r}",
            hint="only files of the skill itself can be read this way",
        )
    try:
        if not path.is_file():
            raise _absent(skill, name)
        size = path.stat().st_size
        if size > LARGEST:
            raise SkillInvalid(
                f"{path} is too large to show: {human_size(size)}, and the limit is "
                f"{human_size(LARGEST)}",
                hint="look at a part of it, with read_file or a command such as head",
            )
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SkillInvalid(f"{name} cannot be read: {reason}") from error
    try:
        text: str | None = decode(data)[0]
    except SkillInvalid:
        text = None
    if text is None or is_garbled(text):
        return f"[{path} holds no text: {human_size(len(data))}]"
    return text


def _absent(skill: Skill, name: str) -> SkillNotFound:
    names = listing(linked_files(skill.folder))
    return SkillNotFound(
        f"the skill {skill.name!r} has no file {name}",
        hint=f"it has:\n{names}" if names else "it has no further files",
    )


def _files(folder: Path, depth: int) -> list[Path]:
    """Without hidden ones and caches."""
    try:
        with os.scandir(folder) as entries:
            inside = sorted((each.name, each.is_dir()) for each in entries)
    except OSError:
        return []
    found: list[Path] = []
    for name, is_folder in inside:
        if name.startswith(".") or name == "__pycache__":
            continue
        if not is_folder:
            found.append(folder / name)
        elif depth > 1:
            found += _files(folder / name, depth - 1)
    return found


def inside(path: Path, folder: Path) -> bool:
    """Links followed: one that leads out of the folder is no file of it."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # a link to itself, a NUL
        return False


def _rank(name: str) -> tuple[int, str]:
    folder = name.partition("/")[0]
    known = folder in LINKED_FOLDERS and "/" in name
    return LINKED_FOLDERS.index(folder) if known else len(LINKED_FOLDERS), name
