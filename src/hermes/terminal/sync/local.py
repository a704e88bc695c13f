"""The files of this machine that are to be on a host, and which of them changed."""

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

BLOCK = 262_144
TAR_BLOCK = 512
PRIVATE_FILE, PRIVATE_FOLDER = 0o400, 0o700


class Entry(msgspec.Struct, frozen=True):
    """One file, folder or link, by its path there."""

    path: str
    source: str
    kind: Literal["file", "folder", "link"]
    mode: int
    size: int = 0
    modified_ns: int = 0
    target: str = ""
    """Of a link, relative to it."""
    digest: bytes = b""


class Collected(msgspec.Struct):
    entries: dict[str, Entry] = {}
    left_out: list[str] = []


def collect(pairs: Iterable[tuple[Path, str]], *, private: bool) -> Collected:
    """What is there now. A link is not followed out of its folder."""
    found = Collected()
    for source, remote in pairs:
        root = os.path.realpath(source)
        for path, inside in _walk(root):
            there = f"{remote.rstrip('/')}/{inside}" if inside else remote
            entry = _entry(path, there, root, private=private)
            if entry is None:
                found.left_out.append(path)
            else:
                found.entries[there] = entry
    return found


def _walk(root: str) -> Iterator[tuple[str, str]]:
    """Each path and what it is below `root`; folders before what is in them."""
    yield root, ""
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = f"{folder}/{name}"
            yield path, path[len(root) + 1 :]


def _entry(path: str, there: str, root: str, *, private: bool) -> Entry | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    mode = stat.S_IMODE(found.st_mode) & 0o777
    if stat.S_ISDIR(found.st_mode):
        return Entry(there, path, "folder", PRIVATE_FOLDER if private else mode | 0o700)
    if stat.S_ISLNK(found.st_mode):
        real = os.path.realpath(path)
        if not real.startswith(f"{root}/"):
            return None
        target = os.path.relpath(real, Path(path).parent)
        return Entry(there, path, "link", 0o777, target=target)
    if not stat.S_ISREG(found.st_mode) or not os.access(path, os.R_OK):
        return None
    mode = PRIVATE_FILE if private else mode
    return Entry(there, path, "file", mode, found.st_size, found.st_mtime_ns)


def changed(
    entries: Mapping[str, Entry], sent: Mapping[str, Entry]
) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """What must be sent, and all entries with their digests.

    Size and time first; only where these differ the contents are compared.
    """
    fresh: dict[str, Entry] = {}
    known: dict[str, Entry] = {}
    for path, entry in entries.items():
        old = sent.get(path)
        if old is not None and msgspec.structs.replace(old, digest=b"") == entry:
            known[path] = old
            continue
        digest = _digest(entry.source) if entry.kind == "file" else b""
        known[path] = now = msgspec.structs.replace(entry, digest=digest)
        if old is None or _essence(old) != _essence(now):
            fresh[path] = now
    return fresh, known


def _essence(entry: Entry) -> tuple[object, ...]:
    return entry.kind, entry.mode, entry.target, entry.digest


def _digest(path: str) -> bytes:
    """Of a file that is gone or closed meanwhile: nothing, so that it is sent or left anew."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return b""


_TYPES = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}


def tar_blocks(entries: Iterable[Entry]) -> Iterator[bytes]:
    """The tar stream. Names are below /; a file that changes meanwhile raises `OSError`."""
    for entry in entries:
        header = tarfile.TarInfo(entry.path.lstrip("/"))
        header.type, header.mode, header.linkname = _TYPES[entry.kind], entry.mode, entry.target
        header.mtime = entry.modified_ns // 1_000_000_000
        if entry.kind != "file":
            yield _packed(header)
            continue
        descriptor = os.open(entry.source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            header.size = entry.size
            yield _packed(header)
            yield from _contents(file, entry)
    yield bytes(2 * TAR_BLOCK)


def _packed(header: tarfile.TarInfo) -> bytes:
    return header.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _contents(file: io.BufferedReader, entry: Entry) -> Iterator[bytes]:
    left = entry.size
    while left:
        block = file.read(min(BLOCK, left))
        if not block:
            raise OSError(0, f"{entry.source} became shorter while it was sent")
        left -= len(block)
        yield block
    yield bytes(-entry.size % TAR_BLOCK)
