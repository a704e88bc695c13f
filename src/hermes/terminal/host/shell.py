"""A shell on any host: each command is a program there that restores the state of the last one."""

import asyncio
import contextlib
import itertools
import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Sequence

import msgspec

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal.base import Host, Running, Sink
from hermes.terminal.host.call import (
    MAX_ERROR_BYTES,
    MarkedStream,
    call_script,
    connection_lost,
    new_mark,
    send_input,
    wait_first,
)
from hermes.terminal.host.scripts import BEGIN, RUN, START, START_TERMINAL, SUPERVISOR, UPLOAD
from hermes.terminal.output import OutputLimits
from hermes.terminal.session_shell import (
    ForegroundCommand,
    SessionShell,
    background_script,
    foreground_script,
)

# This side of the supervisor: the one program on the host that lives as long as the shell.

OPEN_TIMEOUT = 60.0  #: Seconds the host may take to start its first program.
CLOSE_TIMEOUT = 3.0  #: Seconds the supervisor may take to stop what is left.
LOSS_TIMEOUT = 0.5  #: Seconds in which a lost connection becomes visible on the supervisor too.


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
    try:
        await wait_first(running.wait(), greeted.wait(), timeout=OPEN_TIMEOUT)
    finally:
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


# A command on a host: its output between two marks, and the report of its wrapper.

STOP_TIMEOUT = 0.9
"""Seconds a stopped command may take to end; a stuck network must not delay us longer."""
KILLED = 137


class CommandReport(msgspec.Struct, frozen=True):
    """The wrapper's report: `verdict` is the exit code, or why the command did not run."""

    verdict: str
    cwd: bytes
    exports: bytes  #: Empty if unchanged.


class HostProcess:
    """`Running` for a command, once `launch` has returned."""

    client: Running
    _ending: asyncio.Future[int]

    def __init__(self, supervisor: HostSupervisor, tag: str, on_output: Sink) -> None:
        self._supervisor, self.tag = supervisor, tag
        self._mark = new_mark()
        self._reported = bytearray()
        self._output = MarkedStream(self._mark, on_output)
        self._errors = MarkedStream(self._mark, self._reported.extend)
        self._over = asyncio.Event()
        self._source = b""
        self.exit_code: int | None = None

    async def launch(
        self, host: Host, script: str, folders: Sequence[str], source: bytes = b"", *, pty: bool
    ) -> None:
        """Start the wrapper `script`. `wait` sends it the `source`, unless it was uploaded."""
        begin = BEGIN.format(tag=self.tag, leash=shlex.quote(f"{self._supervisor.folder}/leash"))
        paths = (f"{self._supervisor.folder}/exports", f"{self._supervisor.folder}/{self.tag}")
        if script == RUN:
            inner = foreground_script(f"exec </dev/null 2>&1\n{begin}", *paths)
        else:
            inner = background_script(f"exec 2>&1\n{begin}", *paths, terminal=pty)
        session = (self._mark.decode(), self._supervisor.folder, self.tag)
        self.client = await host.start(
            ["sh", "-c", script, "hermes", *session, *folders, str(len(source)), inner],
            on_output=lambda data: self._feed(self._output, data),
            on_error=None if pty else lambda data: self._feed(self._errors, data),
            pty=pty,
        )
        self._source = source
        self._ending = asyncio.ensure_future(self._end())

    @property
    def pid(self) -> int | None:
        return self.client.pid

    @property
    def report(self) -> CommandReport | None:
        """The report, or None while it is incomplete."""
        if not self._errors.ended:
            return None
        verdict, cwd, exports, *_ = [*bytes(self._reported).split(b"\0"), b"", b""]
        return CommandReport(verdict.decode(), cwd, exports)

    async def wait(self) -> int:
        if self._source:
            await send_input(self.client, self._source)
        return await asyncio.shield(self._ending)

    async def write(self, data: bytes) -> None:
        if self.exit_code is not None:
            raise ToolError("the program takes no input")
        await self.client.write(data)

    async def close_input(self) -> None:
        await self.client.close_input()

    async def stop(self) -> None:
        """Have the command killed on the host, then stop the client."""
        try:
            with contextlib.suppress(TimeoutError, ToolError):
                async with asyncio.timeout(STOP_TIMEOUT):
                    await self._supervisor.kill(self.tag)
                    await asyncio.shield(self._ending)
        finally:
            await self.client.stop()
        await asyncio.shield(self._ending)

    def _feed(self, stream: MarkedStream, data: bytes) -> None:
        stream.feed(data)
        if self._output.ended and self._errors.ended:
            self._over.set()

    async def _end(self) -> int:
        """Wait until the command has ended; what it left behind may still hold its streams."""
        await wait_first(self.client.wait(), self._over.wait())
        report, code = self.report, self.client.exit_code
        if report is not None:
            code = int(report.verdict) if report.verdict.isdigit() else 126
        self.exit_code = KILLED if code is None else code
        return self.exit_code


