"""Files of this machine, read and written in-process without a child process."""

import asyncio
import codecs
import contextlib
import errno
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

import msgspec

from hermes.core.cancel import CancelToken
from hermes.terminal.base import FileInfo, GrepQuery, GrepResult, TextPage
from hermes.terminal.local.search import SNIFF_BYTES, find_files, grep_files, grep_with_ripgrep
from hermes.terminal.output import cut_line
from hermes.util.files import real_path

# Replacing and removing a file without following links placed in its path meanwhile.
#
# A path is walked folder by folder through open descriptors, none of which may be a link. So what
# was approved is what is written: a folder swapped for a link after the check is an error.

_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_PATH", 0)
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_DIR_FD_CALLS = {os.open, os.stat, os.mkdir, os.unlink, os.rename, os.symlink}
HAS_DIR_FD = os.supports_dir_fd >= _DIR_FD_CALLS
"""False where the system lacks these calls; paths are then only compared right before use."""


class _FileTarget(msgspec.Struct, frozen=True):
    """A file by its name in an open folder, or by its whole path where descriptors are missing."""

    folder: int | None
    name: str

    def sibling(self, name: str) -> str:
        return name if self.folder is not None else str(Path(self.name).with_name(name))

    def stat(self) -> os.stat_result | None:
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


