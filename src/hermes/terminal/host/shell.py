"""A shell on any host: each command is a program there that restores the state of the last one."""

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
from hermes.terminal.host.call import (
    MAX_ERROR_BYTES,
    MarkedStream,
    call_script,
    connection_lost,
    new_mark,
    send_input,
)
from hermes.terminal.host.scripts import (
    RUN,
    START,
    START_TERMINAL,
    SUPERVISOR,
    UPLOAD,
    background,
    foreground,
)
from hermes.terminal.output import Capture, OutputLimits

# This side of the supervisor: the one program on the host that lives as long as the shell.

OPEN_TIMEOUT = 60.0
"""Seconds the host may take to start its first program."""
CLOSE_TIMEOUT = 3.0
"""Seconds the supervisor may take to stop what is left."""
LOSS_TIMEOUT = 0.5
"""Seconds in which a lost connection becomes visible on the supervisor too."""


class HostSupervisor:
    """The supervisor of a session on the host.

    `folder` is private to the remote user and is deleted with the supervisor; `cwd` is the initial
    folder. When its input closes, because this side closed it, the connection broke or this process
    was killed, it stops every process group that commands announced to it, with their descendants.
    """

    def __init__(self, host: Host, running: Running, folder: str, cwd: str) -> None:
        self._host, self._running = host, running
        self.folder, self.cwd = folder, cwd

    @property
    def alive(self) -> bool:
        return self._running.exit_code is None

    async def kill(self, tag: str) -> None:
        """Stop the command with that tag: SIGTERM, then SIGKILL."""
        await self._running.write(f"kill {tag}\n".encode())

    async def is_lost(self) -> bool:
        """Wait briefly, then return whether the connection is lost."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOSS_TIMEOUT):
                await self._running.wait()
        return not self.alive

    async def upload(self, name: str, data: bytes) -> None:
        """Write a file in its folder."""
        answer = await call_script(
            self._host, UPLOAD, f"{self.folder}/{name}", str(len(data)), data=data, most=0
        )
        if answer.code:
            raise connection_lost(self._host, answer.errors)

    async def close(self) -> None:
        try:
            with contextlib.suppress(TimeoutError, ToolError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self._running.close_input()
                    await self._running.wait()
        finally:
            await self._running.stop()


async def start_supervisor(host: Host, cwd: str, old_folder: str = "") -> HostSupervisor:
    """Start it in the folder `cwd`, or in the host's default if that is empty or missing.

    `old_folder` belongs to an earlier supervisor that is exited; this one then stops what that one
    could not.
    """
    hello, errors = bytearray(), bytearray()
    mark = new_mark()
    marked = MarkedStream(mark, hello.extend)
    greeted = asyncio.Event()

    def on_output(data: bytes) -> None:
        marked.feed(data)
        if hello.count(b"\0") == 2:
            greeted.set()

    running = await host.start(
        ["sh", "-c", SUPERVISOR, "hermes-keeper", mark.decode(), cwd, old_folder],
        on_output=on_output,
        on_error=lambda data: errors.extend(data[: MAX_ERROR_BYTES - len(errors)]),
    )
    exited = asyncio.ensure_future(running.wait())
    ready = asyncio.ensure_future(greeted.wait())
    try:
        await asyncio.wait(
            (exited, ready), timeout=OPEN_TIMEOUT, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        exited.cancel()
        ready.cancel()
        if not greeted.is_set():
            await running.stop()
    if not greeted.is_set():
        lines = errors.decode("utf-8", "replace").strip().splitlines() or ["it does not answer"]
        raise BackendUnavailable(
            f"no shell can be started on the {host.name} backend: {lines[-1]}",
            hint="it needs a POSIX sh with mktemp and mkfifo, and a temporary folder to write to",
        )
    folder, start = bytes(hello).split(b"\0")[:2]
    return HostSupervisor(host, running, os.fsdecode(folder), os.fsdecode(start))


def export_text(variables: Mapping[str, str]) -> bytes:
    """Return shell text that exports `variables`, skipping names that the shell does not allow."""
    lines = [
        f"export {name}={shlex.quote(value)}\n"
        for name, value in variables.items()
        if name.isidentifier() and name.isascii()
    ]
    return "".join(lines).encode("utf-8", "surrogateescape")


# A command on a host: its output between two marks, and the report of its wrapper.

STOP_TIMEOUT = 0.9
"""Seconds a stopped command may take to end; a stuck network must not delay us longer."""
KILLED = 137


class CommandReport(msgspec.Struct, frozen=True):
    """The wrapper's report: `verdict` is the exit code, or why the command did not run."""

    verdict: str
    cwd: bytes
    exports: bytes
    """Empty if unchanged."""


