"""Commands in the background, of any shell."""

import asyncio
import codecs
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from hermes.core.errors import ToolError
from hermes.terminal.base import Running, Shell
from hermes.terminal.output import HeadAndTail, OutputLimits, cut_line, plain

# Watching the output of a background command for lines, without flooding whoever is told.

LONGEST_LINE = 8_192
"""Bytes of a line that are looked at."""
SHOWN = 500
"""Characters of a matching line that are told."""


class WatchLimits(msgspec.Struct, frozen=True):
    seconds: float = 10
    """At most one match of a process is told in this time; the others are counted."""
    flood: int = 20
    """Matches held back in that time that make it a flood."""
    floods: int = 3
    """After so many in a row the watch is switched off."""


class Watch:
    """Tells of each line that contains one of `patterns`, once, and not too often."""

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
            self._look()
        self._collect(rest)

    def end(self) -> None:
        """No more comes: the last line counts, and what was held back is told."""
        self._look()
        if self._held_back:
            self._tell()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _collect(self, data: bytes) -> None:
        self._line += data[: LONGEST_LINE - len(self._line)]

    def _look(self) -> None:
        line = plain(self._line.decode("utf-8", "replace"))
        self._line.clear()
        if not any(pattern in line for pattern in self.patterns):
            return
        self._latest = cut_line(line, SHOWN)
        self._held_back += 1
        if self._timer is None:
            self._tell()

    def _tell(self) -> None:
        """The latest line, with the number of those that were held back before it."""
        before = self._held_back - 1
        self._held_back = 0
        note = f"\n[{before} more matching lines before this one]" if before else ""
        self._timer = asyncio.get_running_loop().call_later(self._limits.seconds, self._time_is_up)
        self._matched(self._latest + note)

    def _time_is_up(self) -> None:
        self._timer = None
        self._floods = self._floods + 1 if self._held_back >= self._limits.flood else 0
        if self._floods >= self._limits.floods:
            self.patterns, self._held_back = (), 0
            self._muted(f"too many lines match, the watch is off; the latest: {self._latest}")
        elif self._held_back:
            self._tell()


# One background command: what it printed, how it stands, and its end.

KEPT = OutputLimits(max_bytes=200_000)
"""Output of each that is kept."""
LAST_LINES = 20
"""Lines of the output that the news of its end brings along."""
STOPPED_WITHIN = 1.0
"""Seconds for the end of a stopped program to be reported."""


Standing = Literal["running", "exited", "killed", "lost"]
"""lost: the place it ran in went away."""


class ProcessState(msgspec.Struct, frozen=True):
    id: str
    command: str
    cwd: str
    state: Standing
    exit_code: int | None
    pid: int | None
    seconds: float
    """How long it has run, or ran."""
    output_bytes: int
    pty: bool
    notify: bool
    watch_patterns: tuple[str, ...]


class Background:
    """A command from its start on; kept after its end for whoever asks."""

    def __init__(self, command: str, cwd: str, *, pty: bool, notify: bool) -> None:
        self.id = f"proc_{secrets.token_hex(6)}"
        self.command, self.cwd, self.pty, self.notify = command, cwd, pty, notify
        self.output = HeadAndTail(KEPT)
        self.exit_code: int | None = None
        self.ended_at: float | None = None
        self._began_at = time.monotonic()
        self._ended = asyncio.Event()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._told = 0
        self._waiting = 0
        self._killed = self._lost = False

    def follow(self, program: Running, watch: Watch, ended: Callable[["Background"], None]) -> None:
        self.program, self.watch = program, watch
        self._following = asyncio.ensure_future(self._follow(ended))

    @property
    def running(self) -> bool:
        return self.ended_at is None

    @property
    def expected(self) -> bool:
        """Whether somebody here made it end or waits for its end."""
        return self._killed or self._waiting > 0

    def state(self) -> ProcessState:
        return ProcessState(
            id=self.id,
            command=self.command,
            cwd=self.cwd,
            state=self._standing(),
            exit_code=self.exit_code,
            pid=self.program.pid,
            seconds=(self.ended_at or time.monotonic()) - self._began_at,
            output_bytes=self.output.total,
            pty=self.pty,
            notify=self.notify,
            watch_patterns=self.watch.patterns,
        )

    def _standing(self) -> Standing:
        if self.running:
            return "running"
        return "killed" if self._killed else "lost" if self._lost else "exited"

    def news(self) -> str:
        """What was printed since this was asked last."""
        data, _ = self.output.since(self._told)
        self._told = self.output.total
        return self._decoder.decode(data, final=not self.running)

    def last_lines(self) -> str:
        return plain("\n".join(text for _, text in self.output.numbered()[-LAST_LINES:]))

    async def wait(self, timeout: float) -> None:
        """Until it has ended, or `timeout` seconds have passed."""
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout):
                await self._ended.wait()
        except TimeoutError:
            return
        finally:
            self._waiting -= 1

    async def kill(self) -> None:
        self._killed = self._killed or self.running
        await self.program.stop()
        await asyncio.wait((self._following,), timeout=STOPPED_WITHIN)

    async def _follow(self, ended: Callable[["Background"], None]) -> None:
        try:
            self.exit_code = await self.program.wait()
        except ToolError as error:
            self._lost = True
            self.output.add(f"\n[{error}]\n".encode())
        self.ended_at = time.monotonic()
        self.watch.end()
        ended(self)
        self._ended.set()


