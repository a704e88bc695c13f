"""Child processes of this machine: spawned without fork, watched by the event loop.

The lifeline learns of a process group before the program can start anything, so the group ends if
this process is killed: descriptor 3 of a started program is the lifeline's pipe, and its first
action is to write its own number there and close it.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import termios
import threading
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import ToolError
from hermes.terminal.base import Argv, Running, Sink
from hermes.terminal.boundary import Boundary
from hermes.terminal.local.lifeline import Lifeline, stop_family

EXIT_CODE_UNKNOWN = 255  #: Exit code if another part of the process has already collected it.

# A shell complains when it starts in a deleted folder, and the current one may be deleted. That
# complaint is discarded; descriptor 4 is the standard error of the program itself.
START_IN_ROOT = ("/bin/sh", "-c", 'cd / && exec "$@" 2>&4 4>&-', "hermes")


def start_child(
    argv: Argv,
    environment: Mapping[str, str],
    descriptors: Mapping[int, int],
    terminal: str = "",
    boundary: Boundary | None = None,
) -> int:
    """Start a program in its own session and return its process id.

    `descriptors` maps the child's descriptors to ours; the child gets no others, and ours must have
    higher numbers than all of the child's. `terminal` is the path of a pseudo-terminal that becomes
    its standard streams and its controlling terminal. `boundary` keeps it from Hermes' own files.
    """
    files: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_CLOSE, inherited) for inherited in _inheritable_descriptors()
    ]
    if terminal:
        # A session leader without a terminal gets the first one it opens.
        files.append((os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0))
        files += [(os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
    files += [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in descriptors.items()]
    command = [*argv]
    if not _cwd_exists():
        command = [*START_IN_ROOT, *argv]
        files += [(os.POSIX_SPAWN_DUP2, 2, 4), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]

    def spawn_process(command: list[str]) -> int:
        return os.posix_spawn(
            command[0],
            command,
            environment,
            file_actions=files,
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores these two
        )

    try:
        return boundary.start(command, spawn_process) if boundary else spawn_process(command)
    except OSError as error:
        raise ToolError(f"{argv[0]} cannot be started: {error.strerror}") from error
    except ValueError as error:  # a null byte, or a `=` in the name of a variable
        raise ToolError(f"{argv[0]} cannot be started: {error}") from error


def _inheritable_descriptors() -> list[int]:
    """Return descriptors that our parent left inheritable; those that Python opens are not."""
    found = []
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - before every command; a Path each is slow
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found


def _cwd_exists() -> bool:
    return _working_folder() != "."


def _working_folder() -> str:
    """Return the current folder; "." if it was deleted."""
    try:
        return os.getcwd()  # noqa: PTH109 - before every command; a Path is slow
    except FileNotFoundError:
        return "."


def watch_child(pid: int, ended: Callable[[int], None]) -> None:
    """Call `ended` in the event loop with the exit code; 128 + n when signal n ended it."""
    loop = asyncio.get_running_loop()
    try:
        watched = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or an old kernel
        threading.Thread(target=_wait_in_thread, args=(pid, ended, loop), daemon=True).start()
        return

    def reap() -> None:
        loop.remove_reader(watched)
        os.close(watched)
        ended(wait_for_exit(pid))

    loop.add_reader(watched, reap)


def _wait_in_thread(
    pid: int, ended: Callable[[int], None], loop: asyncio.AbstractEventLoop
) -> None:
    code = wait_for_exit(pid)
    with contextlib.suppress(RuntimeError):  # the loop is closed, so the result is not needed
        loop.call_soon_threadsafe(ended, code)


def wait_for_exit(pid: int) -> int:
    """Block until the process has ended; return its exit code."""
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return EXIT_CODE_UNKNOWN
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


# Non-blocking ends of pipes and terminals.

CHUNK = 65_536
MAX_FINAL_READS = 16
"""Chunks read after a program ended: what a full pipe can hold, even if others still write."""


class PipeReader:
    """Delivers data as it arrives. Create, use and close it in the event loop's thread."""

    def __init__(self, descriptor: int, on_data: Sink, on_end: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor, self._on_data, self._on_end = descriptor, on_data, on_end
        self._discarding = False
        self.ended = False
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def drain(self) -> None:
        """Read what is available now."""
        for _ in range(MAX_FINAL_READS):
            if self.ended or not self._read():
                break

    def discard(self) -> None:
        """Keep reading but discard the data, so that remaining writers do not get a broken pipe."""
        self._discarding = True

    def close(self) -> None:
        if not self.ended:
            self.ended = True
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)

    def _read(self) -> bool:
        """Read one chunk; False if there is none now."""
        try:
            data = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # a terminal that no program has open any more
            data = b""
        if not data:
            self.close()
            self._on_end()
        elif not self._discarding:
            self._on_data(data)
        return bool(data)


