"""Backups of a home: selecting files, writing an archive, and reading one that may be untrusted."""

import asyncio
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Literal

import apsw
import msgspec

from hermes import __version__
from hermes.config.home import PROFILES, Home
from hermes.core.errors import HermesError, StoreError, UsageError
from hermes.ops.output_files import report_unusable, report_unwritable
from hermes.store import copy_database as copy_connection
from hermes.store import open_store

# Which files of a home are part of a backup.

Kind = Literal["full", "quick"]
FULL: Kind = "full"
QUICK: Kind = "quick"

QUICK_NAMES = frozenset({
    "config.yaml", ".env", "auth.json", "SOUL.md", "memories", "holographic", "skills",
    "mcp-tokens", "shell-hooks-allowlist.json",
})  # fmt: skip
"""Settings, keys, memories and skills; further `*.json` files are settings of memory providers."""

EXCLUDED = frozenset({
    "cache", "audio_cache", "image_cache", "logs", "models", "snapshots", "sandboxes",
    "checkpoints", ".import", ".import.lock", ".config.lock", "integrity", "rejected",
})  # fmt: skip
"""Entries of the home that can be recreated, are large, or belong to this machine."""

EXCLUDED_ANYWHERE = frozenset({"__pycache__", ".venv", "node_modules", ".DS_Store"})
_TRACES = re.compile(
    r"\..+\.tmp|.+\.(?:sock|pid)|.+\.(?:db|sqlite3?)-(?:wal|shm|journal)"
    r"|state\.db\..+|state-\d{8}-\d{6}\.db|hermes-backup-.+\.zip"
)
"""Files of running processes and earlier copies."""
_DATABASE = re.compile(r".+\.(?:db|sqlite3?)")

SECRET = frozenset({".env", "auth.json"})  #: Never restored with access for other users.


class Item(msgspec.Struct, frozen=True):
    name: str  #: The path inside the home, with `/`.
    path: Path
    is_database: bool
    is_store: bool = False  #: Whether it is the session store.


class Contents(msgspec.Struct, frozen=True):
    items: tuple[Item, ...]
    passed_over: tuple[str, ...]  #: Files that cannot be included: broken links, invalid names.


def contents(home: Home, kind: Kind, *, profiles: bool = True) -> Contents:
    """List the files of a home; with `profiles` also those of the profiles in it."""
    found: list[Item | str] = []
    with report_unusable(home.root, inside=True):
        found += _home_files(home, kind)
        folder = home.root / PROFILES
        if profiles and kind == FULL and home.is_default and folder.is_dir():
            for path in sorted(folder.iterdir()):
                if path.is_dir():
                    found += _home_files(Home(path), kind, f"{PROFILES}/{path.name}/")
    items = tuple(each for each in found if isinstance(each, Item))
    return Contents(items, tuple(each for each in found if isinstance(each, str)))


def _home_files(home: Home, kind: Kind, prefix: str = "") -> Iterator[Item | str]:
    entries = os.scandir(home.root) if home.root.is_dir() else ()
    for entry in sorted(entries, key=lambda entry: entry.name):
        name = entry.name
        if name in EXCLUDED or (name == PROFILES and not prefix and home.is_default):
            continue
        is_settings = name.endswith(".json") and entry.is_file()
        if kind == FULL or name in QUICK_NAMES or is_settings:
            yield from _files_at(Path(entry.path), prefix + name, frozenset())


def _files_at(path: Path, name: str, parents: frozenset[str]) -> Iterator[Item | str]:
    """Yield the files at or below `path`, and as text the paths that cannot be included. Links are
    followed, except to a folder in `parents`."""
    if _is_left_out(path.name):
        return
    try:
        status = path.stat()
    except FileNotFoundError:
        status = None
    if status is None or not is_plain(name):
        yield os.fsencode(path).decode("utf-8", "replace")
    elif stat.S_ISDIR(status.st_mode):
        real = os.path.realpath(path)
        if real in parents:
            yield str(path)
            return
        for inner in sorted(path.iterdir()):
            yield from _files_at(inner, f"{name}/{inner.name}", parents | {real})
    # Lock files of Hermes are empty, unlike `uv.lock` files.
    elif stat.S_ISREG(status.st_mode) and (status.st_size or path.suffix != ".lock"):
        yield Item(name, path, is_database(name), is_store(name))


