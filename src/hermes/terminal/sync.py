"""Files brought to a host and back, many at once."""

import asyncio
import contextlib
import errno
import hashlib
import io
import os
import secrets
import stat
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, BinaryIO, Literal

import msgspec

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal.base import Host
from hermes.terminal.host.call import Answer, Excess, call

# The files of this machine that are to be on a host, and which of them changed.

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


# Unpacking a tar archive that came from a place we do not trust.

ENTRIES_MOST = 100_000


class Unpacked(msgspec.Struct, frozen=True):
    files: tuple[str, ...]
    """Below the folder."""
    left_out: tuple[str, ...]
    """As they were called: links, devices, and names that lead out."""


def unpack(archive: BinaryIO, folder: Path, most: int) -> Unpacked:
    """Only files and folders, only below `folder`, at most `most` bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    root = os.path.realpath(folder)
    files: list[str] = []
    left_out: list[str] = []
    left = most
    try:
        with tarfile.open(fileobj=archive, mode="r:", encoding="utf-8") as tar:
            for count, member in enumerate(tar):
                left -= member.size
                if left < 0 or count > ENTRIES_MOST:
                    raise ToolError(f"the archive unpacks to more than {most} bytes")
                name = _inside(member, root)
                if name is None:
                    left_out.append(member.name)
                elif member.isdir():
                    Path(root, name).mkdir(parents=True, exist_ok=True)
                else:
                    _put(tar, member, Path(root, name))
                    files.append(name)
    except tarfile.TarError as error:
        raise ToolError(f"what came is no whole archive: {error}") from error
    return Unpacked(tuple(files), tuple(left_out))


def _inside(member: tarfile.TarInfo, root: str) -> str | None:
    """Its path below `root`, or None when it is not to be unpacked."""
    if not (member.isreg() or member.isdir() or member.islnk()):
        return None
    if member.islnk() and not _is_plain(member.linkname):
        return None
    if not _is_plain(member.name):
        return None
    name = os.path.normpath(member.name)
    # A link that is already here must not lead the file elsewhere.
    parent = os.path.realpath(Path(root, name).parent)
    if name != "." and parent != root and not parent.startswith(f"{root}/"):
        return None
    return name


def _is_plain(name: str) -> bool:
    return not name.startswith("/") and ".." not in name.split("/") and "\0" not in name


def _put(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """Beside its place first: what stands there, even a link, is replaced, not written through."""
    source = tar.extractfile(member)  # of a hard link: the file it stands for, in the archive
    if source is None:
        raise tarfile.ReadError(f"{member.name} has no contents")
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".hermes-{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with source, os.fdopen(os.open(new, flags, 0o600), "wb") as file:
            while block := source.read(BLOCK):
                file.write(block)
            os.fchmod(file.fileno(), 0o600 | member.mode & 0o755)
        new.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()


# Files of this machine on a host, and back: what changed, in one tar stream.
#
# For credential files, skills and results that were too long for a message.

PULL_MOST = 256 * 1_048_576
"""Bytes that are pulled at most, unless told otherwise."""

# The names in the stream are paths below /. Owners are not kept: all belongs to the user there.
PUSH = r"""
command -v tar >/dev/null 2>&1 || exit 97
umask 077
exec tar -xpof - -C /
"""

# Files and links first, then folders that are empty now, from the deepest up.
REMOVE = r"""
xargs -0 sh -c 'for path do
  if [ -d "$path" ] && [ ! -L "$path" ]; then rmdir -- "$path" 2>/dev/null || :
  else rm -f -- "$path" || exit 1; fi
done' sh
"""

PULL = r"""
command -v tar >/dev/null 2>&1 || exit 97
case $1 in '~' | '~/'*) set -- "$HOME${1#?}" ;; esac
if [ -d "$1" ]; then cd -- "$1" && exec tar -cf - .; fi
[ -e "$1" ] || exit 96
cd -- "$(dirname -- "$1")" && exec tar -cf - -- "$(basename -- "$1")"
"""

NO_TAR = 97
NOT_THERE = 96


class Pushed(msgspec.Struct, frozen=True):
    """What a push did, as paths on the host."""

    sent: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Paths here: links that lead out of their folder, devices, what cannot be read."""


class Sync:
    """Remembers what it sent. A host that lost its files gets them again after `forget`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sent: dict[str, Entry] = {}
        self._home = ""
        self._turn = asyncio.Lock()

    def forget(self) -> None:
        self._sent.clear()

    async def push(self, pairs: Iterable[tuple[Path, str]], *, private: bool = False) -> Pushed:
        """Bring each file or folder to its path there, if it changed since the last push.

        What vanished from a pushed folder is removed there. With `private` only the user can read
        the files there, and nobody write them; else they keep their modes.
        """
        async with self._turn:
            whole = [(path, await self._absolute(remote)) for path, remote in pairs]
            found = await asyncio.to_thread(collect, whole, private=private)
            fresh, known = await asyncio.to_thread(changed, found.entries, self._sent)
            gone = [
                path
                for path in sorted(self._sent, reverse=True)
                if path not in found.entries and any(_below(path, root) for _, root in whole)
            ]
            if fresh:
                self._require(await call(self._host, PUSH, data=_stream(fresh.values())))
            if gone:
                data = b"".join(os.fsencode(path) + b"\0" for path in gone)
                self._require(await call(self._host, REMOVE, data=data))
            for path in gone:
                del self._sent[path]
            self._sent |= known
            return Pushed(tuple(fresh), tuple(gone), tuple(found.left_out))

    async def pull(self, remote: str, local: Path, *, most: int = PULL_MOST) -> Unpacked:
        """Bring a file, or what is in a folder, into the folder `local`; links are left out."""
        with tempfile.TemporaryFile() as archive:
            try:
                answer = await call(
                    self._host, PULL, remote, most=most, on_output=lambda data: _keep(archive, data)
                )
            except Excess:
                raise ToolError(
                    f"{remote} has more than {most} bytes", hint="bring a smaller part of it"
                ) from None
            if answer.code == NOT_THERE:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), remote)
            self._require(answer)
            archive.seek(0)
            return await asyncio.to_thread(unpack, archive, local, most)

    async def _absolute(self, remote: str) -> str:
        if remote.startswith("~/"):
            if not self._home:
                self._home = os.fsdecode((await call(self._host, 'printf %s "$HOME"')).output)
            remote = self._home + remote[1:]
        if not remote.startswith("/") or ".." in remote.split("/"):
            raise ToolError(f"{remote} is not an absolute path")
        return remote

    def _require(self, answer: Answer) -> None:
        if answer.code == NO_TAR:
            raise BackendUnavailable(
                f"there is no tar on the {self._host.name} backend", hint="install tar there"
            )
        if answer.code:
            said = answer.errors.decode("utf-8", "replace").strip().splitlines() or [
                "no reason given"
            ]
            raise ToolError(f"files could not be brought over: {said[0]}")


async def _stream(entries: Iterable[Entry]) -> AsyncIterator[bytes]:
    """Blocks are read in a thread: a slow disk must not hold up everything else."""
    blocks = tar_blocks(entries)
    while (block := await asyncio.to_thread(next, blocks, None)) is not None:
        yield block


def _keep(archive: IO[bytes], data: bytes) -> None:
    archive.write(data)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
