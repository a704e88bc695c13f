"""Background commands of a session, over any `Shell`."""

import asyncio
import codecs
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from hermes.core.errors import ToolError
from hermes.terminal.base import Running, Shell
from hermes.terminal.output import HeadAndTail, OutputLimits, cut_line, plain_text

# Watching output for matching lines, with a rate limit.

MAX_LINE_BYTES = 8_192  #: Bytes of a line that are searched.
MAX_SHOWN = 500  #: Characters of a matching line in an event.


class WatchLimits(msgspec.Struct, frozen=True):
    seconds: float = 10
    """At most one match per process is reported in this time; the others are counted."""
    flood: int = 20  #: Number of suppressed matches in that time that counts as a flood.
    floods: int = 3  #: The watch is switched off after this many floods in a row.


class OutputWatch:
    """Reports each line that contains one of `patterns`, once and at a limited rate."""

    def __init__(
        self,
        patterns: Sequence[str],
        limits: WatchLimits,
        matched: Callable[[str], None],
        muted: Callable[[str], None],
    ) -> None:
        self.patterns = tuple(pattern for pattern in patterns if pattern)
        self._limits, self._matched, self._muted = limits, matched, muted
        self._line = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._held_back = 0
        self._latest = ""
        self._floods = 0

    def add(self, data: bytes) -> None:
        if not self.patterns:
            return
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._collect(line)
            self._check_line()
        self._collect(rest)

    def end(self) -> None:
        """Handle the end of the output: check the last line and report suppressed matches."""
        self._check_line()
        if self._held_back:
            self._emit()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _collect(self, data: bytes) -> None:
        self._line += data[: MAX_LINE_BYTES - len(self._line)]

    def _check_line(self) -> None:
        line = plain_text(self._line.decode("utf-8", "replace"))
        self._line.clear()
        if not any(pattern in line for pattern in self.patterns):
            return
        self._latest = cut_line(line, MAX_SHOWN)
        self._held_back += 1
        if self._timer is None:
            self._emit()

    def _emit(self) -> None:
        """Report the latest line, with the number of suppressed ones before it."""
        before = self._held_back - 1
        self._held_back = 0
        note = f"\n[{before} more matching lines before this one]" if before else ""
        self._timer = asyncio.get_running_loop().call_later(self._limits.seconds, self._on_interval)
        self._matched(self._latest + note)

    def _on_interval(self) -> None:
        self._timer = None
        self._floods = self._floods + 1 if self._held_back >= self._limits.flood else 0
        if self._floods >= self._limits.floods:
            self.patterns, self._held_back = (), 0
            self._muted(f"too many lines match, the watch is off; the latest: {self._latest}")
        elif self._held_back:
            self._emit()


# One background command.

OUTPUT_LIMITS = OutputLimits(max_bytes=200_000)  #: How much output of each process is kept.
LAST_LINES = 20  #: Lines of output included in the event about its end.
STOP_TIMEOUT = 1.0  #: Seconds to wait for the exit code of a stopped program.


ProcessStatus = Literal["running", "exited", "killed", "lost"]
"""lost: the backend it ran in is gone."""


class ProcessState(msgspec.Struct, frozen=True):
    id: str
    command: str
    cwd: str
    state: ProcessStatus
    exit_code: int | None
    pid: int | None
    seconds: float  #: Run time so far, or total.
    output_bytes: int
    pty: bool
    notify: bool
    watch_patterns: tuple[str, ...]


