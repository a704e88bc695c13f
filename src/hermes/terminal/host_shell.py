"""A shell on any host: each command is a program there that restores the state of the last one.

`call_script` runs one small POSIX script of the folder `scripts` on a host: arguments and data in,
bytes and an exit code out.
"""

import asyncio
import contextlib
import itertools
import os
import secrets
import shlex
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Coroutine, Sequence
from typing import Any

import msgspec

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal.base import Host, Running, Sink, load_script
from hermes.terminal.output import OutputLimits
from hermes.terminal.session_shell import (
    ForegroundCommand,
    SessionShell,
    background_script,
    foreground_script,
)

CHUNK_BYTES = 262_144  #: Bytes per write.
MAX_ERROR_BYTES = 10_000  #: Bytes of standard error that are kept.
EXIT_TIMEOUT = 0.5  #: Seconds a program may take to exit after its result is complete.


class HostScriptResult(msgspec.Struct, frozen=True):
    code: int
    output: bytes
    errors: bytes


class OutputTooLong(Exception):
    """The output exceeds the requested limit."""


def new_mark() -> bytes:
    """Return a mark that starts with a byte which text does not contain, so searching is cheap."""
    return b"\x01hermes-%s\x01" % secrets.token_hex(12).encode()


class MarkedStream:
    """Passes on what is between the first and the second mark of a stream."""

    def __init__(self, mark: bytes, on_data: Sink) -> None:
        self._mark, self._on_data = mark, on_data
        self._held = b""
        self.begun = self.ended = False
        self.after = bytearray()  #: What follows the second mark.

    def feed(self, data: bytes) -> None:
        if self.ended:
            self.after += data[: MAX_ERROR_BYTES - len(self.after)]
            return
        data = self._held + data
        before, found, rest = data.partition(self._mark)
        if found:
            self._held = b""
            if self.begun:
                self._emit(before)
                self.ended = True
            self.begun = True
            if rest:
                self.feed(rest)
            return
        # An incomplete mark may begin near the end.
        last = data.rfind(self._mark[:1], max(0, len(data) - len(self._mark) + 1))
        keep = last if last >= 0 and self._mark.startswith(data[last:]) else len(data)
        self._held = data[keep:]
        if self.begun:
            self._emit(data[:keep])

    def _emit(self, data: bytes) -> None:
        if data:
            self._on_data(data)


class _BoundedOutput:
    """Passes on at most `most` bytes."""

    def __init__(self, most: int | None, on_data: Sink) -> None:
        self._most, self._size, self._on_data = most, 0, on_data
        self.excess = asyncio.Event()

    def add(self, data: bytes) -> None:
        self._size += len(data)
        if self._most is not None and self._size > self._most:
            self.excess.set()
        else:
            self._on_data(data)


async def call_script(
    host: Host,
    name: str,
    *arguments: str,
    data: bytes | AsyncIterable[bytes] | None = None,
    most: int | None = None,
    on_output: Sink | None = None,
) -> HostScriptResult:
    """Run the script `name` with `arguments`, and with `data` as its standard input, if any.

    The output is enclosed by two random marks. What a login file prints before the first mark is
    dropped, and output without the second was cut off.

    With `on_output` the output is delivered as it arrives. Raises `OutputTooLong` for more than
    `most` bytes of output and `BackendUnavailable` if the connection was lost.
    """
    mark = new_mark()
    chunks: list[bytes] = []
    bounded = _BoundedOutput(most, on_output or chunks.append)
    ended = asyncio.Event()
    marked = MarkedStream(mark, bounded.add)

    def on_data(piece: bytes) -> None:
        marked.feed(piece)
        if marked.after.endswith(b"\0"):
            ended.set()

    errors, all_errors = bytearray(), bytearray()
    error_stream = MarkedStream(
        mark, lambda piece: errors.extend(piece[: MAX_ERROR_BYTES - len(errors)])
    )

    def on_error(piece: bytes) -> None:
        error_stream.feed(piece)
        all_errors[:] = (all_errors + piece)[-MAX_ERROR_BYTES:]

    watch = load_script("watch_input") if data is None else ""
    text = load_script("frame").replace("WATCH", watch).replace("SCRIPT", load_script(name))
    await host.open()
    running = await host.start(
        ["sh", "-c", text, "hermes", mark.decode(), *arguments],
        on_output=on_data,
        on_error=on_error,
    )
    try:
        await _exchange(running, data, ended, bounded.excess)
        if bounded.excess.is_set():
            raise OutputTooLong
        if ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EXIT_TIMEOUT):
                    await running.wait()
    finally:
        await running.stop()
    if not ended.is_set():
        raise connection_lost(host, all_errors.replace(mark, b""))
    return HostScriptResult(int(marked.after[:-1]), b"".join(chunks), bytes(errors))


async def _exchange(
    running: Running,
    data: bytes | AsyncIterable[bytes] | None,
    ended: asyncio.Event,
    excess: asyncio.Event,
) -> None:
    """Send `data` and wait until the result is complete or too long, or the program has ended."""
    sending = asyncio.ensure_future(send_input(running, data)) if data is not None else None
    try:
        await wait_first(running.wait(), ended.wait(), excess.wait())
        if sending is not None and sending.done():
            await sending  # raises what failed while the data was produced
    finally:
        if sending is not None:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def wait_first(*work: Coroutine[Any, Any, Any], timeout: float | None = None) -> None:
    """Wait until one of them is done, at most `timeout` seconds, and cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def send_input(running: Running, data: bytes | AsyncIterable[bytes]) -> None:
    """Send all of `data` and close the input. A program that stops reading reports why itself."""
    with contextlib.suppress(ToolError):
        try:
            async for chunk in _chunks(data) if isinstance(data, bytes) else data:
                await running.write(chunk)
        finally:
            await running.close_input()


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    view = memoryview(data)
    for start in range(0, len(data), CHUNK_BYTES):
        yield bytes(view[start : start + CHUNK_BYTES])


def connection_lost(host: Host, errors: bytes | bytearray) -> BackendUnavailable:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    reason = f": {lines[-1]}" if lines else ""
    return BackendUnavailable(
        f"the connection to the {host.name} backend was lost{reason}",
        hint="try again; the connection is made anew",
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
            self._host, "upload", f"{self.folder}/{name}", str(len(data)), data=data, most=0
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
        [
            "sh",
            "-c",
            load_script("host_supervisor"),
            "hermes-keeper",
            mark.decode(),
            cwd,
            old_folder,
        ],
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
        leash = shlex.quote(f"{self._supervisor.folder}/leash")
        begin = load_script("begin").format(tag=self.tag, leash=leash)
        folder, command = self._supervisor.folder, f"{self._supervisor.folder}/{self.tag}"
        if script == "run":
            begin = f"exec </dev/null 2>&1\n{begin}"
            inner = foreground_script(begin, f"{folder}/exports", command)
        else:
            inner = background_script(
                f"exec 2>&1\n{begin}", f"{command}.state", command, terminal=pty
            )
        session = (self._mark.decode(), self._supervisor.folder, self.tag)
        self.client = await host.start(
            [
                "sh",
                "-c",
                load_script(script),
                "hermes",
                *session,
                *folders,
                str(len(source)),
                inner,
            ],
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

    def _saved_exports(self) -> bytes:
        return self._exports

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
        await process.launch(self._host, "run", self._folders(cwd), source, pty=False)
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
        if self._exports:  # a copy of its own: the next command may end before this one begins
            await session.upload(f"{process.tag}.state", self._exports)
        script = "start_terminal" if pty else "start"
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
