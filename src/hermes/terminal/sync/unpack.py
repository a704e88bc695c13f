"""Unpacking a tar archive that came from a place we do not trust."""

import contextlib
import os
import secrets
import tarfile
from pathlib import Path
from typing import BinaryIO

import msgspec

from hermes.core.errors import ToolError

BLOCK = 262_144
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