MAX_LINGERING = 4
"""Clients kept for processes that commands left running. Their output is discarded. The oldest
are stopped first, because a server may allow only ten sessions."""


class HostShell(SessionShell[HostSupervisor]):
    """`Shell` of a host.

    `cwd` is the initial folder, empty for the host's default. After `lifetime` idle seconds (0:
    never) the host is closed, with what commands left running. The next use opens it again with
    the same folder and variables.
    """

    def __init__(
        self, host: Host, *, cwd: str = "", limits: OutputLimits | None = None, lifetime: float = 0
    ) -> None:
        super().__init__(cwd, limits)
        self._host = host
        self._exports = b""  #: All variables, once a command has reported them.
        self._lifetime = lifetime
        self._numbers = itertools.count(1)
        self._lingering: list[Running] = []
        self._busy = 0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Future[None]] = set()

    async def close(self) -> None:
        await super().close()
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

    async def _start_foreground(
        self, session: HostSupervisor, source: bytes, cwd: str | None, on_output: Sink
    ) -> ForegroundCommand:
        process = HostProcess(session, f"f{next(self._numbers)}", on_output)
        await process.launch(self._host, RUN, self._folders(cwd), source, pty=False)
        return ForegroundCommand(
            process,
            f"{session.folder}/{process.tag}",
            lambda: self._load_state(process),
            lambda: self._exit_code(session, process, cwd),
        )

    async def _start_background(
        self, session: HostSupervisor, source: bytes, cwd: str | None, on_output: Sink, *, pty: bool
    ) -> Running:
        process = HostProcess(session, f"b{next(self._numbers)}", on_output)
        await session.upload(process.tag, source)
        script = START_TERMINAL if pty else START
        await process.launch(self._host, script, self._folders(cwd), pty=pty)
        self._spawn_task(self._keep_open_until_exit(process))
        return process

    def _folders(self, cwd: str | None) -> tuple[str, ...]:
        return (self._cwd, self._first_cwd, cwd or "")

    async def _exit_code(
        self, session: HostSupervisor, process: HostProcess, cwd: str | None
    ) -> int:
        # Processes left by the command may hold its client; they are not waited for.
        self._lingering = [
            each for each in (*self._lingering, process.client) if each.exit_code is None
        ]
        while len(self._lingering) > MAX_LINGERING:
            await self._lingering.pop(0).stop()
        report = process.report
        if report is None:
            if await session.is_lost():
                raise connection_lost(self._host, b"")
            return process.client.exit_code or 0
        if report.verdict == "folder":
            raise ToolError(f"the working folder {cwd} does not exist")
        if report.verdict == "short":
            raise ToolError(
                "the command did not arrive whole and was not run",
                hint="is there room in the temporary folder of that machine?",
            )
        return int(report.verdict)

    def _load_state(self, process: HostProcess) -> str:
        report = process.report
        if report is None or not report.cwd.endswith(b"\n"):
            return ""
        self._exports = report.exports or self._exports
        return os.fsdecode(report.cwd[:-1])

    async def _open(self) -> HostSupervisor:
        await self._host.open()
        old = self._session.folder if self._session is not None else ""
        supervisor = await start_supervisor(self._host, self._cwd, old)
        try:
            if not self._cwd:
                self._cwd = self._first_cwd = supervisor.cwd
            if self._exports:
                await supervisor.upload("exports", self._exports)
        except BaseException:
            await supervisor.close()
            raise
        return supervisor

    async def _close_if_idle(self) -> None:
        """Close the host unless it became busy again."""
        async with self._command_lock, self._open_lock:
            if not self._busy:
                await self._close()

    async def _close(self) -> None:
        self._cancel_idle_timer()
        supervisor, self._session = self._session, None
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
