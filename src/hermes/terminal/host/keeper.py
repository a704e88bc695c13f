"""Our side of the keeper: the one program on the host that lives as long as the shell does."""

import asyncio
import contextlib
import os
import shlex
from collections.abc import Mapping

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal.base import Host, Running
from hermes.terminal.host.call import ERRORS_KEPT, Marked, call, cut_off, new_mark
from hermes.terminal.host.shell_scripts import KEEPER, UPLOAD

OPEN_WAIT = 60.0
"""Seconds the host gets to start its first program."""
CLOSE_WAIT = 3.0
"""Seconds the keeper gets to end what is left."""
NOTICE_WAIT = 0.5
"""Seconds in which a lost connection shows on the keeper too."""


class Keeper:
    """`folder` is private to the user there and vanishes with the keeper; `cwd` is where it began.

    When its input closes, because we closed it, the connection broke or we were killed, it ends
    every process group that commands announced to it, with their descendants.
    """

    def __init__(self, host: Host, running: Running, folder: str, cwd: str) -> None:
        self._host, self._running = host, running
        self.folder, self.cwd = folder, cwd

    @property
    def alive(self) -> bool:
        return self._running.exit_code is None

    async def kill(self, tag: str) -> None:
        """End the command of that tag: politely, then surely."""
        await self._running.write(f"kill {tag}\n".encode())

    async def lost(self) -> bool:
        """Whether the connection is gone: a moment is given for it to show."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NOTICE_WAIT):
                await self._running.wait()
        return not self.alive

    async def put(self, name: str, data: bytes) -> None:
        """Write a file of its folder."""
        answer = await call(
            self._host, UPLOAD, f"{self.folder}/{name}", str(len(data)), data=data, most=0
        )
        if answer.code:
            raise cut_off(self._host, answer.errors)

    async def close(self) -> None:
        try:
            with contextlib.suppress(TimeoutError, ToolError):
                async with asyncio.timeout(CLOSE_WAIT):
                    await self._running.close_input()
                    await self._running.wait()
        finally:
            await self._running.stop()


async def open_keeper(host: Host, cwd: str, old_folder: str = "") -> Keeper:
    """Start it in the folder `cwd`, or where the host begins if that is empty or not there.

    `old_folder` is that of a keeper that is gone; what it had to end is this one's task then.
    """
    hello, errors = bytearray(), bytearray()
    mark = new_mark()
    marked = Marked(mark, hello.extend)
    greeted = asyncio.Event()

    def on_output(data: bytes) -> None:
        marked.feed(data)
        if hello.count(b"\0") == 2:
            greeted.set()

    running = await host.start(
        ["sh", "-c", KEEPER, "hermes-keeper", mark.decode(), cwd, old_folder],
        on_output=on_output,
        on_error=lambda data: errors.extend(data[: ERRORS_KEPT - len(errors)]),
    )
    gone = asyncio.ensure_future(running.wait())
    told = asyncio.ensure_future(greeted.wait())
    try:
        await asyncio.wait((gone, told), timeout=OPEN_WAIT, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        told.cancel()
        if not greeted.is_set():
            await running.stop()
    if not greeted.is_set():
        said = errors.decode("utf-8", "replace").strip().splitlines() or ["it does not answer"]
        raise BackendUnavailable(
            f"no shell can be started on the {host.name} backend: {said[-1]}",
            hint="it needs a POSIX sh with mktemp and mkfifo, and a temporary folder to write to",
        )
    folder, start = bytes(hello).split(b"\0")[:2]
    return Keeper(host, running, os.fsdecode(folder), os.fsdecode(start))


def export_text(variables: Mapping[str, str]) -> bytes:
    """Shell text that exports `variables`; what is no shell name cannot be."""
    lines = [
        f"export {name}={shlex.quote(value)}\n"
        for name, value in variables.items()
        if name.isidentifier() and name.isascii()
    ]
    return "".join(lines).encode("utf-8", "surrogateescape")