def belongs(name: str) -> bool:
    """Return whether a backup may contain a file of this name."""
    parts = name.split("/")
    if parts[0] == PROFILES:
        parts = parts[2:]
    if not parts or parts[0] in EXCLUDED or parts[0] == PROFILES:
        return False
    return not any(_is_left_out(part) for part in parts)


def is_plain(name: str) -> bool:
    """Return whether the name stays inside the home on any system."""
    parts = name.split("/")
    odd = "\\" in name or ":" in parts[0] or not name.isprintable()
    return not odd and all(part not in ("", ".", "..") for part in parts)


def is_store(name: str) -> bool:
    """Return whether it is the session store of the home or of a profile in it."""
    *folders, file = name.split("/")
    return file == "state.db" and (not folders or (len(folders) == 2 and folders[0] == PROFILES))


def is_database(name: str) -> bool:
    return _DATABASE.fullmatch(name.rpartition("/")[2]) is not None


def unit_of(name: str) -> str:
    """Return the entry of a home that a file belongs to; entries are replaced as a whole."""
    parts = name.split("/")
    return "/".join(parts[:3]) if parts[0] == PROFILES else parts[0]


def _is_left_out(name: str) -> bool:
    return name in EXCLUDED_ANYWHERE or _TRACES.fullmatch(name) is not None


# The manifest of an archive.

FORMAT = 1  #: Increased when an older Hermes cannot restore a newer archive correctly.
NAME = "hermes-backup.json"

Size = Annotated[int, msgspec.Meta(ge=0)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Mode = Annotated[int, msgspec.Meta(ge=0, le=0o777)]


class FileRecord(msgspec.Struct, frozen=True):
    size: Size
    sha256: Sha256
    mode: Mode


class ArchiveHeader(msgspec.Struct, frozen=True):
    """The part of the manifest that every version can read."""

    format: int
    hermes: str = "?"  #: The version that wrote it.


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    hermes: str
    created: str  #: Time in ISO 8601.
    kind: Kind
    profile: str
    label: str = ""
    files: dict[str, FileRecord] = {}


# Reading an archive from any source: everything is checked before it is used.

CHUNK = 2**20
MAX_FILES = 500_000
MAX_MANIFEST = 128 * 2**20
HARMLESS = 2**30  #: Uncompressed bytes that any archive may contain.
MAX_GROWTH = 400
"""Maximum ratio of uncompressed to compressed bytes above that. Text compresses to a tenth."""
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED = 0x1


class ArchiveRefused(HermesError):
    """The archive is damaged, not a backup, from a later version, or dangerous."""


class Archive:
    """An archive whose file list was checked. `check_content` reads all of it."""

    def __init__(self, zipped: zipfile.ZipFile, facts: Manifest, where: Path) -> None:
        self._zip, self.manifest, self.where = zipped, facts, where

    @property
    def units(self) -> list[str]:
        """The entries of a home that it contains, sorted."""
        return sorted({unit_of(name) for name in self.manifest.files})

    @property
    def size(self) -> int:
        return sum(record.size for record in self.manifest.files.values())

    def check_content(self) -> None:
        """Raise `ArchiveRefused` unless every file matches the manifest."""
        for name in self.manifest.files:
            self.copy(name, None)

    def copy(self, name: str, target: IO[bytes] | None) -> None:
        """Write one file to `target` and check it."""
        record, digest, size = self.manifest.files[name], hashlib.sha256(), 0
        try:
            with self._zip.open(name) as source:
                while piece := source.read(CHUNK):
                    size += len(piece)
                    digest.update(piece)
                    if target is not None:
                        target.write(piece)
        except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError) as error:
            raise self.damaged(f"{name} cannot be read ({error})") from error
        if size != record.size or digest.hexdigest() != record.sha256:
            raise self.damaged(f"{name} does not match the manifest")

    def damaged(self, what: str) -> ArchiveRefused:
        return ArchiveRefused(
            f"{self.where} is damaged: {what}", hint="use another backup; nothing was changed"
        )


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open and check an archive. Raises `UsageError` for a missing file, and `ArchiveRefused`."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        zipped = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise ArchiveRefused(f"{path} is not a backup: {error}") from error
    except OSError as error:
        raise ArchiveRefused(f"cannot read {path}: {error.strerror}") from error
    with zipped:
        entries = zipped.infolist()
        if len(entries) > MAX_FILES:
            raise ArchiveRefused(f"{path} has too many files: {len(entries):,}")
        facts = _manifest(zipped, path)
        _check_entries(entries, facts, path)
        yield Archive(zipped, facts, path)