class HostProgram:
    """Reads the streams of one wrapper; `attach` sets the program they belong to."""

    def __init__(self, on_output: Callable[[bytes], None]) -> None:
        self.mark = new_mark()
        self._reported = bytearray()
        self._output = MarkedStream(self.mark, on_output)
        self._errors = MarkedStream(self.mark, self._reported.extend)
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
    def report(self) -> CommandReport | None:
        """The report, or None while it is incomplete."""
        if not self._errors.ended:
            return None
        verdict, cwd, exports, *_ = [*bytes(self._reported).split(b"\0"), b"", b""]
        return CommandReport(verdict.decode(), cwd, exports)

    async def wait_over(self) -> None:
        """Wait until the command has ended; what it left behind may still hold its streams."""
        exited = asyncio.ensure_future(self.running.wait())
        ready = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait((exited, ready), return_when=asyncio.FIRST_COMPLETED)
        finally:
            exited.cancel()
            ready.cancel()
            await asyncio.gather(exited, ready, return_exceptions=True)

    def _look(self) -> None:
        if self._output.ended and self._errors.ended:
            self._over.set()


async def stop_program(program: HostProgram, kill: Callable[[], Awaitable[None]]) -> None:
    """Have the command killed on the host, then stop the client."""
    try:
        with contextlib.suppress(TimeoutError, ToolError):
            async with asyncio.timeout(STOP_TIMEOUT):
                await kill()
                await program.wait_over()
    finally:
        await program.running.stop()


class HostProcess:
    """`Running` for a background command."""

    def __init__(self, program: HostProgram, kill: Callable[[], Awaitable[None]]) -> None:
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
        await stop_program(self._program, self._kill)
        await self.wait()

    async def _end(self) -> int:
        await self._program.wait_over()
        report, code = self._program.report, self._program.running.exit_code
        if report is not None:
            code = int(report.verdict) if report.verdict.isdigit() else 126
        self._code = KILLED if code is None else code
        return self._code


TIMED_OUT = 124
"""The exit code `timeout(1)` uses."""
MAX_LINGERING = 4
"""Clients kept for processes that commands left running. Their output is discarded. The oldest
are stopped first, because a server may allow only ten sessions."""


