"""The stdio transport: the server is a program, one message per line on its standard streams."""

import asyncio
import os
import shutil
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from hermes.core.errors import ToolError
from hermes.mcp.transport import (
    LOG_LINE_CHARS,
    ConnectionLostError,
    McpError,
    McpLimits,
    McpTransport,
    ServerLog,
    ServerUnavailable,
)
from hermes.terminal import Boundary, Lifeline, Running, process_family, spawn
from hermes.util.jsonrpc import decode
from hermes.util.text import human_size

if TYPE_CHECKING:
    from hermes.mcp.session import McpSession

STOP_SECONDS = 2.0  #: How long the program may take to exit after its standard input is closed.
STDERR_LINES = 5  #: Lines of the standard error that are quoted in error messages.
NO_GROUP = -1


def make_lifeline(boundary: Boundary | None) -> Lifeline:
    """Return the lifeline that stops the programs when this process dies for any reason."""
    return Lifeline(boundary)


class StdioTransport(McpTransport):
    """Runs the program in its own process session and ends all its processes on close."""

    kind = "stdio"

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        lifeline: Lifeline,
        limits: McpLimits,
    ) -> None:
        self._name, self._command = name, command
        self._environment, self._lifeline, self._limits = environment, lifeline, limits
        self._running: Running | None = None
        self._buffer, self._searched = bytearray(), 0
        self._stderr = _StderrReader(ServerLog(name, limits.log_lines))
        self._watching: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self, session: "McpSession") -> None:
        self._session = session
        program = shutil.which(self._command[0], path=self._environment.get("PATH"))
        if program is None:
            raise ServerUnavailable(
                f"{self._name}: there is no program {self._command[0]!r}",
                hint="install it, or correct `command` of the server",
            )
        try:
            self._running = await spawn(
                [program, *self._command[1:]],
                environment=self._environment,
                on_output=self._output,
                on_error=self._stderr.feed,
                lifeline=self._lifeline,
            )
        except ToolError as error:
            raise ServerUnavailable(f"{self._name} cannot be started: {error}") from error
        self._watching = asyncio.create_task(self._watch(self._running))

    async def send(self, data: bytes, request: int | None = None) -> None:  # noqa: ARG002 - one stream
        if self._running is None:
            raise ConnectionLostError(f"{self._name} is not running")
        try:
            await self._running.write(data + b"\n")
        except ToolError as error:
            raise ConnectionLostError(
                f"{self._name} takes no more input{self._stderr.last()}"
            ) from error

    async def close(self, *, graceful: bool) -> None:
        self._closed = True
        running, watching = self._running, self._watching
        if running is None or watching is None:
            return
        # Listed now: after the program has ended, its children can no longer be found.
        members = process_family(running.pid) if running.pid is not None else []
        try:
            await running.close_input()
            await asyncio.wait((watching,), timeout=STOP_SECONDS if graceful else 0)
        finally:
            await running.stop()
            for process in process_family(NO_GROUP, members):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGKILL)
            watching.cancel()

    async def _watch(self, running: Running) -> None:
        code = await running.wait()
        how = f"was killed by signal {code - 128}" if code > 128 else f"ended with exit code {code}"
        self._lose(ConnectionLostError(f"{self._name} {how}{self._stderr.last()}"))

    def _output(self, data: bytes) -> None:
        if self._closed:
            return
        self._buffer += data
        for line in self._lines():
            for message in decode(line):
                self._session.received(message, None)
        if len(self._buffer) > self._limits.message_bytes:
            size = human_size(self._limits.message_bytes)
            self._lose(
                ConnectionLostError(
                    f"{self._name} sent more than {size} in one message and was stopped"
                )
            )

    def _lines(self) -> list[bytes]:
        """Return complete lines and keep the rest; bytes are searched for line ends only once."""
        end = self._buffer.rfind(b"\n", self._searched)
        lines: list[bytes] = []
        if end >= 0:
            lines = bytes(self._buffer[:end]).split(b"\n")
            del self._buffer[: end + 1]
        self._searched = len(self._buffer)
        return lines

    def _lose(self, error: McpError) -> None:
        if not self._closed:
            self._closed = True
            self._buffer.clear()
            self._searched = 0
            self._session.lost(error)


class _StderrReader:
    """Logs the standard error and keeps its last lines for error messages."""

    def __init__(self, server_log: ServerLog) -> None:
        self._server_log = server_log
        self._words: deque[str] = deque(maxlen=STDERR_LINES)
        self._unfinished = ""

    def feed(self, data: bytes) -> None:
        text = self._unfinished + data.decode("utf-8", "replace")
        *lines, rest = text.split("\n")
        self._unfinished = rest[:LOG_LINE_CHARS]
        for line in lines:
            if line := line.strip()[:LOG_LINE_CHARS]:
                self._words.append(line)
                self._server_log.write(line)

    def last(self) -> str:
        """Return `: …` for the end of an error message, or ""."""
        words = " / ".join([*self._words, self._unfinished.strip()]).strip(" /")
        return f": {words[-LOG_LINE_CHARS:]}" if words else ""
