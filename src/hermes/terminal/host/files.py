"""The files of any host that has a POSIX shell. Each operation is one small script there."""

import codecs
import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import AsyncIterator
from typing import Literal

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolError
from hermes.terminal.base import FileInfo, Grep, Grepped, Host, Lines, Shell
from hermes.terminal.here.pages import COUNT_MOST, Line, line_text
from hermes.terminal.here.walk import SNIFF
from hermes.terminal.host.call import Answer, Excess, call
from hermes.terminal.host.files_scripts import (
    LINES,
    LOCATE,
    NAMES,
    READ,
    REMOVE,
    STAT,
    WRITE,
)
from hermes.terminal.host.search import HostSearch
from hermes.terminal.host.shell import HostShell
from hermes.util.paths import unescaped

_BOM = codecs.BOM_UTF8
_KINDS: dict[int, Literal["file", "folder"]] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}


class HostFiles:
    """`shell` gives the folder relative paths start from. A `HostShell` is kept awake meanwhile."""

    def __init__(self, host: Host, shell: Shell) -> None:
        self._host, self._shell = host, shell
        self._search = HostSearch(host)

    async def locate(self, path: str) -> str:
        if "\0" in path:
            raise OSError(errno.EINVAL, "a path cannot contain a null byte")
        other = unescaped(path) if "\\x" in path else ""
        answer = await self._call(LOCATE, self._shell.cwd, path, other)
        return os.fsdecode(answer.output)

    async def stat(self, path: str) -> FileInfo | None:
        answer = await self._call(STAT, path)
        _require(answer, path)
        if not answer.output:
            return None
        mode, size, modified = answer.output.decode().split()
        kind = stat.S_IFMT(int(mode, 16))
        return FileInfo(_KINDS.get(kind, "other"), int(size), _nanoseconds(modified))

    async def names(self, folder: str) -> list[str]:
        answer = await self._call(NAMES, folder)
        _require(answer, folder)
        return sorted(os.fsdecode(name) for name in answer.output.split(b"\0")[:-1])

    async def lines(self, path: str, *, offset: int, limit: int, longest: int) -> Lines:
        keep = longest * 4
        counts = (offset, offset + limit - 1, keep + len(_BOM), COUNT_MOST, SNIFF)
        answer = await self._call(LINES, path, *map(str, counts))
        _require(answer, path)
        if answer.output == b"binary":
            return Lines((), 0, binary=True)
        head, _, body = answer.output.partition(b"\0")
        total, complete = head.decode().split()
        raw = body.split(b"\n")[:-1]
        if offset == 1 and raw:
            raw[0] = raw[0].removeprefix(_BOM)
        page = [_line(line, keep) for line in raw]
        texts = [line_text(line, longest) for line in page]
        return Lines(
            tuple(text for text, _ in texts),
            int(total),
            complete=complete == "yes",
            crlf=any(line.crlf for line in page),
            undecodable=not all(whole for _, whole in texts),
        )

    async def read(self, path: str, *, most: int) -> bytes:
        try:
            answer = await self._call(READ, path, str(most), most=most)
        except Excess:
            raise OSError(errno.EFBIG, f"it has more than {most} bytes", path) from None
        _require(answer, path)
        return answer.output

    async def write(self, path: str, data: bytes) -> None:
        _require_absolute(path)
        name = f".hermes-{secrets.token_hex(8)}.tmp"
        _require(await self._call(WRITE, path, str(len(data)), name, data=data), path)

    async def remove(self, path: str) -> None:
        _require_absolute(path)
        _require(await self._call(REMOVE, path), path)

    async def find(self, glob: str, folder: str, cancel: CancelToken) -> list[str]:
        with cancel.scope():
            async with self._at_work():
                return await self._search.find(glob, folder)

    async def grep(self, query: Grep, cancel: CancelToken) -> Grepped:
        with cancel.scope():
            async with self._at_work():
                return await self._search.grep(query)

    async def _call(
        self, script: str, *arguments: str, data: bytes | None = None, most: int | None = None
    ) -> Answer:
        async with self._at_work():
            return await call(self._host, script, *arguments, data=data, most=most)

    @contextlib.asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        if isinstance(self._shell, HostShell):
            async with self._shell.at_work():
                yield
        else:
            yield


def _line(raw: bytes, keep: int) -> Line:
    """Of a line that was cut the end is not known; its CRLF is then not seen."""
    return Line(raw[:keep].rstrip(b"\r"), cut=len(raw) >= keep, crlf=raw.endswith(b"\r"))


def _nanoseconds(text: str) -> int:
    seconds, _, fraction = text.partition(".")
    return int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9] or 0)


def _require_absolute(path: str) -> None:
    if not path.startswith("/") or path.endswith("/") or ".." in path.split("/"):
        raise OSError(errno.EINVAL, "not an absolute path of a file", path)


_TOLD = re.compile(rb"!(E[A-Z]+)\Z")
_MEANT = {
    os.strerror(number): number
    for number in (
        errno.ENOENT, errno.EACCES, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ENOSPC,
        errno.EROFS, errno.EDQUOT, errno.ELOOP, errno.EIO, errno.EPERM, errno.ETXTBSY,
    )
}  # fmt: skip
_REASONS = {
    errno.EINVAL: "it is a device, pipe or socket, not a file",
    errno.ELOOP: "a part of the path has become a link",
    errno.EFBIG: "it is too big",
    errno.EIO: "not all of it arrived",
}


def _require(answer: Answer, path: str) -> None:
    """Raise what the script failed with; `OSError` makes the right class of the number."""
    if answer.code == 0:
        return
    if told := _TOLD.search(answer.errors):
        number = getattr(errno, told[1].decode())
        raise OSError(number, _REASONS.get(number) or os.strerror(number), path)
    said = answer.errors.decode("utf-8", "replace").strip()
    for text, number in _MEANT.items():
        if text in said:
            raise OSError(number, text, path)
    last = said.splitlines()[-1] if said else f"exit code {answer.code}"
    raise ToolError(f"the host could not do it: {last}")
