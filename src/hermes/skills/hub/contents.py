"""The files of one skill, by name: what may be among them, and the hashes they are known by."""

import hashlib
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from hermes.core.errors import HermesError
from hermes.skills.parse import decode, parse_skill
from hermes.skills.skill import SKILL_FILE, Skill, SkillInvalid, SkillRoot, Source

# What can go wrong between this machine and a skill somewhere else.
#
# HermesError
# └── HubError
#     ├── Unreachable      the service did not answer, or not sensibly
#     │   └── RateSpent    it answers no more questions for now
#     ├── NotThere         there is no such skill, folder, branch or repository
#     ├── Unfit            what came is no skill we would put on a disk
#     └── Refused          the scan, or the user, said no

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError)
"""What decoding raises for what is not the JSON that was expected."""


class HubError(HermesError):
    """What strangers wrote may be part of it: no character of it steers a terminal."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(_printable(message), hint=_printable(hint))


class SourceUnreachable(HubError):
    pass


class RateLimited(SourceUnreachable):
    pass


class NotAvailable(HubError):
    exit_code = 2


class InvalidContent(HubError):
    pass


class InstallRefused(HubError):
    pass


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


MAX_BYTES = 10 * 1024 * 1024
"""Of all files of a skill together."""
MAX_FILES = 200
MAX_FILE_NAME = 200
MAX_DEPTH = 8
SYSTEM_LEFTOVERS = frozenset({"__pycache__", ".DS_Store"})

SkillFiles = Mapping[str, bytes]


def check_file_name(name: str) -> str:
    """`name` when it can only be a file below the skill's folder. Raises `Unfit`."""
    parts = name.split("/")
    plain = all(char.isprintable() and char not in '\\:*?"<>|' for char in name)
    if not plain or any(part in ("", ".", "..") or part != part.strip() for part in parts):
        raise InvalidContent(f"a file of it is called {name!r}, which is not kept")
    if len(name) > MAX_FILE_NAME or len(parts) > MAX_DEPTH:
        raise InvalidContent(f"the name of a file of it is too long: {name[:60]!r}…")
    return name


def is_hidden(name: str) -> bool:
    """Whether it is no part of a skill: `.git`, `.DS_Store`, caches. `..` is bad, not hidden."""
    parts = PurePosixPath(name).parts
    return any(part == "__pycache__" or (part[0] == "." and part != "..") for part in parts)


def check_files(files: SkillFiles) -> dict[str, bytes]:
    """The files that are kept. Raises `Unfit` for names, sizes and numbers that are not taken."""
    kept = {check_file_name(name): data for name, data in files.items() if not is_hidden(name)}
    check_size(len(kept), sum(map(len, kept.values())))
    _check_clashes(kept)
    if SKILL_FILE not in kept:
        raise InvalidContent(
            f"there is no {SKILL_FILE} in it", hint="name the folder that holds one"
        )
    return kept


def check_size(count: int, size: int) -> None:
    if count > MAX_FILES:
        raise InvalidContent(f"it has more than {MAX_FILES} files")
    if size > MAX_BYTES:
        raise InvalidContent(f"it is larger than {MAX_BYTES // 1024**2} MiB")


def _check_clashes(names: Iterable[str]) -> None:
    """Names that some file systems take for the same, or for a file and a folder at once."""
    seen: dict[str, str] = {}
    for name in names:
        folded = unicodedata.normalize("NFC", name).casefold()
        if folded in seen:
            raise InvalidContent(f"two files of it have one name: {seen[folded]!r} and {name!r}")
        seen[folded] = name
    for folded, name in seen.items():
        parents = PurePosixPath(folded).parents
        if any(str(parent) in seen for parent in parents):
            raise InvalidContent(f"{name!r} lies below a file of it")


def file_hashes(files: SkillFiles) -> dict[str, str]:
    """SHA-256 of each file, by name, in order."""
    return {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}


def combined_hash(each: Mapping[str, str]) -> str:
    """One hash for all: of the lines `hash  name`, in order."""
    lines = "".join(f"{each[name]}  {name}\n" for name in sorted(each))
    return hashlib.sha256(lines.encode()).hexdigest()


def write_folder(folder: Path, files: SkillFiles) -> None:
    """A new folder with the files. A script that says what runs it may be run."""
    folder.mkdir(parents=True)
    for name, data in files.items():
        path = folder / check_file_name(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if data.startswith(b"#!") else 0o644)


def make_private_folder(folder: Path) -> None:
    """Makes it and what is missing above it; only the owner may look inside."""
    if not folder.is_dir():
        make_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def read_folder(folder: Path, *, hidden: bool = False) -> dict[str, bytes]:
    """The files of a folder on this machine; with `hidden`, those that are no part of a skill too,
    but for what Python and desktops leave behind.

    A link is no file: it may lead anywhere. Raises `Unfit`, and OSError.
    """
    files: dict[str, bytes] = {}
    size = 0
    for path in _walk(folder, hidden):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise InvalidContent(f"{name} is a link", hint="put the file itself there")
        if path.is_file():
            size += path.stat().st_size
            check_size(len(files) + 1, size)
            files[name] = path.read_bytes()
    return dict(sorted(files.items()))


def _walk(folder: Path, hidden: bool) -> Iterator[Path]:
    """Everything below a folder; one that is left out is not even looked into."""

    def kept(name: str) -> bool:
        return name not in SYSTEM_LEFTOVERS if hidden else not is_hidden(name)

    for here, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = filter(kept, folders)
        yield from (Path(here, name) for name in (*folders, *filter(kept, names)))


def _raise(error: OSError) -> None:
    """A folder that cannot be read is not an empty one."""
    raise error


# What the SKILL.md of a stranger says, before any of it lies on a disk.

PLACEHOLDER_FOLDER = Path("skill")
MAX_CATEGORY_LENGTH = 64


class SkillSummary(NamedTuple):
    name: str = ""
    description: str = ""


def read_summary(data: bytes) -> SkillSummary:
    """Name and description for a list; empty ones when it cannot be read."""
    try:
        skill = _parse(data, PLACEHOLDER_FOLDER)
    except SkillInvalid:
        return SkillSummary()
    return SkillSummary(skill.name, skill.description)


def parse_files(files: SkillFiles, folder: str = "") -> Skill:
    """The skill that these files are; `folder` is what it is called without a name of its own.

    Raises `Unfit` for one that would not load.
    """
    try:
        skill = _parse(files[SKILL_FILE], Path(folder or PLACEHOLDER_FOLDER))
        check_file_name(skill.name)
    except SkillInvalid as error:
        raise InvalidContent(
            f"its {SKILL_FILE} cannot be used: {error}", hint=error.hint
        ) from error
    return skill


def normalize_category(text: str) -> str:
    """A category as the name of a folder; "" when it cannot be one."""
    plain = "-".join(text.lower().replace("/", " ").split())[:MAX_CATEGORY_LENGTH]
    usable = all(char.isalnum() or char in "-_" for char in plain)
    return plain if usable and not is_hidden(plain) else ""


def _parse(data: bytes, folder: Path) -> Skill:
    text, warnings = decode(data)
    return parse_skill(text, folder, SkillRoot(folder, Source.HUB), warnings)
