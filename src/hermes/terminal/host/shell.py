"""A shell on any host: each command is a program there that takes over what the last one left."""

import asyncio
import contextlib
import itertools
import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import msgspec

from hermes.core.cancel import CancelToken
from hermes.core.errors import BackendUnavailable, ToolArgumentsInvalid, ToolError
from hermes.terminal.base import CommandResult, Host, Running
from hermes.terminal.host.call import ERRORS_KEPT, Marked, call, cut_off, new_mark, send
from hermes.terminal.host.scripts import (
    KEEPER,
    RUN,
    START,
    START_TERMINAL,
    UPLOAD,
    background,
    foreground,
)
from hermes.terminal.output import Capture, OutputLimits

# Our side of the keeper: the one program on the host that lives as long as the shell does.

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


# A command on a host: its output between two marks, and the report its wrapper gives.

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


TIMED_OUT = 124
"""The exit code `timeout(1)` uses."""
LEFT_MOST = 4
"""Clients kept for what commands left running. Its output is read and thrown away; the oldest are
given up first, since a server may allow only ten at once."""


class HostShell:
    """`cwd` is where commands begin, empty for the host's own choice; `exports` are set for them.

    After `lifetime` idle seconds (0: never) the host is closed and with it what commands left
    running. The next use opens it again, with folder and variables as they were.
    """

    def __init__(
        self,
        host: Host,
        *,
        cwd: str = "",
        exports: Mapping[str, str] | None = None,
        limits: OutputLimits | None = None,
        lifetime: float = 0,
    ) -> None:
        self._host = host
        self._cwd = self._first_cwd = cwd
        self._first_exports = export_text(exports or {})
        self._exports = b""
        """All variables, once a command has told them."""
        self._limits = limits or OutputLimits()
        self._lifetime = lifetime
        self._turn = asyncio.Lock()
        """Held by the command that runs: commands change one state."""
        self._opening = asyncio.Lock()
        self._keeper: Keeper | None = None
        self._numbers = itertools.count(1)
        self._left: list[Running] = []
        self._busy = 0
        self._idle: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Future[None]] = set()

    @property
    def cwd(self) -> str:
        """Empty as long as the host's own choice is not known."""
        return self._cwd

    async def run(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        on_output: Callable[[str], None],
        cancel: CancelToken,
    ) -> CommandResult:
        source = _source(command)
        with cancel.scope():
            async with self._turn, self.at_work():
                keeper = await self._opened()
                return await self._run(keeper, source, timeout, cwd, on_output)

    async def start(
        self,
        command: str,
        *,
        cwd: str | None = None,
        on_output: Callable[[bytes], None],
        pty: bool = False,
    ) -> Running:
        source = _source(command)
        async with self.at_work():
            keeper = await self._opened()
            tag = f"b{next(self._numbers)}"
            await keeper.put(tag, source)
            program = Program(on_output)
            inner = background(keeper.folder, tag, terminal=pty)
            script = START_TERMINAL if pty else START
            await self._begin(program, keeper, script, tag, cwd, "", inner, pty=pty)
            started = Started(program, lambda: keeper.kill(tag))
            self._in_background(self._accompany(started))
            return started

    async def close(self) -> None:
        async with self._turn, self._opening:
            await self._shut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._stop_clock()

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Within it the host is not idle."""
        self._busy += 1
        self._stop_clock()
        try:
            yield
        finally:
            self._busy -= 1
            if not self._busy and self._lifetime:
                loop = asyncio.get_running_loop()
                self._stop_clock()
                self._idle = loop.call_later(
                    self._lifetime, lambda: self._in_background(self._rest())
                )

    async def _run(
        self,
        keeper: Keeper,
        source: bytes,
        timeout: float,
        cwd: str | None,
        on_output: Callable[[str], None],
    ) -> CommandResult:
        tag = f"f{next(self._numbers)}"
        capture = Capture(self._limits, on_output)
        program = Program(capture.add)
        timed_out = ended = False
        inner = foreground(keeper.folder, tag)
        await self._begin(program, keeper, RUN, tag, cwd, str(len(source)), inner)
        try:
            async with asyncio.timeout(timeout):
                await send(program.running, source)
                await program.over()
            ended = True
        except TimeoutError:
            timed_out = True
        finally:
            try:
                if not ended:
                    await end(program, lambda: keeper.kill(tag))
            finally:
                output, truncated = capture.finish()
                self._adopt_state(program, keep_cwd=cwd is not None)
        await self._let_go(program.running)
        output = output.replace(f"{keeper.folder}/{tag}: ", "shell: ")
        code = TIMED_OUT if timed_out else await self._exit_code(program, keeper, cwd)
        return CommandResult(code, output, timed_out, truncated)

    async def _begin(
        self,
        program: Program,
        keeper: Keeper,
        script: str,
        tag: str,
        cwd: str | None,
        size: str,
        inner: str,
        *,
        pty: bool = False,
    ) -> None:
        folders = (self._cwd, self._first_cwd, cwd or "")
        arguments = (program.mark.decode(), keeper.folder, tag, *folders, size, inner)
        running = await self._host.start(
            ["sh", "-c", script, "hermes", *arguments],
            on_output=program.on_output,
            on_error=None if pty else program.on_error,
            pty=pty,
        )
        program.attach(running)

    async def _exit_code(self, program: Program, keeper: Keeper, cwd: str | None) -> int:
        report = program.report
        if report is None:
            if await keeper.lost():
                raise cut_off(self._host, b"")
            return program.running.exit_code or 0
        if report.verdict == "folder":
            raise ToolError(f"the working folder {cwd} does not exist")
        if report.verdict == "short":
            raise ToolError(
                "the command did not arrive whole and was not run",
                hint="is there room in the temporary folder of that machine?",
            )
        return int(report.verdict)

    def _adopt_state(self, program: Program, *, keep_cwd: bool) -> None:
        """Take over what the command left, when it told all of it."""
        report = program.report
        if report is None or not report.cwd.endswith(b"\n"):
            return
        self._exports = report.exports or self._exports
        if not keep_cwd:
            self._cwd = os.fsdecode(report.cwd[:-1])

    async def _let_go(self, client: Running) -> None:
        """What the command left running may hold the client; it is not waited for."""
        self._left = [each for each in (*self._left, client) if each.exit_code is None]
        while len(self._left) > LEFT_MOST:
            await self._left.pop(0).stop()

    async def _opened(self) -> Keeper:
        async with self._opening:
            if self._keeper is not None and self._keeper.alive:
                return self._keeper
            await self._host.open()
            old = self._keeper.folder if self._keeper is not None else ""
            keeper = await open_keeper(self._host, self._cwd, old)
            try:
                if not self._cwd:
                    self._cwd = self._first_cwd = keeper.cwd
                if self._exports:
                    await keeper.put("exports", self._exports)
                elif self._first_exports:
                    await keeper.put("first", self._first_exports)
            except BaseException:
                await keeper.close()
                raise
            self._keeper = keeper
            return keeper

    async def _rest(self) -> None:
        """The idle time is over."""
        async with self._turn, self._opening:
            if not self._busy:
                await self._shut()

    async def _shut(self) -> None:
        self._stop_clock()
        keeper, self._keeper = self._keeper, None
        left, self._left = self._left, []
        try:
            if keeper is not None:
                await keeper.close()
            for client in left:
                await client.stop()
        finally:
            await self._host.close()

    def _stop_clock(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    async def _accompany(self, started: Started) -> None:
        async with self.at_work():
            await started.wait()

    def _in_background(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _source(command: str) -> bytes:
    if "\0" in command:
        raise ToolArgumentsInvalid("a command cannot contain a NUL character")
    try:
        return (command + "\n").encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ToolArgumentsInvalid("the command holds half a character (a surrogate)") from error