class BackgroundProcess:
    """A command from its start on; kept after its end for later queries."""

    def __init__(self, command: str, cwd: str, *, pty: bool, notify: bool) -> None:
        self.id = f"proc_{secrets.token_hex(6)}"
        self.command, self.cwd, self.pty, self.notify = command, cwd, pty, notify
        self.output = HeadAndTail(OUTPUT_LIMITS)
        self.exit_code: int | None = None
        self.ended_at: float | None = None
        self._began_at = time.monotonic()
        self._on_ended = asyncio.Event()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._read_position = 0
        self._waiting = 0
        self._was_killed = self._was_lost = False

    def follow(
        self, program: Running, watch: OutputWatch, ended: Callable[["BackgroundProcess"], None]
    ) -> None:
        self.program, self.watch = program, watch
        self._following = asyncio.ensure_future(self._follow(ended))

    @property
    def running(self) -> bool:
        return self.ended_at is None

    @property
    def end_expected(self) -> bool:
        """Whether it was killed from here, or a caller is waiting for its end."""
        return self._was_killed or self._waiting > 0

    def state(self) -> ProcessState:
        return ProcessState(
            id=self.id,
            command=self.command,
            cwd=self.cwd,
            state=self._status(),
            exit_code=self.exit_code,
            pid=self.program.pid,
            seconds=(self.ended_at or time.monotonic()) - self._began_at,
            output_bytes=self.output.total,
            pty=self.pty,
            notify=self.notify,
            watch_patterns=self.watch.patterns,
        )

    def _status(self) -> ProcessStatus:
        if self.running:
            return "running"
        return "killed" if self._was_killed else "lost" if self._was_lost else "exited"

    def news(self) -> str:
        """Return what was printed since the last call."""
        data, _ = self.output.since(self._read_position)
        self._read_position = self.output.total
        return self._decoder.decode(data, final=not self.running)

    def last_lines(self) -> str:
        return plain_text("\n".join(text for _, text in self.output.numbered_lines()[-LAST_LINES:]))

    async def wait(self, timeout: float) -> None:
        """Wait until it has ended or `timeout` seconds have passed."""
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout):
                await self._on_ended.wait()
        except TimeoutError:
            return
        finally:
            self._waiting -= 1

    async def kill(self) -> None:
        self._was_killed = self._was_killed or self.running
        await self.program.stop()
        await asyncio.wait((self._following,), timeout=STOP_TIMEOUT)

    async def _follow(self, ended: Callable[["BackgroundProcess"], None]) -> None:
        try:
            self.exit_code = await self.program.wait()
        except ToolError as error:
            self._was_lost = True
            self.output.add(f"\n[{error}]\n".encode())
        self.ended_at = time.monotonic()
        self.watch.end()
        ended(self)
        self._on_ended.set()


MAX_RUNNING = 32
MAX_FINISHED = 64  #: Number of finished processes that are remembered.
OUTPUT_INTERVAL = 1.0  #: Seconds between two updates while a caller waits for a process.

ProcessEventKind = Literal["finished", "matched", "muted"]


class ProcessEvent(msgspec.Struct, frozen=True):
    id: str
    command: str
    kind: ProcessEventKind  #: muted: too many lines matched and the watch was switched off.
    text: str  #: The end of the output, the matching line, or the reason for muting.
    exit_code: int | None = None


class ProcessOutput(msgspec.Struct, frozen=True):
    """Output since the last call."""

    process: ProcessState
    text: str  #: Contains a note where output was omitted.


class ProcessLogPage(msgspec.Struct, frozen=True):
    """Lines of the output so far."""

    process: ProcessState
    lines: tuple[tuple[int, str], ...]
    """Each with its number, from 1; a gap in the numbers was not kept."""
    total: int


