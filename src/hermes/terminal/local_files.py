"""The files of this machine, in-process: no child process for a read or a write."""

import asyncio
import codecs
import contextlib
import errno
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from hermes.core.cancel import CancelToken
from hermes.terminal.base import FileInfo, Grep, Grepped, Lines
from hermes.terminal.output import cut_line
from hermes.terminal.ripgrep import grep_with_ripgrep
from hermes.terminal.walk import SNIFF, find_files, grep_files
from hermes.util.paths import real_path

COUNT_MOST = 64 * 1_048_576
"""Bytes after the page that are read to count the lines of the file."""
BLOCK = 1_048_576

T = TypeVar("T")


class LocalFiles:
    """`folder` gives the folder relative paths start from; `home` is what `~` means.

    `ripgrep` is the path of `rg`, looked up when not given; "" means do without.
    """

    def __init__(
        self, folder: Callable[[], str], home: Path, *, ripgrep: str | None = None
    ) -> None:
        self._folder, self._home = folder, str(home)
        self._ripgrep = shutil.which("rg") if ripgrep is None else ripgrep

    async def locate(self, path: str) -> str:
        if "\0" in path:
            raise OSError(errno.EINVAL, "a path cannot contain a null byte")
        return await asyncio.to_thread(real_path, path, self._folder(), self._home)

    async def stat(self, path: str) -> FileInfo | None:
        return await asyncio.to_thread(_stat, path)

    async def names(self, folder: str) -> list[str]:
        return sorted(await asyncio.to_thread(os.listdir, folder))

    async def lines(self, path: str, *, offset: int, limit: int, longest: int) -> Lines:
        return await asyncio.to_thread(_read_lines, path, offset, limit, longest)

    async def write(self, path: str, data: bytes) -> None:
        await asyncio.to_thread(_replace, Path(path), data)

    async def find(self, glob: str, folder: str, cancel: CancelToken) -> list[str]:
        return await _stoppable(lambda stop: find_files(glob, folder, stop), cancel)

    async def grep(self, query: Grep, cancel: CancelToken) -> Grepped:
        if self._ripgrep:
            return await grep_with_ripgrep(self._ripgrep, query, cancel)
        return await _stoppable(lambda stop: grep_files(query, stop), cancel)


async def _stoppable(work: Callable[[threading.Event], T], cancel: CancelToken) -> T:
    """`work` in a thread; it is told to stop when this call is cancelled."""
    stop = threading.Event()
    try:
        with cancel.scope():
            return await asyncio.to_thread(work, stop)
    finally:
        stop.set()


def _stat(path: str) -> FileInfo | None:
    try:
        found = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISREG(found.st_mode):
        return FileInfo("file", found.st_size)
    return FileInfo("folder" if stat.S_ISDIR(found.st_mode) else "other", found.st_size)


class _Line(msgspec.Struct, frozen=True):
    start: bytes
    """As much of the line as was asked for, without its end."""
    cut: bool
    crlf: bool


def _read_lines(path: str, offset: int, limit: int, longest: int) -> Lines:
    page: list[_Line] = []
    number = 0
    with Path(path).open("rb") as file:
        start = file.read(SNIFF)
        if b"\0" in start:
            return Lines((), 0, binary=True)
        file.seek(len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0)
        while number < offset - 1 + limit:
            line = _next_line(file, longest * 4)
            if line is None:
                break
            number += 1
            if number >= offset:
                page.append(line)
        rest, complete = _count_rest(file)
    texts = [_text(line, longest) for line in page]
    return Lines(
        tuple(text for text, _ in texts),
        number + rest,
        complete=complete,
        crlf=any(line.crlf for line in page),
        undecodable=not all(whole for _, whole in texts),
    )


def _next_line(file: BinaryIO, keep: int) -> _Line | None:
    """The next line, of which only `keep` bytes stay in memory."""
    piece = file.readline(BLOCK)
    if not piece:
        return None
    start, length = piece[:keep], len(piece)
    while not piece.endswith(b"\n"):
        more = file.readline(BLOCK)
        if not more:
            break
        piece, length = more, length + len(more)
    return _Line(start.rstrip(b"\r\n"), cut=length > keep, crlf=piece.endswith(b"\r\n"))


def _text(line: _Line, longest: int) -> tuple[str, bool]:
    """The line as text, and whether all of it was UTF-8."""
    try:
        # A cut may have gone through a character; the decoder leaves such a rest out.
        text = codecs.getincrementaldecoder("utf-8")().decode(line.start, final=not line.cut)
        whole = True
    except UnicodeDecodeError:
        text, whole = line.start.decode("utf-8", "replace"), False
    return cut_line(text, longest, more=line.cut), whole


def _count_rest(file: BinaryIO) -> tuple[int, bool]:
    """Lines from here to the end, and whether the end was reached."""
    count, last = 0, b"\n"
    for _ in range(COUNT_MOST // BLOCK):
        block = file.read(BLOCK)
        if not block:
            return count + (last != b"\n"), True
        count, last = count + block.count(b"\n"), block[-1:]
    return count, not file.read(1)


def _replace(path: Path, data: bytes) -> None:
    """Write beside the file and put it in its place, so that nobody sees half of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
    old = _stat_or_none(path)
    if old is not None and stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    name = path.with_name(f".hermes-{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except PermissionError:
        if old is None:
            raise
        path.write_bytes(data)  # the folder is closed to us, the file itself is not
        return
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if old is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
        name.replace(path)
    finally:
        name.unlink(missing_ok=True)  # after a success it has its new name


def _stat_or_none(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
