"""Copying files to a host: only changes, in one tar stream.

Used for credential files, skills, and results too long for a message.
"""

import asyncio
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal.base import Host
from hermes.terminal.host_shell import HostScriptResult, call_script

# Which local files belong on a host, and which of them changed.

BLOCK_BYTES = 262_144
TAR_BLOCK = 512
PRIVATE_FILE, PRIVATE_FOLDER = 0o400, 0o700


class SyncEntry(msgspec.Struct, frozen=True):
    """One file, folder or link, with its path on the host."""

    path: str
    source: str
    kind: Literal["file", "folder", "link"]
    mode: int
    size: int = 0
    modified_ns: int = 0
    target: str = ""  #: Target of a link, relative to the link.
    digest: bytes = b""


class CollectedFiles(msgspec.Struct):
    entries: dict[str, SyncEntry] = {}
    left_out: list[str] = []


def collect(pairs: Iterable[tuple[Path, str]], *, private: bool) -> CollectedFiles:
    """Return the current files. Links that lead out of their folder are not followed."""
    found = CollectedFiles()
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
    """Yield each path and its path below `root`; folders before their contents."""
    yield root, ""
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = f"{folder}/{name}"
            yield path, path[len(root) + 1 :]


def _entry(path: str, there: str, root: str, *, private: bool) -> SyncEntry | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    mode = stat.S_IMODE(found.st_mode) & 0o777
    if stat.S_ISDIR(found.st_mode):
        return SyncEntry(there, path, "folder", PRIVATE_FOLDER if private else mode | 0o700)
    if stat.S_ISLNK(found.st_mode):
        real = os.path.realpath(path)
        if not real.startswith(f"{root}/"):
            return None
        target = os.path.relpath(real, Path(path).parent)
        return SyncEntry(there, path, "link", 0o777, target=target)
    if not stat.S_ISREG(found.st_mode) or not os.access(path, os.R_OK):
        return None
    mode = PRIVATE_FILE if private else mode
    return SyncEntry(there, path, "file", mode, found.st_size, found.st_mtime_ns)


def changed_entries(
    entries: Mapping[str, SyncEntry], sent: Mapping[str, SyncEntry]
) -> tuple[dict[str, SyncEntry], dict[str, SyncEntry]]:
    """Return what must be sent, and all entries with their digests.

    Contents are compared only where size or time differ.
    """
    fresh: dict[str, SyncEntry] = {}
    known: dict[str, SyncEntry] = {}
    for path, entry in entries.items():
        old = sent.get(path)
        if old is not None and msgspec.structs.replace(old, digest=b"") == entry:
            known[path] = old
            continue
        digest = _digest(entry.source) if entry.kind == "file" else b""
        known[path] = now = msgspec.structs.replace(entry, digest=digest)
        if old is None or _content_key(old) != _content_key(now):
            fresh[path] = now
    return fresh, known


def _content_key(entry: SyncEntry) -> tuple[object, ...]:
    return entry.kind, entry.mode, entry.target, entry.digest


def _digest(path: str) -> bytes:
    """Return the digest of a file; empty if it can no longer be read, so that it is sent again."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return b""


_TYPES = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}


def tar_blocks(entries: Iterable[SyncEntry]) -> Iterator[bytes]:
    """Yield the tar stream, with names relative to /. `OSError` if a file becomes shorter."""
    for entry in entries:
        header = tarfile.TarInfo(entry.path.lstrip("/"))
        header.type, header.mode, header.linkname = _TYPES[entry.kind], entry.mode, entry.target
        header.mtime = entry.modified_ns // 1_000_000_000
        if entry.kind != "file":
            yield _tar_header(header)
            continue
        descriptor = os.open(entry.source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            header.size = entry.size
            yield _tar_header(header)
            yield from _tar_contents(file, entry)
    yield bytes(2 * TAR_BLOCK)


def _tar_header(header: tarfile.TarInfo) -> bytes:
    return header.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _tar_contents(file: io.BufferedReader, entry: SyncEntry) -> Iterator[bytes]:
    left = entry.size
    while left:
        block = file.read(min(BLOCK_BYTES, left))
        if not block:
            raise OSError(0, f"{entry.source} became shorter while it was sent")
        left -= len(block)
        yield block
    yield bytes(-entry.size % TAR_BLOCK)


NO_TAR = 97  #: Exit code of `push.sh`.


class PushResult(msgspec.Struct, frozen=True):
    """The result of a push, as paths on the host."""

    sent: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Local paths that were skipped: links out of their folder, devices, unreadable files."""


class Sync:
    """Copies changed files and remembers what it sent. After `forget` everything is sent again."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sent: dict[str, SyncEntry] = {}
        self._home = ""
        self._lock = asyncio.Lock()

    def forget(self) -> None:
        self._sent.clear()

    async def push(self, pairs: Iterable[tuple[Path, str]], *, private: bool = False) -> PushResult:
        """Copy each file or folder to its path on the host if it changed since the last push.

        What was deleted from a pushed folder is deleted on the host. With `private`, only the user
        can read the files there and they are read-only; otherwise they keep their modes.
        """
        async with self._lock:
            whole = [(path, await self._absolute(remote)) for path, remote in pairs]
            found = await asyncio.to_thread(collect, whole, private=private)
            fresh, known = await asyncio.to_thread(changed_entries, found.entries, self._sent)
            gone = [
                path
                for path in sorted(self._sent, reverse=True)
                if path not in found.entries and any(_is_below(path, root) for _, root in whole)
            ]
            if fresh:
                blocks = _read_blocks(fresh.values())
                self._check_result(await call_script(self._host, "push", data=blocks))
            if gone:
                data = b"".join(os.fsencode(path) + b"\0" for path in gone)
                self._check_result(await call_script(self._host, "remove_paths", data=data))
            for path in gone:
                del self._sent[path]
            self._sent |= known
            return PushResult(tuple(fresh), tuple(gone), tuple(found.left_out))

    async def _absolute(self, remote: str) -> str:
        if remote.startswith("~/"):
            if not self._home:
                self._home = os.fsdecode((await call_script(self._host, "home")).output)
            remote = self._home + remote[1:]
        if not remote.startswith("/") or ".." in remote.split("/"):
            raise ToolError(f"{remote} is not an absolute path")
        return remote

    def _check_result(self, answer: HostScriptResult) -> None:
        if answer.code == NO_TAR:
            raise BackendUnavailable(
                f"there is no tar on the {self._host.name} backend", hint="install tar there"
            )
        if answer.code:
            reason = answer.errors.decode("utf-8", "replace").strip() or "no reason given"
            raise ToolError(f"files could not be brought over: {reason.splitlines()[0]}")


async def _read_blocks(entries: Iterable[SyncEntry]) -> AsyncIterator[bytes]:
    """Read blocks in a thread, so that a slow disk does not block the event loop."""
    blocks = tar_blocks(entries)
    while (block := await asyncio.to_thread(next, blocks, None)) is not None:
        yield block


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
