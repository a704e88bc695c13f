"""Reads an archive that anybody may have made: nothing in it is believed before it was checked."""

import hashlib
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from hermes.app.backups import manifest
from hermes.app.backups.contents import belongs, is_plain, unit_of
from hermes.app.backups.manifest import FORMAT, FileRecord, Heading, Manifest
from hermes.core.errors import HermesError, UsageError

PIECE = 2**20
MOST_FILES = 500_000
LARGEST_MANIFEST = 128 * 2**20
HARMLESS = 2**30
"""Bytes that may come out of any archive, however small it is."""
MOST_GROWTH = 400
"""How many times its own size an archive may hold beyond that. Text shrinks to a tenth."""
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED = 0x1


class ArchiveRefused(HermesError):
    """The archive is damaged, foreign, from a later version, or dangerous."""


class Archive:
    """An archive whose list of files is in order. `check_content` reads all of it."""

    def __init__(self, zipped: zipfile.ZipFile, facts: Manifest, where: Path) -> None:
        self._zip, self.manifest, self.where = zipped, facts, where

    @property
    def units(self) -> list[str]:
        """The entries of a home that it holds, in order."""
        return sorted({unit_of(name) for name in self.manifest.files})

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(record.size for record in self.manifest.files.values())

    def check_content(self) -> None:
        """Raise `ArchiveRefused` unless every file is what the manifest says."""
        for name in self.manifest.files:
            self.copy(name, None)

    def copy(self, name: str, target: IO[bytes] | None) -> None:
        """Write one file to `target`, checked on the way."""
        record, digest, size = self.manifest.files[name], hashlib.sha256(), 0
        try:
            with self._zip.open(name) as source:
                while piece := source.read(PIECE):
                    size += len(piece)
                    digest.update(piece)
                    if target is not None:
                        target.write(piece)
        except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError) as error:
            raise self.damaged(f"{name} cannot be read ({error})") from error
        if size != record.size or digest.hexdigest() != record.sha256:
            raise self.damaged(f"{name} is not what it was")

    def damaged(self, what: str) -> ArchiveRefused:
        return ArchiveRefused(
            f"{self.where} is damaged: {what}", hint="take another copy; nothing was changed"
        )


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Raises `UsageError` when there is no such file, `ArchiveRefused` when it is no good."""
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
        if len(entries) > MOST_FILES:
            raise ArchiveRefused(f"{path} has too many files: {len(entries):,}")
        facts = _manifest(zipped, path)
        _check_entries(entries, facts, path)
        yield Archive(zipped, facts, path)


def _manifest(zipped: zipfile.ZipFile, path: Path) -> Manifest:
    try:
        entry = zipped.getinfo(manifest.NAME)
    except KeyError:
        raise ArchiveRefused(
            f"{path} is not a backup of Hermes: it has no {manifest.NAME}",
            hint="`hermes backup` makes one",
        ) from None
    if entry.file_size > LARGEST_MANIFEST:
        raise ArchiveRefused(f"{path}: its manifest is too large")
    try:
        data = zipped.read(entry)
        heading = msgspec.json.decode(data, type=Heading)
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
    names = [entry.filename for entry in entries if entry.filename != manifest.NAME]
    if len(set(names)) != len(names) or len(entries) != len(names) + 1:
        raise ArchiveRefused(f"{path} is damaged: it has two files of one name")
    if set(names) != set(facts.files):
        odd = sorted(set(names) ^ set(facts.files))[0]
        raise ArchiveRefused(f"{path} is damaged: {odd!r} is not in its manifest, or not there")
    folders = {folder for name in names for folder in _folders(name)}
    for entry in entries:
        if entry.filename != manifest.NAME:
            _check_name(entry.filename, path)
            if entry.filename in folders:
                raise ArchiveRefused(f"{path}: {entry.filename!r} is both a file and a folder")
            _check_entry(entry, facts.files[entry.filename], path)
    _check_growth(entries, path)


def _check_name(name: str, path: Path) -> None:
    if not is_plain(name):
        raise ArchiveRefused(f"{path} is refused: {name!r} would be outside of the home")
    if not belongs(name):
        raise ArchiveRefused(f"{path} is refused: {name!r} is no part of a backup")


def _check_entry(entry: zipfile.ZipInfo, record: FileRecord, path: Path) -> None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG) or entry.is_dir():
        raise ArchiveRefused(f"{path} is refused: {entry.filename!r} is a link or no plain file")
    if entry.flag_bits & ENCRYPTED or entry.compress_type not in METHODS:
        raise ArchiveRefused(f"{path} is refused: {entry.filename!r} is packed in an unknown way")
    if entry.file_size != record.size:
        raise ArchiveRefused(f"{path} is damaged: the size of {entry.filename!r} is wrong")


def _check_growth(entries: list[zipfile.ZipInfo], path: Path) -> None:
    """Entries that share their packed bytes, or grow beyond measure, are a bomb."""
    packed, whole = path.stat().st_size, sum(entry.file_size for entry in entries)
    shared = sum(entry.compress_size for entry in entries) > packed
    if shared or whole > max(HARMLESS, MOST_GROWTH * packed):
        raise ArchiveRefused(f"{path} is refused: {whole:,} bytes would come out of {packed:,}")


def _folders(name: str) -> Iterator[str]:
    parts = name.split("/")
    for length in range(1, len(parts)):
        yield "/".join(parts[:length])
