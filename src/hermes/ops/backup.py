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
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Annotated, Literal

import apsw
import msgspec

from hermes import __version__
from hermes.config.home import PROFILES, Home, unusable
from hermes.core.errors import HermesError, StoreError, UsageError
from hermes.ops.output_files import unwritable
from hermes.store.session_store import open_store
from hermes.store.sqlite.backend import connect_target

# Which files of a home are part of a backup.

Kind = Literal["full", "quick"]
FULL: Kind = "full"
QUICK: Kind = "quick"

QUICK_NAMES = frozenset(
    {
        "config.yaml", ".env", "auth.json", "SOUL.md", "memories", "holographic", "skills",
        "mcp-tokens", "shell-hooks-allowlist.json",
    }
)  # fmt: skip
"""Settings, keys, memories and skills. Memory providers have further `*.json` files for
settings."""

EXCLUDED = frozenset(
    {
        "cache", "audio_cache", "image_cache", "logs", "models", "snapshots", "sandboxes",
        "checkpoints", ".import", ".import.lock", ".config.lock",
    }
)  # fmt: skip
"""Entries of the home that can be recreated, are large, or belong to this machine."""

EXCLUDED_ANYWHERE = frozenset({"__pycache__", ".venv", "node_modules", ".DS_Store"})
_TRACES = re.compile(
    r"\..+\.tmp|.+\.(?:sock|pid)|.+\.(?:db|sqlite3?)-(?:wal|shm|journal)"
    r"|state\.db\..+|state-\d{8}-\d{6}\.db|hermes-backup-.+\.zip"
)
"""Files of running processes and earlier copies."""
_DATABASE = re.compile(r".+\.(?:db|sqlite3?)")

SECRET = frozenset({".env", "auth.json"})
"""Restored without access for other users, whatever their mode was."""


class Item(msgspec.Struct, frozen=True):
    """One file of a backup."""

    name: str  #: The path inside the home, with `/`.
    path: Path
    is_database: bool
    is_store: bool = False  #: Whether it is the session store.


class Contents(msgspec.Struct, frozen=True):
    items: tuple[Item, ...]
    passed_over: tuple[str, ...]
    """Files that cannot be included: broken links, names that are not text."""


def contents(home: Home, kind: Kind, *, profiles: bool = True) -> Contents:
    """List the files of a home; with `profiles` also those of the profiles in it."""
    items: list[Item] = []
    passed_over: list[str] = []
    try:
        _Walk(items, passed_over.append).home(home, kind)
        folder = home.root / PROFILES
        if profiles and kind == FULL and home.is_default and folder.is_dir():
            for path in sorted(folder.iterdir()):
                if path.is_dir():
                    walk = _Walk(items, passed_over.append, f"{PROFILES}/{path.name}/")
                    walk.home(Home(path), kind)
    except OSError as error:
        raise unusable(Path(error.filename or home.root), error) from error
    return Contents(tuple(items), tuple(passed_over))


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
    parts = name.split("/")
    return parts[-1] == "state.db" and (len(parts) == 1 or _is_profile_entry(parts))


def is_database(name: str) -> bool:
    return _DATABASE.fullmatch(name.rpartition("/")[2]) is not None


def unit_of(name: str) -> str:
    """Return the entry of a home that a file belongs to; entries are replaced as a whole."""
    parts = name.split("/")
    return "/".join(parts[:3]) if parts[0] == PROFILES else parts[0]


def _is_profile_entry(parts: list[str]) -> bool:
    return len(parts) == 3 and parts[0] == PROFILES


def _is_left_out(name: str) -> bool:
    return name in EXCLUDED_ANYWHERE or _TRACES.fullmatch(name) is not None