class BackgroundProcesses:
    """The background commands of a session. Create, use and close it in the event loop's thread.

    `on_event` is called for lines that match `watch_patterns` and for the end of a process started
    with `notify`, unless it was killed from here or a caller was waiting for it. Writing to a
    process times out after `write_seconds`.
    """

    def __init__(
        self,
        shell: Shell,
        on_event: Callable[[ProcessEvent], None] = lambda _event: None,
        *,
        watch_limits: WatchLimits | None = None,
        write_seconds: float = 10,
    ) -> None:
        self._shell, self._on_event = shell, on_event
        self._write_seconds = write_seconds
        self._watch_limits = watch_limits or WatchLimits()
        self._processes: dict[str, BackgroundProcess] = {}
        self._starting = 0
        self._closed = False

    async def start(
        self,
        command: str,
        *,
        cwd: str | None = None,
        pty: bool = False,
        notify: bool = False,
        watch_patterns: Sequence[str] = (),
    ) -> str:
        """Start a process and return its id: `proc_` and 12 hexadecimal digits."""
        running = sum(process.running for process in self._processes.values())
        if running + self._starting >= MAX_RUNNING:
            raise ToolError(
                f"{MAX_RUNNING} background processes run already",
                hint="end one that is not needed: process(action='kill', session_id=…)",
            )
        process = BackgroundProcess(command, cwd or self._shell.cwd, pty=pty, notify=notify)
        watch = OutputWatch(
            watch_patterns,
            self._watch_limits,
            lambda line: self._emit(process, "matched", line),
            lambda reason: self._emit(process, "muted", reason),
        )

        def keep(data: bytes) -> None:
            process.output.add(data)
            watch.add(data)

        self._starting += 1
        try:
            program = await self._shell.start(command, cwd=cwd, on_output=keep, pty=pty)
        finally:
            self._starting -= 1
        if self._closed:
            await program.stop()
            raise ToolError("the session is closing: nothing more is started")
        self._processes[process.id] = process
        process.follow(program, watch, self._on_ended)
        return process.id

    def list(self) -> list[ProcessState]:
        """Return running processes first, then the most recent."""
        states = [process.state() for process in reversed(self._processes.values())]
        return sorted(states, key=lambda state: state.state != "running")

    def state(self, process_id: str) -> ProcessState:
        return self._find(process_id).state()

    def poll(self, process_id: str) -> ProcessOutput:
        """Return the output since the last call."""
        process = self._find(process_id)
        return ProcessOutput(process.state(), process.news())

    def log(self, process_id: str, *, offset: int = 0, limit: int = 200) -> ProcessLogPage:
        """Return `limit` lines from line `offset` on; without `offset` the last ones."""
        process = self._find(process_id)
        lines = process.output.numbered_lines()
        total = lines[-1][0] if lines else 0
        if offset > 0:
            chosen = [line for line in lines if line[0] >= offset][:limit]
        else:
            chosen = lines[-limit:]
        return ProcessLogPage(process.state(), tuple(chosen), total)

    async def wait(
        self, process_id: str, timeout: float, on_output: Callable[[str], None] = lambda _text: None
    ) -> ProcessOutput:
        """Like `poll`, after the process has ended or `timeout` seconds have passed.

        `on_output` receives its output in the meantime.
        """
        process = self._find(process_id)
        until = time.monotonic() + timeout
        seen = process.output.total
        while process.running and (left := until - time.monotonic()) > 0:
            await process.wait(min(left, OUTPUT_INTERVAL))
            data, _ = process.output.since(seen)
            seen = process.output.total
            if data:
                on_output(data.decode("utf-8", "replace"))
        return ProcessOutput(process.state(), process.news())

    async def write(self, process_id: str, data: str) -> None:
        program = self._program(process_id)
        try:
            async with asyncio.timeout(self._write_seconds):
                await program.write(data.encode("utf-8", "replace"))
        except TimeoutError as error:
            raise ToolError(
                f"{process_id} does not read its input",
                hint="poll shows what it is doing; only a part of the data was taken",
            ) from error

    async def submit(self, process_id: str, data: str) -> None:
        """Write `data` and the Enter key."""
        enter = "\r" if self._find(process_id).pty else "\n"
        await self.write(process_id, data + enter)

    async def close_input(self, process_id: str) -> None:
        await self._program(process_id).close_input()

    async def kill(self, process_id: str) -> ProcessState:
        """Stop the process and everything it started."""
        process = self._find(process_id)
        await process.kill()
        return process.state()

    async def close(self) -> None:
        """Stop all processes without reporting events."""
        self._closed = True
        await asyncio.gather(*(process.kill() for process in self._processes.values()))

    def _find(self, process_id: str) -> BackgroundProcess:
        process = self._processes.get(process_id)
        if process is None:
            raise ToolError(
                f"there is no background process {process_id!r}",
                hint="process(action='list') shows those there are",
            )
        return process

    def _program(self, process_id: str) -> Running:
        process = self._find(process_id)
        if not process.running:
            raise ToolError(f"{process_id} has ended and takes no input")
        return process.program

    def _on_ended(self, process: BackgroundProcess) -> None:
        if process.notify and not process.end_expected:
            self._emit(process, "finished", process.last_lines())
        ended = [(each.ended_at, each.id) for each in self._processes.values() if each.ended_at]
        for _, process_id in sorted(ended)[:-MAX_FINISHED]:
            del self._processes[process_id]

    def _emit(self, process: BackgroundProcess, kind: ProcessEventKind, text: str) -> None:
        self._on_event(ProcessEvent(process.id, process.command, kind, text, process.exit_code))