# Commands in the background: started now, looked after later. Works over any `Shell`.

MOST_RUNNING = 32
MOST_FINISHED = 64
"""Finished ones that are remembered, the latest."""
SHOW_EVERY = 1.0
"""Seconds between two looks at what a process prints while somebody waits for it."""

EventKind = Literal["finished", "matched", "muted"]


class ProcessEvent(msgspec.Struct, frozen=True):
    id: str
    command: str
    kind: EventKind
    """muted: so many lines matched that the watch was switched off."""
    text: str
    """The end of the output, the matching line, or why it is muted."""
    exit_code: int | None = None


class Output(msgspec.Struct, frozen=True):
    """What came since the last look."""

    process: ProcessState
    text: str
    """With a note where some of it was left out."""


class Page(msgspec.Struct, frozen=True):
    """Lines of the output so far."""

    process: ProcessState
    lines: tuple[tuple[int, str], ...]
    """Each with its number, the first of all being 1; a gap in the numbers was not kept."""
    total: int


class Processes:
    """The background commands of a session. Made, used and closed in the event loop's thread.

    `on_event` hears of the end of a process started with `notify`, unless it was killed from here
    or somebody was waiting for it, and of lines that match `watch_patterns`. A process has
    `write_seconds` to take what is written to it.
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
        self._processes: dict[str, Background] = {}
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
        """The id of the new process: `proc_` and 12 hexadecimal digits."""
        running = sum(process.running for process in self._processes.values())
        if running + self._starting >= MOST_RUNNING:
            raise ToolError(
                f"{MOST_RUNNING} background processes run already",
                hint="end one that is not needed: process(action='kill', session_id=…)",
            )
        process = Background(command, cwd or self._shell.cwd, pty=pty, notify=notify)
        watch = Watch(
            watch_patterns,
            self._watch_limits,
            lambda line: self._tell(process, "matched", line),
            lambda reason: self._tell(process, "muted", reason),
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
        process.follow(program, watch, self._ended)
        return process.id

    def list(self) -> list[ProcessState]:
        """Those that run first, then the latest."""
        states = [process.state() for process in reversed(self._processes.values())]
        return sorted(states, key=lambda state: state.state != "running")

    def state(self, process_id: str) -> ProcessState:
        return self._find(process_id).state()

    def poll(self, process_id: str) -> Output:
        """What came since the last time this was asked."""
        process = self._find(process_id)
        return Output(process.state(), process.news())

    def log(self, process_id: str, *, offset: int = 0, limit: int = 200) -> Page:
        """`limit` lines from line `offset` on; without `offset` the last ones."""
        process = self._find(process_id)
        lines = process.output.numbered()
        total = lines[-1][0] if lines else 0
        if offset > 0:
            chosen = [line for line in lines if line[0] >= offset][:limit]
        else:
            chosen = lines[-limit:]
        return Page(process.state(), tuple(chosen), total)

    async def wait(
        self, process_id: str, timeout: float, on_output: Callable[[str], None] = lambda _text: None
    ) -> Output:
        """Like `poll`, once it has ended or `timeout` seconds have passed.

        `on_output` gets what it prints meanwhile, now and then.
        """
        process = self._find(process_id)
        until = time.monotonic() + timeout
        seen = process.output.total
        while process.running and (left := until - time.monotonic()) > 0:
            await process.wait(min(left, SHOW_EVERY))
            data, _ = process.output.since(seen)
            seen = process.output.total
            if data:
                on_output(data.decode("utf-8", "replace"))
        return Output(process.state(), process.news())

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
        """`data` and the Enter key."""
        enter = "\r" if self._find(process_id).pty else "\n"
        await self.write(process_id, data + enter)

    async def close_input(self, process_id: str) -> None:
        await self._program(process_id).close_input()

    async def kill(self, process_id: str) -> ProcessState:
        """End it and everything it started."""
        process = self._find(process_id)
        await process.kill()
        return process.state()

    async def close(self) -> None:
        """End all of them; nobody is told."""
        self._closed = True
        await asyncio.gather(*(process.kill() for process in self._processes.values()))

    def _find(self, process_id: str) -> Background:
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

    def _ended(self, process: Background) -> None:
        if process.notify and not process.expected:
            self._tell(process, "finished", process.last_lines())
        ended = [(each.ended_at, each.id) for each in self._processes.values() if each.ended_at]
        for _, process_id in sorted(ended)[:-MOST_FINISHED]:
            del self._processes[process_id]

    def _tell(self, process: Background, kind: EventKind, text: str) -> None:
        self._on_event(ProcessEvent(process.id, process.command, kind, text, process.exit_code))
