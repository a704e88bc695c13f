"""A program inside the sandbox: its descriptors were made here and handed in."""

import asyncio
import os
import signal
import termios
from collections.abc import Awaitable, Callable

from hermes.core.errors import ToolError
from hermes.terminal.here.pipes import Reading, Writing
from hermes.terminal.here.spawn import COLUMNS, LINES, PATIENCE

GRACE = 0.6
"""Seconds between SIGTERM and SIGKILL."""
KILLED_WAIT = 0.3
"""Seconds a killed program gets to be gone."""


class Streams:
    """Both ends of a program's standard streams; `apart` keeps its errors from its output."""

    def __init__(self, *, pty: bool, apart: bool) -> None:
        self.pty = pty
        self.theirs: list[int] = []
        """Of the program: input, output and errors, or one for all."""
        self.reading: list[int] = []
        if pty:
            ours, theirs = os.openpty()
            termios.tcsetwinsize(theirs, (LINES, COLUMNS))
            self.theirs, self.reading, self.writing = [theirs], [ours], os.dup(ours)
            return
        source, self.writing = os.pipe()
        self.theirs.append(source)
        for _ in range(2 if apart else 1):
            ours, theirs = os.pipe()
            self.reading.append(ours)
            self.theirs.append(theirs)
        if not apart:
            self.theirs.append(os.dup(self.theirs[1]))

    def close_theirs(self) -> None:
        for descriptor in self.theirs:
            os.close(descriptor)
        self.theirs = []

    def close(self) -> None:
        for descriptor in (*self.reading, self.writing):
            os.close(descriptor)


class Inside:
    """See `base.Running`. `tell` has a signal sent to its process group."""

    pid = None

    def __init__(
        self,
        streams: Streams,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None,
        tell: Callable[[int], Awaitable[None]],
    ) -> None:
        self.exit_code: int | None = None
        self._tell, self._pty = tell, streams.pty
        self._done = asyncio.get_running_loop().create_future()
        self._writing = Writing(streams.writing, terminal=streams.pty)
        handlers = (on_output, on_error or on_output)
        self._readings = [
            Reading(descriptor, handler, self._look)
            for descriptor, handler in zip(streams.reading, handlers, strict=False)
        ]

    async def wait(self) -> int:
        return int(await asyncio.shield(self._done))

    async def write(self, data: bytes) -> None:
        if self.exit_code is not None:
            raise ToolError("the program takes no input")
        await self._writing.write(data)

    async def close_input(self) -> None:
        await self._writing.end()

    async def stop(self) -> None:
        polite = [signal.SIGHUP, signal.SIGTERM] if self._pty else [signal.SIGTERM]
        self._writing.close()
        try:
            if self.exit_code is None:
                for name in polite:
                    await self._tell(name)
                await asyncio.wait((self._done,), timeout=GRACE)
        finally:
            if self.exit_code is None:
                await self._tell(signal.SIGKILL)
                await asyncio.wait((self._done,), timeout=KILLED_WAIT)
            for reading in self._readings:
                reading.close()
            if not self._done.done():
                self.exit_code = 128 + signal.SIGKILL
                self._done.set_result(self.exit_code)

    def end(self, code: int) -> None:
        """It has ended; others may still hold its output."""
        if self.exit_code is not None:
            return
        self.exit_code = code
        self._writing.close()
        for reading in self._readings:
            reading.drain()
        self._look()
        if not self._done.done():
            asyncio.get_running_loop().call_later(PATIENCE, self._finish)

    def _look(self) -> None:
        if self.exit_code is not None and all(reading.ended for reading in self._readings):
            self._finish()

    def _finish(self) -> None:
        """All output was handed over; what others still write is thrown away."""
        for reading in self._readings:
            reading.discard()
        if not self._done.done():
            self._done.set_result(self.exit_code)
