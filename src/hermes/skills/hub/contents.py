"""The files of one skill, by name: what may be among them, and the hashes they are known by."""

import hashlib
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from hermes.core.errors import HermesError
from hermes.skills.parse import decode, skill_of
from hermes.skills.skill import SKILL_FILE, Root, Skill, SkillInvalid, Source

# What can go wrong between this machine and a skill somewhere else.
#
# HermesError
# └── HubError
#     ├── Unreachable      the service did not answer, or not sensibly
#     │   └── RateSpent    it answers no more questions for now
#     ├── NotThere         there is no such skill, folder, branch or repository
#     ├── Unfit            what came is no skill we would put on a disk
#     └── Refused          the scan, or the user, said no

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)
"""What decoding raises for what is not the JSON that was expected."""


class HubError(HermesError):
    """What strangers wrote may be part of it: no character of it steers a terminal."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(_printable(message), hint=_printable(hint))


class Unreachable(HubError):
    pass


class RateSpent(Unreachable):
    pass


class NotThere(HubError):
    exit_code = 2


class Unfit(HubError):
    pass


class Refused(HubError):
    pass


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


MOST_BYTES = 10 * 1024 * 1024
"""Of all files of a skill together."""
MOST_FILES = 200
LONGEST_NAME = 200
DEEPEST = 8
LEFT_BEHIND = frozenset({"__pycache__", ".DS_Store"})

Files = Mapping[str, bytes]


def safe_name(name: str) -> str:
    """`name` when it can only be a file below the skill's folder. Raises `Unfit`."""
    parts = name.split("/")
    plain = all(char.isprintable() and char not in '\\:*?"<>|' for char in name)
    if not plain or any(part in ("", ".", "..") or part != part.strip() for part in parts):
        raise Unfit(f"a file of it is called {name!r}, which is not kept")
    if len(name) > LONGEST_NAME or len(parts) > DEEPEST:
        raise Unfit(f"the name of a file of it is too long: {name[:60]!r}…")
    return name


def is_hidden(name: str) -> bool:
    """Whether it is no part of a skill: `.git`, `.DS_Store`, caches. `..` is bad, not hidden."""
    parts = PurePosixPath(name).parts
    return any(part == "__pycache__" or (part[0] == "." and part != "..") for part in parts)


def checked(files: Files) -> dict[str, bytes]:
    """The files that are kept. Raises `Unfit` for names, sizes and numbers that are not taken."""
    kept = {safe_name(name): data for name, data in files.items() if not is_hidden(name)}
    check_size(len(kept), sum(map(len, kept.values())))
    _check_clashes(kept)
    if SKILL_FILE not in kept:
        raise Unfit(f"there is no {SKILL_FILE} in it", hint="name the folder that holds one")
    return kept


def check_size(count: int, size: int) -> None:
    if count > MOST_FILES:
        raise Unfit(f"it has more than {MOST_FILES} files")
    if size > MOST_BYTES:
        raise Unfit(f"it is larger than {MOST_BYTES // 1024**2} MiB")


def _check_clashes(names: Iterable[str]) -> None:
    """Names that some file systems take for the same, or for a file and a folder at once."""
    seen: dict[str, str] = {}
    for name in names:
        folded = unicodedata.normalize("NFC", name).casefold()
        if folded in seen:
            raise Unfit(f"two files of it have one name: {seen[folded]!r} and {name!r}")
        seen[folded] = name
    for folded, name in seen.items():
        parents = PurePosixPath(folded).parents
        if any(str(parent) in seen for parent in parents):
            raise Unfit(f"{name!r} lies below a file of it")


def hashes(files: Files) -> dict[str, str]:
    """SHA-256 of each file, by name, in order."""
    return {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}


def whole_hash(each: Mapping[str, str]) -> str:
    """One hash for all: of the lines `hash  name`, in order."""
    lines = "".join(f"{each[name]}  {name}\n" for name in sorted(each))
    return hashlib.sha256(lines.encode()).hexdigest()


def write_folder(folder: Path, files: Files) -> None:
    """A new folder with the files. A script that says what runs it may be run."""
    folder.mkdir(parents=True)
    for name, data in files.items():
        path = folder / safe_name(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if data.startswith(b"#!") else 0o644)


def private_folder(folder: Path) -> None:
    """Makes it and what is missing above it; only the owner may look inside."""
    if not folder.is_dir():
        private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def read_folder(folder: Path, *, hidden: bool = False) -> dict[str, bytes]:
    """The files of a folder on this machine; with `hidden`, those that are no part of a skill too,
    but for what Python and desktops leave behind.

    A link is no file: it may lead anywhere. Raises `Unfit`, and OSError.
    """
    files: dict[str, bytes] = {}
    size = 0
    for path in _found(folder, hidden):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise Unfit(f"{name} is a link", hint="put the file itself there")
        if path.is_file():
            size += path.stat().st_size
            check_size(len(files) + 1, size)
            files[name] = path.read_bytes()
    return dict(sorted(files.items()))


def _found(folder: Path, hidden: bool) -> Iterator[Path]:
    """Everything below a folder; one that is left out is not even looked into."""

    def kept(name: str) -> bool:
        return name not in LEFT_BEHIND if hidden else not is_hidden(name)

    for here, folders, names in os.walk(folder, onerror=_raised):
        folders[:] = filter(kept, folders)
        yield from (Path(here, name) for name in (*folders, *filter(kept, names)))


def _raised(error: OSError) -> None:
    """A folder that cannot be read is not an empty one."""
    raise error


# What the SKILL.md of a stranger says, before any of it lies on a disk.

NOWHERE = Path("skill")
LONGEST_CATEGORY = 64


class Head(NamedTuple):
    name: str = ""
    description: str = ""


def head_of(data: bytes) -> Head:
    """Name and description for a list; empty ones when it cannot be read."""
    try:
        skill = _parsed(data, NOWHERE)
    except SkillInvalid:
        return Head()
    return Head(skill.name, skill.description)


def skill_in(files: Files, folder: str = "") -> Skill:
    """The skill that these files are; `folder` is what it is called without a name of its own.

    Raises `Unfit` for one that would not load.
    """
    try:
        skill = _parsed(files[SKILL_FILE], Path(folder or NOWHERE))
        safe_name(skill.name)
    except SkillInvalid as error:
        raise Unfit(f"its {SKILL_FILE} cannot be used: {error}", hint=error.hint) from error
    return skill


def category_name(text: str) -> str:
    """A category as the name of a folder; "" when it cannot be one."""
    plain = "-".join(text.lower().replace("/", " ").split())[:LONGEST_CATEGORY]
    usable = all(char.isalnum() or char in "-_" for char in plain)
    return plain if usable and not is_hidden(plain) else ""


def _parsed(data: bytes, folder: Path) -> Skill:
    text, warnings = decode(data)
    return skill_of(text, folder, Root(folder, Source.HUB), warnings)