class PipeWriter:
    """Writes in the order of the calls; `close` ends the program's input."""

    def __init__(self, descriptor: int, *, terminal: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor, self._terminal = descriptor, terminal
        self._lock = asyncio.Lock()
        self._writable = asyncio.Event()
        self._closed = False
        os.set_blocking(descriptor, False)

    async def write(self, data: bytes) -> None:
        async with self._lock:
            while data:
                if self._closed:
                    raise ToolError("the program takes no more input")
                try:
                    data = data[os.write(self._descriptor, data) :]
                except BlockingIOError:
                    await self._wait_writable()
                except OSError as error:
                    self.close()
                    raise ToolError("the program takes no more input") from error

    async def end(self) -> None:
        """Signal the end of input: Ctrl-D in a terminal, which stays open; otherwise close."""
        if self._terminal and not self._closed:
            await self.write(b"\x04")
        else:
            self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._writable.set()

    async def _wait_writable(self) -> None:
        self._writable.clear()
        self._loop.add_writer(self._descriptor, self._writable.set)
        try:
            await self._writable.wait()
        finally:
            if not self._closed:
                self._loop.remove_writer(self._descriptor)


# Starting programs.

COLUMNS, LINES = 120, 40  #: Size of a terminal.
OUTPUT_GRACE = 0.05
"""Seconds to keep reading when the program has ended but another still holds its output."""
KILL_TIMEOUT = 0.3
"""Seconds a killed program may take to end; one that runs as another user may not end."""
KILLED = 137
LOWEST_DESCRIPTOR = 10  #: Our descriptors are numbered above those of the child.

ANNOUNCE = r"""printf '+ %s\n' "$$" >&3 && exec 3>&-"""
EXECUTE = ANNOUNCE + r""" && cd -- "$1" && shift && exec "$@" """


async def spawn(
    argv: Argv,
    *,
    environment: Mapping[str, str],
    cwd: str | None = None,
    on_output: Sink,
    on_error: Sink | None = None,
    pty: bool = False,
    lifeline: Lifeline,
) -> Running:
    """Start a program in its own session, with its standard input open.

    Its environment is exactly `environment`. Without `on_error`, standard error joins the output; a
    terminal (`pty`) has one stream only. The callbacks run in the event loop. A program that does
    not exist ends with 127 and a message, as in a shell.
    """
    if cwd is not None and not Path(cwd).is_dir():
        raise ToolError(f"the working folder {cwd} does not exist")
    return launch(
        ["/bin/sh", "-c", EXECUTE, "hermes", cwd or _working_folder(), *argv],
        environment,
        lifeline,
        on_output=on_output,
        on_error=on_error,
        pty=pty,
    )


def launch(
    argv: Argv,
    environment: Mapping[str, str],
    lifeline: Lifeline,
    *,
    on_output: Sink,
    on_error: Sink | None = None,
    pty: bool = False,
    takes_input: bool = True,
) -> "LocalProcess":
    """Start a program that registers itself with the lifeline, as `ANNOUNCE` does."""
    opened = _Descriptors()
    try:
        streams = (
            _open_terminal(opened, on_output)
            if pty
            else _open_pipes(opened, on_output, on_error, takes_input=takes_input)
        )
        streams.child[3] = opened.duplicate(lifeline.descriptor)
        pid = start_child(argv, environment, streams.child, streams.terminal, lifeline.boundary)
    except OSError as error:
        opened.close()
        raise ToolError(f"no pipe or terminal can be had: {error.strerror}") from error
    except ToolError:
        opened.close()
        raise
    opened.close(keep={streams.writing, *streams.reading})
    return LocalProcess(pid, lifeline, streams)


class _Streams(msgspec.Struct):
    """Descriptors of a program that is about to start."""

    child: dict[int, int] = {}  #: Maps the child's descriptors to ours.
    reading: dict[int, Sink] = {}
    writing: int = -1
    terminal: str = ""  #: Path of its pseudo-terminal.


class _Descriptors:
    """Open descriptors, all numbered above those of a child."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def duplicate(self, descriptor: int) -> int:
        """Duplicate a descriptor above those of the child, so that none is overwritten."""
        copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR)
        self._descriptors.append(copy)
        return copy

    def add(self, *descriptors: int) -> list[int]:
        if min(descriptors) >= LOWEST_DESCRIPTOR:
            self._descriptors += descriptors
            return [*descriptors]
        try:
            return [self.duplicate(descriptor) for descriptor in descriptors]
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def close(self, keep: Container[int] = ()) -> None:
        for descriptor in self._descriptors:
            if descriptor not in keep:
                os.close(descriptor)


def _open_pipes(
    opened: _Descriptors, on_output: Sink, on_error: Sink | None, *, takes_input: bool
) -> _Streams:
    streams = _Streams()
    if takes_input:
        streams.child[0], streams.writing = opened.add(*os.pipe())
    else:
        (streams.child[0],) = opened.add(os.open(os.devnull, os.O_RDONLY))
    output, streams.child[1] = opened.add(*os.pipe())
    streams.reading[output] = on_output
    if on_error is None:
        streams.child[2] = streams.child[1]
    else:
        errors, streams.child[2] = opened.add(*os.pipe())
        streams.reading[errors] = on_error
    return streams


def _open_terminal(opened: _Descriptors, on_output: Sink) -> _Streams:
    ours, theirs = opened.add(*os.openpty())
    termios.tcsetwinsize(theirs, (LINES, COLUMNS))
    writing = opened.duplicate(ours)
    return _Streams(reading={ours: on_output}, writing=writing, terminal=os.ttyname(theirs))


class PipeProcess:
    """The part of `Running` that reads and writes the ends of pipes or of a terminal.

    A subclass calls `on_exit` when the program has ended, and implements `stop`.
    """

    def __init__(self, reading: Mapping[int, Sink], writing: int, *, terminal: bool) -> None:
        self.exit_code: int | None = None
        self._terminal = terminal
        self._done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._writer = PipeWriter(writing, terminal=terminal) if writing >= 0 else None
        self._readers = [
            PipeReader(descriptor, handler, self._check_done)
            for descriptor, handler in reading.items()
        ]

    async def wait(self) -> int:
        return await asyncio.shield(self._done)

    async def write(self, data: bytes) -> None:
        if self._writer is None or self.exit_code is not None:
            raise ToolError("the program takes no input")
        await self._writer.write(data)

    async def close_input(self) -> None:
        if self._writer is not None:
            await self._writer.end()

    async def release(self) -> None:
        """After a kill: wait briefly for the exit code and free all resources."""
        await asyncio.wait((self._done,), timeout=KILL_TIMEOUT)
        if self.exit_code is None:
            self.exit_code = KILLED
        self._finish()
        if self._writer is not None:
            self._writer.close()
        for reading in self._readers:
            reading.close()

    def on_exit(self, code: int) -> None:
        """Record the exit code; other processes may still hold the output."""
        if self.exit_code is not None:
            return
        self.exit_code = code
        if self._writer is not None:
            self._writer.close()
        for reading in self._readers:
            reading.drain()
        self._check_done()
        if not self._done.done():
            asyncio.get_running_loop().call_later(OUTPUT_GRACE, self._finish)

    def _check_done(self) -> None:
        """Finish when the program and all its streams have ended."""
        if self.exit_code is not None and all(reading.ended for reading in self._readers):
            self._finish()

    def _finish(self) -> None:
        """All output was delivered; discard what other processes still write."""
        for reading in self._readers:
            reading.discard()
        if not self._done.done() and self.exit_code is not None:
            self._done.set_result(self.exit_code)

    def _polite_signals(self) -> tuple[signal.Signals, ...]:
        """An interactive shell ignores SIGTERM but not the loss of its terminal."""
        return (signal.SIGHUP, signal.SIGTERM) if self._terminal else (signal.SIGTERM,)


class LocalProcess(PipeProcess):
    """`Running` for a program on this machine."""

    def __init__(self, pid: int, lifeline: Lifeline, streams: _Streams) -> None:
        super().__init__(streams.reading, streams.writing, terminal=bool(streams.terminal))
        self.pid = pid
        self._lifeline = lifeline
        lifeline.register(self)
        watch_child(pid, self.on_exit)

    async def stop(self) -> None:
        try:
            if self.exit_code is None or self._lifeline.has_survivors(self.pid):
                await stop_family(self.pid, polite=self._polite_signals())
        finally:
            await self.release()

    async def release(self) -> None:
        await super().release()
        self._lifeline.unregister(self)

    def on_exit(self, code: int) -> None:
        self._lifeline.on_leader_exit(self.pid)
        super().on_exit(code)

    def _check_done(self) -> None:
        super()._check_done()
        if self.exit_code is not None and all(reading.ended for reading in self._readers):
            self._lifeline.unregister(self)
