"""A command on a host: its output between two marks, and the report its wrapper gives."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import msgspec

from hermes.core.errors import ToolError
from hermes.terminal.base import Running
from hermes.terminal.host.call import Marked, new_mark

STOP_WAIT = 0.9
"""Seconds a stopped command gets to be gone; a network that is stuck must not hold us longer."""
KILLED = 137


class Report(msgspec.Struct, frozen=True):
    """What the wrapper says: `verdict` is the exit code, or why the command did not run."""

    verdict: str
    cwd: bytes
    exports: bytes
    """Empty when they are the same as before."""


class Program:
    """Watches the streams of one wrapper; `attach` tells which program they come from."""

    def __init__(self, on_output: Callable[[bytes], None]) -> None:
        self.mark = new_mark()
        self._reported = bytearray()
        self._output = Marked(self.mark, on_output)
        self._errors = Marked(self.mark, self._reported.extend)
        self._over = asyncio.Event()
        self._running: Running | None = None

    @property
    def running(self) -> Running:
        if self._running is None:
            raise RuntimeError("the program was not started")
        return self._running

    def attach(self, running: Running) -> None:
        self._running = running

    def on_output(self, data: bytes) -> None:
        self._output.feed(data)
        self._look()

    def on_error(self, data: bytes) -> None:
        self._errors.feed(data)
        self._look()

    @property
    def report(self) -> Report | None:
        """None until it has come whole."""
        if not self._errors.ended:
            return None
        verdict, cwd, exports, *_ = [*bytes(self._reported).split(b"\0"), b"", b""]
        return Report(verdict.decode(), cwd, exports)

    async def over(self) -> None:
        """Until the command has ended; what it left behind may still hold its streams."""
        gone = asyncio.ensure_future(self.running.wait())
        told = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait((gone, told), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            told.cancel()
            await asyncio.gather(gone, told, return_exceptions=True)

    def _look(self) -> None:
        if self._output.ended and self._errors.ended:
            self._over.set()


async def end(program: Program, kill: Callable[[], Awaitable[None]]) -> None:
    """Have the command killed where it runs, then let go of our end of it."""
    try:
        with contextlib.suppress(TimeoutError, ToolError):
            async with asyncio.timeout(STOP_WAIT):
                await kill()
                await program.over()
    finally:
        await program.running.stop()


class Started:
    """A command in the background (see `base.Running`)."""

    def __init__(self, program: Program, kill: Callable[[], Awaitable[None]]) -> None:
        self._program, self._kill = program, kill
        self._code: int | None = None
        self._ending = asyncio.ensure_future(self._end())

    @property
    def pid(self) -> int | None:
        return self._program.running.pid

    @property
    def exit_code(self) -> int | None:
        return self._code

    async def wait(self) -> int:
        return await asyncio.shield(self._ending)

    async def write(self, data: bytes) -> None:
        if self._code is not None:
            raise ToolError("the program takes no input")
        await self._program.running.write(data)

    async def close_input(self) -> None:
        await self._program.running.close_input()

    async def stop(self) -> None:
        await end(self._program, self._kill)
        await self.wait()

    async def _end(self) -> int:
        await self._program.over()
        report, code = self._program.report, self._program.running.exit_code
        if report is not None:
            code = int(report.verdict) if report.verdict.isdigit() else 126
        self._code = KILLED if code is None else code
        return self._code
