"""One background command: what it printed, how it stands, and its end."""

import asyncio
import codecs
import secrets
import time
from collections.abc import Callable
from typing import Literal

import msgspec

from hermes.core.errors import ToolError
from hermes.terminal.background.watch import Watch
from hermes.terminal.base import Running
from hermes.terminal.output import HeadAndTail, OutputLimits, plain

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
