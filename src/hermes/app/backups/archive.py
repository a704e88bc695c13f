"""Writes an archive: whole and checked, or not at all."""

import hashlib
import os
import shutil
import stat
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import apsw
import msgspec

from hermes.app.backups import manifest
from hermes.app.backups.contents import SECRET, Item
from hermes.app.backups.manifest import FileRecord, Manifest
from hermes.app.backups.reading import opened
from hermes.app.transcripts.output import unwritable
from hermes.core.errors import StoreError
from hermes.store.sqlite.backend import connect_target

PIECE = 2**20
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""Nothing older can be said in a zip file."""

Progress = Callable[[int, int], None]


def write_archive(
    target: Path, items: Iterable[Item], facts: Manifest, progress: Progress | None = None
) -> Manifest:
    """Make `target` an archive of `items`; replaces a file of that name only when all is well.

    The archive is private, and read back before it gets its name. A database is copied with all
    that is in its log. A file that vanishes meanwhile is left out.
    """
    try:
        with _draft(target) as draft, _room(target) as room:
            with draft.open("wb") as file:
                written = _fill(file, list(items), facts, room, progress)
                file.flush()
                os.fsync(file.fileno())
            with opened(draft) as read_back:
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
        with suppress(FileNotFoundError):  # after a success it has its new name
            Path(name).unlink()


@contextmanager
def _room(target: Path) -> Iterator[Path]:
    """A private folder for copies of databases, beside the archive: there is room for both."""
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
        archive.writestr(_entry(manifest.NAME, time.time(), 0o600), msgspec.json.encode(whole))
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
        while piece := source.read(PIECE):
            target.write(piece)
            digest.update(piece)
            size += len(piece)
    return FileRecord(size, digest.hexdigest(), mode)


def _entry(name: str, moment: float, mode: int) -> zipfile.ZipInfo:
    when = time.localtime(moment)[:6]
    entry = zipfile.ZipInfo(name, date_time=max(when, EARLIEST))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | mode) << 16
    entry.create_system = 3  # Unix, for the mode
    return entry


def _still(item: Item, room: Path) -> Path:
    """The file itself, or a copy of a database that nobody writes to."""
    if not item.is_database or item.path.parent == room:
        return item.path
    copy = room / "database"
    with suppress(FileNotFoundError):
        copy.unlink()
    try:
        copy_database(item.path, copy)
    except apsw.NotADBError:  # it is only called like one
        copy.unlink()
        return item.path
    except apsw.Error as error:
        raise StoreError(f"cannot copy {item.path}: {error}") from error
    return copy


def copy_database(source: Path, target: Path) -> None:
    """All of a SQLite database in a new file, while others may write to it."""
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