class _Walk:
    def __init__(
        self, items: list[Item], pass_over: Callable[[str], None], prefix: str = ""
    ) -> None:
        self._items, self._pass_over, self._prefix = items, pass_over, prefix

    def home(self, home: Home, kind: Kind) -> None:
        if not home.root.is_dir():
            return
        for entry in sorted(os.scandir(home.root), key=lambda entry: entry.name):
            name = entry.name
            if name in EXCLUDED or (name == PROFILES and not self._prefix and home.is_default):
                continue
            if kind == QUICK and not _is_quick(entry):
                continue
            self._entry(Path(entry.path), name, frozenset())

    def _entry(self, path: Path, name: str, above: frozenset[str]) -> None:
        """Add a file or folder. Links are followed."""
        if _is_left_out(path.name):
            return
        try:
            status = path.stat()
        except FileNotFoundError:
            status = None
        if status is None or not is_plain(name):
            self._pass_over(os.fsencode(path).decode("utf-8", "replace"))
            return
        if stat.S_ISDIR(status.st_mode):
            self._folder(path, name, above)
        elif stat.S_ISREG(status.st_mode) and not _is_lock(path, status):
            whole = self._prefix + name
            self._items.append(Item(whole, path, is_database(whole), is_store(whole)))

    def _folder(self, path: Path, name: str, above: frozenset[str]) -> None:
        real = os.path.realpath(path)
        if real in above:  # a link to a parent folder
            self._pass_over(str(path))
            return
        for inner in sorted(path.iterdir()):
            self._entry(inner, f"{name}/{inner.name}", above | {real})


def _is_quick(entry: "os.DirEntry[str]") -> bool:
    return entry.name in QUICK_NAMES or (entry.name.endswith(".json") and entry.is_file())


def _is_lock(path: Path, status: os.stat_result) -> bool:
    """Return whether it is one of our lock files, which are empty, unlike the `uv.lock` of a
    plugin."""
    return path.name.endswith(".lock") and status.st_size == 0


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
        """Return the entries of a home that it contains, sorted."""
        return sorted({unit_of(name) for name in self.manifest.files})

    @property
    def size(self) -> int:
        """Return the size of all files in bytes."""
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
    """Open and check an archive. Raises `UsageError` if there is no such file, or
    `ArchiveRefused`."""
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
    folders = {folder for name in names for folder in _folders(name)}
    for entry in entries:
        if entry.filename != NAME:
            _check_name(entry.filename, path)
            if entry.filename in folders:
                raise ArchiveRefused(f"{path}: {entry.filename!r} is both a file and a folder")
            _check_entry(entry, facts.files[entry.filename], path)
    _check_growth(entries, path)


def _check_name(name: str, path: Path) -> None:
    if not is_plain(name):
        raise ArchiveRefused(f"{path} is refused: {name!r} is outside the home")
    if not belongs(name):
        raise ArchiveRefused(f"{path} is refused: {name!r} does not belong to a backup")


def _check_entry(entry: zipfile.ZipInfo, record: FileRecord, path: Path) -> None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG) or entry.is_dir():
        raise ArchiveRefused(f"{path} is refused: {entry.filename!r} is not a regular file")
    if entry.flag_bits & ENCRYPTED or entry.compress_type not in METHODS:
        raise ArchiveRefused(f"{path} is refused: {entry.filename!r} uses an unknown compression")
    if entry.file_size != record.size:
        raise ArchiveRefused(f"{path} is damaged: the size of {entry.filename!r} is wrong")


def _check_growth(entries: list[zipfile.ZipInfo], path: Path) -> None:
    """Refuse an archive whose entries share compressed bytes or grow too much: it is a zip bomb."""
    packed, whole = path.stat().st_size, sum(entry.file_size for entry in entries)
    shared = sum(entry.compress_size for entry in entries) > packed
    if shared or whole > max(HARMLESS, MAX_GROWTH * packed):
        raise ArchiveRefused(
            f"{path} is refused: {whole:,} bytes would be extracted from {packed:,}"
        )


def _folders(name: str) -> Iterator[str]:
    parts = name.split("/")
    for length in range(1, len(parts)):
        yield "/".join(parts[:length])


EARLIEST = (1980, 1, 1, 0, 0, 0)  #: The earliest date of a zip file.

Progress = Callable[[int, int], None]


