"""Files of this machine on a host, and back: what changed, in one tar stream.

For credential files, skills and results that were too long for a message.
"""

import asyncio
import errno
import os
import tempfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import IO

import msgspec

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal.base import Host
from hermes.terminal.host.call import Answer, Excess, call
from hermes.terminal.sync.local import Entry, changed, collect, tar_blocks
from hermes.terminal.sync.unpack import Unpacked, unpack

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