def _manifest(zipped: zipfile.ZipFile, path: Path) -> Manifest:
    try:
        entry = zipped.getinfo(NAME)
    except KeyError:
        raise ArchiveRefused(
            f"{path} is not a backup of Hermes: it has no {NAME}",
            hint="`hermes backup` creates one",
        ) from None
    if entry.file_size > MAX_MANIFEST:
        raise ArchiveRefused(f"{path}: its manifest is too large")
    try:
        data = zipped.read(entry)
        heading = msgspec.json.decode(data, type=ArchiveHeader)
        if heading.format > FORMAT:
            raise ArchiveRefused(
                f"{path} was made by a later version (Hermes {heading.hermes}, format"
                f" {heading.format}; this one reads up to {FORMAT})",
                hint="update first: hermes update",
            )
        return msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, zipfile.BadZipFile, RuntimeError) as error:
        raise ArchiveRefused(f"{path} is damaged: its manifest cannot be read ({error})") from error


def _check_entries(entries: list[zipfile.ZipInfo], facts: Manifest, path: Path) -> None:
    names = [entry.filename for entry in entries if entry.filename != NAME]
    if len(set(names)) != len(names) or len(entries) != len(names) + 1:
        raise ArchiveRefused(f"{path} is damaged: it has two files of one name")
    if set(names) != set(facts.files):
        odd = sorted(set(names) ^ set(facts.files))[0]
        raise ArchiveRefused(f"{path} is damaged: {odd!r} is not in its manifest, or not there")
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    for entry in entries:
        if entry.filename != NAME and (
            problem := _entry_problem(entry, facts.files[entry.filename], folders)
        ):
            raise ArchiveRefused(f"{path} {problem}")
    _check_growth(entries, path)


def _entry_problem(entry: zipfile.ZipInfo, record: FileRecord, folders: set[str]) -> str:
    """Return why an entry must not be unpacked; "" if it may. `folders` contain other entries."""
    name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
    if not is_plain(name):
        return f"is refused: {name!r} is outside the home"
    if not belongs(name):
        return f"is refused: {name!r} does not belong to a backup"
    if name in folders:
        return f"is refused: {name!r} is both a file and a folder"
    if kind not in (0, stat.S_IFREG) or entry.is_dir():
        return f"is refused: {name!r} is not a regular file"
    if entry.flag_bits & ENCRYPTED or entry.compress_type not in METHODS:
        return f"is refused: {name!r} uses an unknown compression"
    return f"is damaged: the size of {name!r} is wrong" if entry.file_size != record.size else ""


def _check_growth(entries: list[zipfile.ZipInfo], path: Path) -> None:
    """Refuse an archive whose entries share compressed bytes or grow too much: it is a zip bomb."""
    packed, whole = path.stat().st_size, sum(entry.file_size for entry in entries)
    shared = sum(entry.compress_size for entry in entries) > packed
    if shared or whole > max(HARMLESS, MAX_GROWTH * packed):
        raise ArchiveRefused(
            f"{path} is refused: {whole:,} bytes would be extracted from {packed:,}"
        )


EARLIEST = (1980, 1, 1, 0, 0, 0)  #: The earliest date of a zip file.

Progress = Callable[[int, int], None]


def write_archive(
    target: Path, items: Iterable[Item], facts: Manifest, progress: Progress | None = None
) -> Manifest:
    """Write an archive of `items` to `target`, replacing an existing file only after success.

    The archive is private and is read back before it is renamed. A database is copied including its
    log. A file that disappears in the meantime is left out.
    """
    with report_unwritable(target), _temporary_folder(target) as folder:
        draft = folder / "archive"
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            written = _fill(file, list(items), facts, folder, progress)
            file.flush()
            os.fsync(file.fileno())
        with open_archive(draft) as read_back:
            read_back.check_content()
        draft.replace(target)
    return written


