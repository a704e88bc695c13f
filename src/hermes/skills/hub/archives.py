"""Files out of a tar or zip archive that somebody else made.

Nothing is ever unpacked to a disk here: the wanted files are read into memory, each name is looked
at, links and devices are left out or refused, and the sum of what is read is limited.
"""

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hermes.skills.hub.contents import Unfit, check_size, safe_name

MOST_MEMBERS = 100_000
MOST_UNPACKED = 512 * 1024 * 1024
"""What may come out of the packing, wanted or not: a small file can hold endless zeros."""

Wanted = Callable[[str], bool]


def from_tar(data: bytes, wanted: Wanted, *, below_top: bool = False) -> dict[str, bytes]:
    """The wanted files of a .tar.gz. `below_top` takes off the folder all of them lie in.

    Raises `Unfit` for a wanted member that is no plain file, or when there is too much of it.
    """
    return _collected(tar_members(data, below_top=below_top), wanted)


def tar_members(data: bytes, *, below_top: bool = False) -> "Iterator[Member]":
    """Every entry but folders, one after the other; one can be read only when it is its turn."""
    with _readable(), tarfile.open(fileobj=_Unpacked(data), mode="r|") as archive:
        yield from _members(archive, below_top)


def from_zip(data: bytes, wanted: Wanted) -> dict[str, bytes]:
    """The wanted files of a .zip, with the same rules."""
    with _readable(), zipfile.ZipFile(io.BytesIO(data)) as archive:
        return _collected(_zip_members(archive), wanted)


def from_any(data: bytes, wanted: Wanted) -> dict[str, bytes]:
    """The wanted files of a .zip or .tar.gz, whichever it is."""
    return from_zip(data, wanted) if data.startswith(b"PK") else from_tar(data, wanted)


Member = tuple[str, int, Callable[[], bytes] | None]
"""Name, size, and how to read it; None for what is no plain file."""


def _collected(members: Iterator[Member], wanted: Wanted) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    size = 0
    for name, length, read in members:
        if not wanted(name):
            continue
        if read is None:
            raise Unfit(f"{name!r} in the archive is a link or a device")
        if safe_name(name) in files:
            raise Unfit(f"{name!r} is in the archive twice")
        size += length
        check_size(len(files) + 1, size)
        files[name] = read()
    return files


def _members(archive: tarfile.TarFile, below_top: bool) -> Iterator[Member]:
    for number, member in enumerate(archive):
        if number >= MOST_MEMBERS:
            raise Unfit(f"the archive has more than {MOST_MEMBERS:,} entries")
        if member.isdir():
            continue
        name = member.name.removeprefix("./")
        if below_top:
            name = name.partition("/")[2]
        yield name, member.size, _reader(archive, member) if member.isreg() else None


def _reader(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], bytes]:
    def read() -> bytes:
        file = archive.extractfile(member)
        return file.read() if file else b""

    return read


def _zip_members(archive: zipfile.ZipFile) -> Iterator[Member]:
    entries = archive.infolist()
    if len(entries) > MOST_MEMBERS:
        raise Unfit(f"the archive has more than {MOST_MEMBERS:,} entries")
    for entry in entries:
        if entry.is_dir():
            continue
        kind = (entry.external_attr >> 16) & 0o170000
        plain = kind in (0, 0o100000)
        yield entry.filename, entry.file_size, _zip_reader(archive, entry) if plain else None


def _zip_reader(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[], bytes]:
    def read() -> bytes:
        with archive.open(entry) as file:
            # The size in the index may be a lie; one byte more shows it.
            data = file.read(entry.file_size + 1)
        if len(data) > entry.file_size:
            raise Unfit(f"{entry.filename!r} in the archive is larger than it says")
        return data

    return read


class _Unpacked(gzip.GzipFile):
    """A gzip stream, unpacked as it is read, up to a limit."""

    def __init__(self, data: bytes) -> None:
        super().__init__(fileobj=io.BytesIO(data), mode="rb")
        self._total = 0

    def read(self, size: int | None = -1) -> bytes:
        piece = super().read(size)
        self._total += len(piece)
        if self._total > MOST_UNPACKED:
            raise Unfit(f"the archive unpacks to more than {MOST_UNPACKED // 1024**2} MiB")
        return piece


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise Unfit(f"the archive cannot be read: {error}") from error
    except (NotImplementedError, RuntimeError, UnicodeError, OSError, ValueError) as error:
        # An encrypted entry, a kind of packing we do not know, a nonsensical header.
        raise Unfit(f"the archive cannot be read: {error}") from error
