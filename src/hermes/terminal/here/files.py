"""The files of this machine, in-process: no child process for a read or a write."""

import asyncio
import errno
import os
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

from hermes.core.cancel import CancelToken
from hermes.terminal.base import FileInfo, Grep, Grepped, Lines
from hermes.terminal.here.pages import read_bytes, read_lines
from hermes.terminal.here.replacing import remove, replace
from hermes.terminal.here.ripgrep import grep_with_ripgrep
from hermes.terminal.here.walk import find_files, grep_files
from hermes.util.paths import real_path

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
        return real_path(path, self._folder(), self._home)  # microseconds; a thread costs more

    async def stat(self, path: str) -> FileInfo | None:
        return _stat(path)

    async def names(self, folder: str) -> list[str]:
        return sorted(await asyncio.to_thread(os.listdir, folder))

    async def lines(self, path: str, *, offset: int, limit: int, longest: int) -> Lines:
        return await asyncio.to_thread(read_lines, path, offset, limit, longest)

    async def read(self, path: str, *, most: int) -> bytes:
        return await asyncio.to_thread(read_bytes, path, most)

    async def write(self, path: str, data: bytes) -> None:
        await asyncio.to_thread(replace, path, data)

    async def remove(self, path: str) -> None:
        await asyncio.to_thread(remove, path)

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
        found = os.stat(path)  # noqa: PTH116 - several times a call; a Path costs more than the look
    except (FileNotFoundError, NotADirectoryError):
        return None
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
    return FileInfo(kind, found.st_size, found.st_mtime_ns)


_KINDS: dict[int, Literal["file", "folder", "other"]] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
}
