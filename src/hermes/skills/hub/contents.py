"""The files of one skill, from folders and archives: which are accepted, and errors of the hub."""

import gzip
import hashlib
import io
import os
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath

import msgspec

from hermes.core.errors import HermesError
from hermes.skills.parse import decode, parse_skill
from hermes.skills.skill import SKILL_FILE, Skill, SkillInvalid, SkillRoot, Source

# Errors
#
#     HermesError
#     └── HubError
#         ├── SourceUnreachable   the service did not answer, or not as expected
#         │   └── HubRateLimited     its rate limit is reached
#         ├── NotAvailable        no such skill, folder, branch or repository
#         ├── InvalidContent      the files are not an acceptable skill
#         └── InstallRefused      the scan or the user refused it

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError)
"""Raised when data is not the expected JSON."""


class HubError(HermesError):
    """A failure of the hub. Unprintable characters of foreign texts are replaced."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(_printable(message), hint=_printable(hint))


class SourceUnreachable(HubError):
    pass


class HubRateLimited(SourceUnreachable):
    pass


class NotAvailable(HubError):
    exit_code = 2


class InvalidContent(HubError):
    pass


class InstallRefused(HubError):
    pass


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


MAX_BYTES = 10 * 1024 * 1024  #: Limit for all files of a skill together.
MAX_FILES = 200
MAX_FILE_NAME = 200
MAX_DEPTH = 8
SYSTEM_LEFTOVERS = frozenset({"__pycache__", ".DS_Store"})

SkillFiles = Mapping[str, bytes]


def check_file_name(name: str) -> str:
    """Return `name` if it is a path inside the skill folder. Raises `InvalidContent`."""
    parts = name.split("/")
    plain = all(char.isprintable() and char not in '\\:*?"<>|' for char in name)
    if not plain or any(part in ("", ".", "..") or part != part.strip() for part in parts):
        raise InvalidContent(f"one of its file names is not allowed: {name!r}")
    if len(name) > MAX_FILE_NAME or len(parts) > MAX_DEPTH:
        raise InvalidContent(f"one of its file names is too long: {name[:60]!r}…")
    return name


def is_hidden(name: str) -> bool:
    """Whether a file is not part of a skill: `.git`, `.DS_Store`, caches. `..` is not hidden."""
    parts = PurePosixPath(name).parts
    return any(part == "__pycache__" or (part[0] == "." and part != "..") for part in parts)


def check_files(files: SkillFiles) -> dict[str, bytes]:
    """Return the files to store. Raises `InvalidContent` for bad names, sizes and counts."""
    accepted = {check_file_name(name): data for name, data in files.items() if not is_hidden(name)}
    check_size(len(accepted), sum(map(len, accepted.values())))
    _check_clashes(accepted)
    if SKILL_FILE not in accepted:
        raise InvalidContent(
            f"there is no {SKILL_FILE} in it", hint="name the folder that holds one"
        )
    return accepted


def check_size(count: int, size: int) -> None:
    if count > MAX_FILES:
        raise InvalidContent(f"it has more than {MAX_FILES} files")
    if size > MAX_BYTES:
        raise InvalidContent(f"it is larger than {MAX_BYTES // 1024**2} MiB")


def _check_clashes(names: Iterable[str]) -> None:
    """Reject names that some file systems treat as equal, or as a file and a folder."""
    seen: dict[str, str] = {}
    for name in names:
        folded = unicodedata.normalize("NFC", name).casefold()
        if folded in seen:
            raise InvalidContent(
                f"two of its files have the same name: {seen[folded]!r} and {name!r}"
            )
        seen[folded] = name
    for folded, name in seen.items():
        parents = PurePosixPath(folded).parents
        if any(str(parent) in seen for parent in parents):
            raise InvalidContent(f"{name!r} is below another of its files")


def file_hashes(files: SkillFiles) -> dict[str, str]:
    """Return the SHA-256 of each file by name, sorted."""
    return {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}


def combined_hash(each: Mapping[str, str]) -> str:
    """Return one hash for all files: of the sorted lines `hash  name`."""
    lines = "".join(f"{each[name]}  {name}\n" for name in sorted(each))
    return hashlib.sha256(lines.encode()).hexdigest()


def write_folder(folder: Path, files: SkillFiles) -> None:
    """Create a folder with the files. Files with a shebang become executable."""
    folder.mkdir(mode=0o700, parents=True)
    for name, data in files.items():
        path = folder / check_file_name(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o700 if data.startswith(b"#!") else 0o600)


def make_private_folder(folder: Path) -> None:
    """Create a folder and its parents, accessible to the owner only."""
    if not folder.is_dir():
        make_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def read_folder(folder: Path, *, hidden: bool = False) -> dict[str, bytes]:
    """Return the files of a local folder.

    With `hidden`, files that are not part of a skill are included, except what Python and desktops
    leave behind. Links are refused, because they may lead anywhere. Raises `InvalidContent` and
    OSError.
    """

    def is_included(name: str) -> bool:
        return name not in SYSTEM_LEFTOVERS if hidden else not is_hidden(name)

    files: dict[str, bytes] = {}
    size = 0
    for here, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = filter(is_included, folders)
        for path in (Path(here, name) for name in (*folders, *filter(is_included, names))):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                raise InvalidContent(f"{name} is a link", hint="put the file itself there")
            if path.is_file():
                size += path.stat().st_size
                check_size(len(files) + 1, size)
                files[name] = path.read_bytes()
    return dict(sorted(files.items()))


def _raise(error: OSError) -> None:
    """Raise: an unreadable folder must not look like an empty one."""
    raise error


# Untrusted archives. Nothing is unpacked to disk: wanted files are read into memory, names are
# checked, links and devices are skipped or refused, and the total size is limited.

MAX_MEMBERS = 100_000
MAX_UNPACKED_BYTES = 512 * 1024 * 1024
"""Limit for the decompressed size: a small file can expand without end."""

NameFilter = Callable[[str], bool]


def read_tar(data: bytes, wanted: NameFilter, *, below_top: bool = False) -> dict[str, bytes]:
    """Return the wanted files of a .tar.gz. `below_top` removes the common top folder.

    Raises `InvalidContent` for a wanted member that is not a regular file, and above the size
    limit.
    """
    return _collect(tar_members(data, below_top=below_top), wanted)


def tar_members(data: bytes, *, below_top: bool = False) -> "Iterator[ArchiveMember]":
    """Yield every entry except folders. Read an entry before requesting the next one."""
    with _archive_errors(), tarfile.open(fileobj=_LimitedGzip(data), mode="r|") as archive:
        yield from _tar_members_of(archive, below_top)


def read_archive(data: bytes, wanted: NameFilter) -> dict[str, bytes]:
    """Return the wanted files of a .zip or .tar.gz, with the same rules as `read_tar`."""
    if not data.startswith(b"PK"):
        return read_tar(data, wanted)
    with _archive_errors(), zipfile.ZipFile(io.BytesIO(data)) as archive:
        return _collect(_zip_members(archive), wanted)


ArchiveMember = tuple[str, int, Callable[[], bytes] | None]
"""Name, size and a function that reads it; None for anything but a regular file."""


def _collect(members: Iterator[ArchiveMember], wanted: NameFilter) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    size = 0
    for name, length, read in members:
        if not wanted(name):
            continue
        if read is None:
            raise InvalidContent(f"{name!r} in the archive is a link or a device")
        if check_file_name(name) in files:
            raise InvalidContent(f"{name!r} is in the archive twice")
        size += length
        check_size(len(files) + 1, size)
        files[name] = read()
    return files


def _tar_members_of(archive: tarfile.TarFile, below_top: bool) -> Iterator[ArchiveMember]:
    for number, member in enumerate(archive):
        if number >= MAX_MEMBERS:
            raise InvalidContent(f"the archive has more than {MAX_MEMBERS:,} entries")
        if member.isdir():
            continue
        name = member.name.removeprefix("./")
        if below_top:
            name = name.partition("/")[2]
        file = archive.extractfile(member) if member.isreg() else None
        yield name, member.size, file.read if file else None


def _zip_members(archive: zipfile.ZipFile) -> Iterator[ArchiveMember]:
    entries = archive.infolist()
    if len(entries) > MAX_MEMBERS:
        raise InvalidContent(f"the archive has more than {MAX_MEMBERS:,} entries")
    for entry in entries:
        if entry.is_dir():
            continue
        kind = (entry.external_attr >> 16) & 0o170000
        reader = partial(_read_zip_entry, archive, entry)
        yield entry.filename, entry.file_size, reader if kind in (0, 0o100000) else None


def _read_zip_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as file:
        # The declared size may be wrong; reading one byte more reveals it.
        data = file.read(entry.file_size + 1)
    if len(data) > entry.file_size:
        raise InvalidContent(f"{entry.filename!r} in the archive is larger than it says")
    return data


class _LimitedGzip(gzip.GzipFile):
    """A gzip stream with a limit for its decompressed size."""

    def __init__(self, data: bytes) -> None:
        super().__init__(fileobj=io.BytesIO(data), mode="rb")
        self._total = 0

    def read(self, size: int | None = -1) -> bytes:
        piece = super().read(size)
        self._total += len(piece)
        if self._total > MAX_UNPACKED_BYTES:
            raise InvalidContent(
                f"the archive unpacks to more than {MAX_UNPACKED_BYTES // 1024**2} MiB"
            )
        return piece


_ARCHIVE_ERRORS = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError,
    # An encrypted entry, an unknown compression method or an invalid header.
    RuntimeError, ValueError, OSError,
)  # fmt: skip


@contextmanager
def _archive_errors() -> Iterator[None]:
    try:
        yield
    except _ARCHIVE_ERRORS as error:
        raise InvalidContent(f"the archive cannot be read: {error}") from error


# Parsing the SKILL.md of a fetched skill

PLACEHOLDER_FOLDER = Path("skill")
MAX_CATEGORY_LENGTH = 64


class ListedSkill(msgspec.Struct, frozen=True):
    """A skill of a repository."""

    folder: str  #: Relative to the repository; "" is the top.
    name: str
    description: str


def list_skill(folder: str, data: bytes, name: str = "") -> ListedSkill:
    """Return a skill for a list; without a name of its own it gets `name` or that of its folder."""
    try:
        skill = _parse(data, PLACEHOLDER_FOLDER)
    except SkillInvalid:
        return ListedSkill(folder, name or folder.rpartition("/")[2], "")
    return ListedSkill(folder, skill.name, skill.description)


def parse_files(files: SkillFiles, folder: str = "") -> Skill:
    """Return the skill that these files contain; `folder` is its name if it has no other.

    Raises `InvalidContent` when it would not load.
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
    """Return a category as a folder name, or "" when it cannot be one."""
    plain = "-".join(text.lower().replace("/", " ").split())[:MAX_CATEGORY_LENGTH]
    usable = all(char.isalnum() or char in "-_" for char in plain)
    return plain if usable and not is_hidden(plain) else ""


def _parse(data: bytes, folder: Path) -> Skill:
    text, warnings = decode(data)
    return parse_skill(text, folder, SkillRoot(folder, Source.HUB), warnings)