def replace_file(path: str, data: bytes) -> None:
    """Write a temporary file and rename it into place, so that no reader sees half of it.

    Missing folders are created; permissions and owner of an existing file are kept. If the folder
    is not writable, the existing file is overwritten in place.
    """
    with _open_parent(path, make=True) as place:
        old = place.stat()
        if old is not None:
            _require_file(old, path)
        temporary = place.sibling(f".hermes-{secrets.token_hex(8)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
        try:
            descriptor = os.open(temporary, flags, 0o666, dir_fd=place.folder)
        except PermissionError:
            if old is None:
                raise
            _overwrite(place, data)
            return
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                if old is not None:
                    _copy_owner_and_mode(file.fileno(), old)
            # A link that took the place in the last instant is replaced, not followed.
            if place.folder is None:
                Path(temporary).replace(place.name)
            else:
                os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        finally:
            with contextlib.suppress(FileNotFoundError):  # after a success it has its new name
                os.unlink(temporary, dir_fd=place.folder)


def remove_file(path: str, *, link: bool = False) -> None:
    """Delete one file; with `link`, also a symbolic link itself."""
    with _open_parent(path, make=False) as place:
        old = place.stat()
        if old is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not (link and stat.S_ISLNK(old.st_mode)):
            _require_file(old, path)
        os.unlink(place.name, dir_fd=place.folder)


def make_link(path: str, goal: bytes) -> None:
    """Create a symbolic link to `goal` at an unused path, with missing folders."""
    with _open_parent(path, make=True) as place:
        os.symlink(os.fsdecode(goal), place.name, dir_fd=place.folder)


def require_regular(found: os.stat_result) -> None:
    """Raise unless it is a regular file: a pipe would block, and a device may never end."""
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a device, pipe or socket, not a file")


def _require_file(found: os.stat_result, path: str) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _link_error(path)
    require_regular(found)


def _overwrite(place: _FileTarget, data: bytes) -> None:
    descriptor = os.open(place.name, os.O_WRONLY | _FILE, dir_fd=place.folder)
    with os.fdopen(descriptor, "wb") as file:
        require_regular(os.fstat(file.fileno()))
        file.truncate()
        file.write(data)


def _copy_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    """Copy the owner first, because a change of owner clears special mode bits."""
    if hasattr(os, "fchown"):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


@contextlib.contextmanager
def _open_parent(path: str, *, make: bool) -> Iterator[_FileTarget]:
    if not HAS_DIR_FD:
        yield _check_path(path, make=make)
        return
    *folders, name = path.strip("/").split("/")
    if not path.startswith("/") or not name or ".." in folders:
        raise OSError(errno.EINVAL, "not an absolute path of a file", path)
    descriptor = os.open("/", _FOLDER)
    try:
        for folder in folders:
            below = _open_folder(descriptor, folder, path, make=make)
            os.close(descriptor)
            descriptor = below
        yield _FileTarget(descriptor, name)
    finally:
        os.close(descriptor)


def _open_folder(folder: int, name: str, path: str, *, make: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
        return _open_folder(folder, name, path, make=False)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise _link_error(path) from None
        raise


def _check_path(path: str, *, make: bool) -> _FileTarget:
    """Fallback without descriptors: the path must resolve to itself right before its use."""
    if os.path.realpath(path) != path:
        raise _link_error(path)
    if make:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
    return _FileTarget(None, path)


def _link_error(path: str) -> OSError:
    return OSError(errno.ELOOP, "a part of the path has become a link", path)


# Reading a page of lines, or all bytes.

MAX_COUNTED_BYTES = 64 * 1_048_576
"""Bytes after the page that are read to count the lines of the file."""
BLOCK = 1_048_576
SMALL_FILE = 262_144  #: Smaller files are read as a whole.


def open_file(path: str) -> BinaryIO:
    """Open a regular file without blocking, because a pipe without a writer would wait forever."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    file = os.fdopen(descriptor, "rb")
    try:
        require_regular(os.fstat(descriptor))
    except OSError:
        file.close()
        raise
    return file


_BINARY = getattr(os, "O_BINARY", 0)


def read_bytes(path: str, most: int) -> bytes:
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size <= most:
            data = file.read(most + 1)  # files of /proc report a size of zero
            if len(data) <= most:
                return data
    raise OSError(errno.EFBIG, f"it has more than {most} bytes", path)


class RawLine(msgspec.Struct, frozen=True):
    start: bytes  #: The beginning of the line, without its line ending.
    cut: bool
    crlf: bool


def read_lines(path: str, offset: int, limit: int, longest: int) -> TextPage:
    page: list[RawLine] = []
    number = 0
    with open_file(path) as file:
        start = file.read(SMALL_FILE)
        if b"\0" in start[:SNIFF_BYTES]:
            return TextPage((), 0, binary=True)
        if len(start) < SMALL_FILE and (small := _read_small_page(start, offset, limit, longest)):
            return small
        file.seek(len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0)
        while number < offset - 1 + limit:
            line = _next_line(file, longest * 4)
            if line is None:
                break
            number += 1
            if number >= offset:
                page.append(line)
        rest, complete = _count_rest(file)
    texts = [line_text(line, longest) for line in page]
    return TextPage(
        tuple(text for text, _ in texts),
        number + rest,
        complete=complete,
        crlf=any(line.crlf for line in page),
        undecodable=not all(whole for _, whole in texts),
    )


def _read_small_page(data: bytes, offset: int, limit: int, longest: int) -> TextPage | None:
    """Return the page of a small file in one step; None when a line needs special treatment."""
    data = data.removeprefix(codecs.BOM_UTF8)
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    page = lines[offset - 1 : offset - 1 + limit]
    crlf = any(line.endswith(b"\r") for line in page)
    if crlf or max(map(len, page), default=0) > longest:
        return None
    try:
        text = b"\n".join(page).decode()
    except UnicodeDecodeError:
        return None
    return TextPage(tuple(text.split("\n")) if page else (), len(lines))


def _next_line(file: BinaryIO, keep: int) -> RawLine | None:
    """Read the next line, of which only `keep` bytes stay in memory."""
    piece = file.readline(BLOCK)
    if not piece:
        return None
    start, length = piece[:keep], len(piece)
    while not piece.endswith(b"\n"):
        more = file.readline(BLOCK)
        if not more:
            break
        piece, length = more, length + len(more)
    return RawLine(start.rstrip(b"\r\n"), cut=length > keep, crlf=piece.endswith(b"\r\n"))


def line_text(line: RawLine, longest: int) -> tuple[str, bool]:
    """Return the line as text, and whether all of it was UTF-8."""
    try:
        # The cut may have split a character; the incremental decoder omits the remainder.
        text = codecs.getincrementaldecoder("utf-8")().decode(line.start, final=not line.cut)
        whole = True
    except UnicodeDecodeError:
        text, whole = line.start.decode("utf-8", "replace"), False
    return cut_line(text, longest, more=line.cut), whole


def _count_rest(file: BinaryIO) -> tuple[int, bool]:
    """Return the number of lines up to the end, and whether the end was reached."""
    count, last = 0, b"\n"
    for _ in range(MAX_COUNTED_BYTES // BLOCK):
        block = file.read(BLOCK)
        if not block:
            return count + (last != b"\n"), True
        count, last = count + block.count(b"\n"), block[-1:]
    return count, not file.read(1)


T = TypeVar("T")


class LocalFiles:
    """`Files` of this machine.

    `folder` returns the base of relative paths; `home` is the meaning of `~`. `ripgrep` is the path
    of `rg`, searched for if None; "" disables it.
    """

    def __init__(
        self, folder: Callable[[], str], home: Path, *, ripgrep: str | None = None
    ) -> None:
        self._folder, self._home = folder, str(home)
        self._ripgrep = shutil.which("rg") if ripgrep is None else ripgrep

    async def locate(self, path: str) -> str:
        if "\0" in path:
            raise OSError(errno.EINVAL, "a path cannot contain a null byte")
        return real_path(
            path, self._folder(), self._home
        )  # takes microseconds; a thread costs more

    async def stat(self, path: str) -> FileInfo | None:
        try:
            found = os.stat(path)  # noqa: PTH116 - several times a call; a Path costs more than the look
        except (FileNotFoundError, NotADirectoryError):
            return None
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
        return FileInfo(kind, found.st_size, found.st_mtime_ns)

    async def names(self, folder: str) -> list[str]:
        return sorted(await asyncio.to_thread(os.listdir, folder))

    async def lines(self, path: str, *, offset: int, limit: int, longest: int) -> TextPage:
        return await asyncio.to_thread(read_lines, path, offset, limit, longest)

    async def read(self, path: str, *, most: int) -> bytes:
        return await asyncio.to_thread(read_bytes, path, most)

    async def write(self, path: str, data: bytes) -> None:
        await asyncio.to_thread(replace_file, path, data)

    async def remove(self, path: str) -> None:
        await asyncio.to_thread(remove_file, path)

    async def find(self, glob: str, folder: str, cancel: CancelToken) -> list[str]:
        return await _run_stoppable(lambda stop: find_files(glob, folder, stop), cancel)

    async def grep(self, query: GrepQuery, cancel: CancelToken) -> GrepResult:
        if self._ripgrep:
            return await grep_with_ripgrep(self._ripgrep, query, cancel)
        return await _run_stoppable(lambda stop: grep_files(query, stop), cancel)


async def _run_stoppable(work: Callable[[threading.Event], T], cancel: CancelToken) -> T:
    """Run `work` in a thread; its event is set when this call is cancelled."""
    stop = threading.Event()
    try:
        with cancel.scope():
            return await asyncio.to_thread(work, stop)
    finally:
        stop.set()


_KINDS: dict[int, Literal["file", "folder", "other"]] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
}