class HostShell:
    """`Shell` of a host.

    `cwd` is the initial folder, empty for the host's default; `exports` are set for commands. After
    `lifetime` idle seconds (0: never) the host is closed, with what commands left running. The next
    use opens it again with the same folder and variables.
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
        """All variables, once a command has reported them."""
        self._limits = limits or OutputLimits()
        self._lifetime = lifetime
        self._command_lock = asyncio.Lock()
        """Held by the running command, because commands share one state."""
        self._open_lock = asyncio.Lock()
        self._supervisor: HostSupervisor | None = None
        self._numbers = itertools.count(1)
        self._lingering: list[Running] = []
        self._busy = 0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Future[None]] = set()

    @property
    def cwd(self) -> str:
        """Empty until the host's default is known."""
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
        source = _encode_command(command)
        with cancel.scope():
            async with self._command_lock, self.keep_open():
                supervisor = await self._ensure_open()
                return await self._run(supervisor, source, timeout, cwd, on_output)

    async def start(
        self,
        command: str,
        *,
        cwd: str | None = None,
        on_output: Callable[[bytes], None],
        pty: bool = False,
    ) -> Running:
        source = _encode_command(command)
        async with self.keep_open():
            supervisor = await self._ensure_open()
            tag = f"b{next(self._numbers)}"
            await supervisor.upload(tag, source)
            program = HostProgram(on_output)
            inner = background(supervisor.folder, tag, terminal=pty)
            script = START_TERMINAL if pty else START
            await self._start_program(program, supervisor, script, tag, cwd, "", inner, pty=pty)
            started = HostProcess(program, lambda: supervisor.kill(tag))
            self._spawn_task(self._keep_open_until_exit(started))
            return started

    async def close(self) -> None:
        async with self._command_lock, self._open_lock:
            await self._close_host()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._cancel_idle_timer()

    @contextlib.asynccontextmanager
    async def keep_open(self) -> AsyncIterator[None]:
        """Keep the host from being closed as idle."""
        self._busy += 1
        self._cancel_idle_timer()
        try:
            yield
        finally:
            self._busy -= 1
            if not self._busy and self._lifetime:
                loop = asyncio.get_running_loop()
                self._cancel_idle_timer()
                self._idle_timer = loop.call_later(
                    self._lifetime, lambda: self._spawn_task(self._close_if_idle())
                )

    async def _run(
        self,
        supervisor: HostSupervisor,
        source: bytes,
        timeout: float,
        cwd: str | None,
        on_output: Callable[[str], None],
    ) -> CommandResult:
        tag = f"f{next(self._numbers)}"
        capture = Capture(self._limits, on_output)
        program = HostProgram(capture.add)
        timed_out = ended = False
        inner = foreground(supervisor.folder, tag)
        await self._start_program(program, supervisor, RUN, tag, cwd, str(len(source)), inner)
        try:
            async with asyncio.timeout(timeout):
                await send_input(program.running, source)
                await program.wait_over()
            ended = True
        except TimeoutError:
            timed_out = True
        finally:
            try:
                if not ended:
                    await stop_program(program, lambda: supervisor.kill(tag))
            finally:
                output, truncated = capture.finish()
                self._load_report(program, keep_cwd=cwd is not None)
        await self._track_client(program.running)
        output = output.replace(f"{supervisor.folder}/{tag}: ", "shell: ")
        code = TIMED_OUT if timed_out else await self._exit_code(program, supervisor, cwd)
        return CommandResult(code, output, timed_out, truncated)

    async def _start_program(
        self,
        program: HostProgram,
        supervisor: HostSupervisor,
        script: str,
        tag: str,
        cwd: str | None,
        size: str,
        inner: str,
        *,
        pty: bool = False,
    ) -> None:
        folders = (self._cwd, self._first_cwd, cwd or "")
        arguments = (program.mark.decode(), supervisor.folder, tag, *folders, size, inner)
        running = await self._host.start(
            ["sh", "-c", script, "hermes", *arguments],
            on_output=program.on_output,
            on_error=None if pty else program.on_error,
            pty=pty,
        )
        program.attach(running)

    async def _exit_code(
        self, program: HostProgram, supervisor: HostSupervisor, cwd: str | None
    ) -> int:
        report = program.report
        if report is None:
            if await supervisor.is_lost():
                raise connection_lost(self._host, b"")
            return program.running.exit_code or 0
        if report.verdict == "folder":
            raise ToolError(f"the working folder {cwd} does not exist")
        if report.verdict == "short":
            raise ToolError(
                "the command did not arrive whole and was not run",
                hint="is there room in the temporary folder of that machine?",
            )
        return int(report.verdict)

    def _load_report(self, program: HostProgram, *, keep_cwd: bool) -> None:
        """Adopt the state that the command left, if its report is complete."""
        report = program.report
        if report is None or not report.cwd.endswith(b"\n"):
            return
        self._exports = report.exports or self._exports
        if not keep_cwd:
            self._cwd = os.fsdecode(report.cwd[:-1])

    async def _track_client(self, client: Running) -> None:
        """Keep the client, which processes left by the command may hold; do not wait for it."""
        self._lingering = [each for each in (*self._lingering, client) if each.exit_code is None]
        while len(self._lingering) > MAX_LINGERING:
            await self._lingering.pop(0).stop()

    async def _ensure_open(self) -> HostSupervisor:
        async with self._open_lock:
            if self._supervisor is not None and self._supervisor.alive:
                return self._supervisor
            await self._host.open()
            old = self._supervisor.folder if self._supervisor is not None else ""
            supervisor = await start_supervisor(self._host, self._cwd, old)
            try:
                if not self._cwd:
                    self._cwd = self._first_cwd = supervisor.cwd
                if self._exports:
                    await supervisor.upload("exports", self._exports)
                elif self._first_exports:
                    await supervisor.upload("first", self._first_exports)
            except BaseException:
                await supervisor.close()
                raise
            self._supervisor = supervisor
            return supervisor

    async def _close_if_idle(self) -> None:
        """Close the host unless it became busy again."""
        async with self._command_lock, self._open_lock:
            if not self._busy:
                await self._close_host()

    async def _close_host(self) -> None:
        self._cancel_idle_timer()
        supervisor, self._supervisor = self._supervisor, None
        left, self._lingering = self._lingering, []
        try:
            if supervisor is not None:
                await supervisor.close()
            for client in left:
                await client.stop()
        finally:
            await self._host.close()

    def _cancel_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    async def _keep_open_until_exit(self, started: HostProcess) -> None:
        async with self.keep_open():
            await started.wait()

    def _spawn_task(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _encode_command(command: str) -> bytes:
    if "\0" in command:
        raise ToolArgumentsInvalid("a command cannot contain a NUL character")
    try:
        return (command + "\n").encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ToolArgumentsInvalid("the command holds half a character (a surrogate)") from error
