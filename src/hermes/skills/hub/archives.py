"""Read files from untrusted tar and zip archives.

Nothing is unpacked to disk. Wanted files are read into memory, names are checked, links and devices
are skipped or refused, and the total size is limited.
"""

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hermes.skills.hub.contents import InvalidContent, check_file_name, check_size

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


def read_zip(data: bytes, wanted: NameFilter) -> dict[str, bytes]:
    """Return the wanted files of a .zip, with the same rules as `read_tar`."""
    with _archive_errors(), zipfile.ZipFile(io.BytesIO(data)) as archive:
        return _collect(_zip_members(archive), wanted)


def read_archive(data: bytes, wanted: NameFilter) -> dict[str, bytes]:
    """Return the wanted files of a .zip or .tar.gz."""
    return read_zip(data, wanted) if data.startswith(b"PK") else read_tar(data, wanted)


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
        yield name, member.size, _tar_reader(archive, member) if member.isreg() else None


def _tar_reader(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], bytes]:
    def read() -> bytes:
        file = archive.extractfile(member)
        return file.read() if file else b""

    return read


def _zip_members(archive: zipfile.ZipFile) -> Iterator[ArchiveMember]:
    entries = archive.infolist()
    if len(entries) > MAX_MEMBERS:
        raise InvalidContent(f"the archive has more than {MAX_MEMBERS:,} entries")
    for entry in entries:
        if entry.is_dir():
            continue
        kind = (entry.external_attr >> 16) & 0o170000
        plain = kind in (0, 0o100000)
        yield entry.filename, entry.file_size, _zip_reader(archive, entry) if plain else None


def _zip_reader(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[], bytes]:
    def read() -> bytes:
        with archive.open(entry) as file:
            # The declared size may be wrong; reading one byte more reveals it.
            data = file.read(entry.file_size + 1)
        if len(data) > entry.file_size:
            raise InvalidContent(f"{entry.filename!r} in the archive is larger than it says")
        return data

    return read


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


@contextmanager
def _archive_errors() -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InvalidContent(f"the archive cannot be read: {error}") from error
    except (NotImplementedError, RuntimeError, UnicodeError, OSError, ValueError) as error:
        # An encrypted entry, an unknown compression method or an invalid header.
        raise InvalidContent(f"the archive cannot be read: {error}") from error