@contextmanager
def _temporary_folder(target: Path) -> Iterator[Path]:
    """Make a private folder next to the archive, where the disk has space."""
    folder = Path(tempfile.mkdtemp(prefix=".hermes-backup-", suffix=".tmp", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(
    file: IO[bytes], items: list[Item], facts: Manifest, folder: Path, progress: Progress | None
) -> Manifest:
    records: dict[str, FileRecord] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for done, item in enumerate(items):
            if progress:
                progress(done, len(items))
            with suppress(FileNotFoundError):
                records[item.name] = _add_item(archive, item, folder)
        if progress:
            progress(len(items), len(items))
        whole = msgspec.structs.replace(facts, files=records)
        archive.writestr(_entry(NAME, time.time(), 0o600), msgspec.json.encode(whole))
    return whole


def _add_item(archive: zipfile.ZipFile, item: Item, folder: Path) -> FileRecord:
    path = _consistent_copy(item, folder)
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as source:
        original = os.fstat(source.fileno()) if path == item.path else item.path.stat()
        mode = stat.S_IMODE(original.st_mode) & 0o777
        if item.name.rpartition("/")[2] in SECRET:
            mode &= 0o700
        entry = _entry(item.name, original.st_mtime, mode)
        with archive.open(entry, "w", force_zip64=True) as target:
            while piece := source.read(CHUNK):
                target.write(piece)
                digest.update(piece)
                size += len(piece)
    return FileRecord(size, digest.hexdigest(), mode)


def _entry(name: str, moment: float, mode: int) -> zipfile.ZipInfo:
    when = time.localtime(moment)[:6]
    entry = zipfile.ZipInfo(name, date_time=max(when, EARLIEST))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | mode) << 16
    entry.create_system = 3  # Unix, to store the mode
    return entry


def _consistent_copy(item: Item, folder: Path) -> Path:
    """Return the file itself; of a database, a copy in `folder`, which replaces the last one."""
    if not item.is_database:
        return item.path
    copy = folder / "database"
    copy.unlink(missing_ok=True)
    try:
        copy_database(item.path, copy)
    except apsw.NotADBError:  # not a database despite its name
        copy.unlink()
        return item.path
    except apsw.Error as error:
        raise StoreError(f"cannot copy {item.path}: {error}") from error
    return copy


def copy_database(source: Path, target: Path) -> None:
    """Copy a SQLite database to a new file while other processes may write to it."""
    if not source.exists():
        raise FileNotFoundError(source)
    with closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)) as reading:
        reading.set_busy_timeout(10_000)
        copy_connection(reading, target)


# Backups of a whole home while it is in use.


class BackupResult(msgspec.Struct, frozen=True):
    path: Path
    bytes: int
    manifest: Manifest
    passed_over: tuple[str, ...]


async def copy_home(
    home: Home,
    target: Path,
    now: datetime,
    *,
    kind: Kind = FULL,
    label: str = "",
    profiles: bool = True,
    progress: Progress | None = None,
) -> BackupResult:
    """Write an archive of `home` to `target`, which must not exist."""
    found = contents(home, kind, profiles=profiles)
    if not found.items:
        raise UsageError(f"there is nothing in {home.display()} to back up")
    if target.exists():
        raise UsageError(f"{target} exists already", hint="choose another name with -o")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}")
    with report_unwritable(target), _temporary_folder(target) as folder:
        items = []
        for number, item in enumerate(found.items):
            if item.is_store:  # the store allows writes while it is copied
                copy = folder / f"{number}.copy"
                with closing(open_store("", item.path)) as store:
                    await store.backup(copy)
                item = Item(item.name, copy, is_database=False)
            items.append(item)
        facts = facts_of(home, kind, label, now)
        written = await asyncio.to_thread(write_archive, target, items, facts, progress)
    return BackupResult(target, target.stat().st_size, written, found.passed_over)


def facts_of(home: Home, kind: Kind, label: str, now: datetime) -> Manifest:
    return Manifest(
        hermes=__version__,
        created=now.isoformat(timespec="seconds"),
        kind=kind,
        profile=home.profile,
        label=label,
    )