def write_archive(
    target: Path, items: Iterable[Item], facts: Manifest, progress: Progress | None = None
) -> Manifest:
    """Write an archive of `items` to `target`, replacing an existing file only after success.

    The archive is private and is read back before it is renamed. A database is copied including its
    log. A file that disappears in the meantime is left out.
    """
    try:
        with _draft(target) as draft, _room(target) as room:
            with draft.open("wb") as file:
                written = _fill(file, list(items), facts, room, progress)
                file.flush()
                os.fsync(file.fileno())
            with open_archive(draft) as read_back:
                read_back.check_content()
            draft.replace(target)
    except OSError as error:
        raise unwritable(target, error) from error
    return written


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    descriptor, name = tempfile.mkstemp(prefix=".hermes-backup-", suffix=".tmp", dir=target.parent)
    os.close(descriptor)  # mkstemp made it private
    try:
        yield Path(name)
    finally:
        with suppress(FileNotFoundError):  # after a success it was renamed
            Path(name).unlink()


@contextmanager
def _room(target: Path) -> Iterator[Path]:
    """Make a private folder for copies of databases, next to the archive: that disk has the
    space."""
    folder = Path(tempfile.mkdtemp(prefix=".hermes-backup-", suffix=".tmp", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(
    file: IO[bytes], items: list[Item], facts: Manifest, room: Path, progress: Progress | None
) -> Manifest:
    records: dict[str, FileRecord] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for done, item in enumerate(items):
            if progress:
                progress(done, len(items))
            with suppress(FileNotFoundError):
                records[item.name] = _add(archive, item, room)
        if progress:
            progress(len(items), len(items))
        whole = msgspec.structs.replace(facts, files=records)
        archive.writestr(_entry(NAME, time.time(), 0o600), msgspec.json.encode(whole))
    return whole


def _add(archive: zipfile.ZipFile, item: Item, room: Path) -> FileRecord:
    path = _still(item, room)
    try:
        with path.open("rb") as source:
            status = os.fstat(source.fileno())
            original = status if path == item.path else item.path.stat()
            mode = stat.S_IMODE(original.st_mode) & 0o777
            if item.name.rpartition("/")[2] in SECRET:
                mode &= 0o700
            entry = _entry(item.name, original.st_mtime, mode)
            return _copy(source, archive, entry, mode)
    finally:
        if path != item.path:
            path.unlink()


def _copy(
    source: IO[bytes], archive: zipfile.ZipFile, entry: zipfile.ZipInfo, mode: int
) -> FileRecord:
    digest, size = hashlib.sha256(), 0
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


def _still(item: Item, room: Path) -> Path:
    """Return the file itself, or a consistent copy of a database."""
    if not item.is_database or item.path.parent == room:
        return item.path
    copy = room / "database"
    with suppress(FileNotFoundError):
        copy.unlink()
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
    reading = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        reading.set_busy_timeout(10_000)
        writing = connect_target(target)
        try:
            with writing.backup("main", reading, "main") as work:
                work.step()
            writing.execute("PRAGMA journal_mode = DELETE").fetchall()
        finally:
            writing.close()
    finally:
        reading.close()


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
    try:
        room = Path(tempfile.mkdtemp(prefix=".hermes-backup-", suffix=".tmp", dir=target.parent))
    except OSError as error:
        raise unwritable(target, error) from error
    try:
        items = [await _fact_error(item, room, number) for number, item in enumerate(found.items)]
        facts = facts_of(home, kind, label, now)
        written = await asyncio.to_thread(write_archive, target, items, facts, progress)
    finally:
        await asyncio.to_thread(shutil.rmtree, room, ignore_errors=True)
    return _outcome(target, written, found)


def facts_of(home: Home, kind: Kind, label: str, now: datetime) -> Manifest:
    return Manifest(
        hermes=__version__,
        created=now.isoformat(timespec="seconds"),
        kind=kind,
        profile=home.profile,
        label=label,
    )


async def _fact_error(item: Item, room: Path, number: int) -> Item:
    """Copy a session store with the function of the store, which allows concurrent writes."""
    if not item.is_store:
        return item
    store = open_store("", item.path)
    try:
        copy = room / f"{number}.copy"
        await store.backup(copy)
    finally:
        store.close()
    return Item(item.name, copy, is_database=False)


def _outcome(target: Path, written: Manifest, found: Contents) -> BackupResult:
    return BackupResult(target, target.stat().st_size, written, found.passed_over)
