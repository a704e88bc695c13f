"""A child process: started without copying this one, its end seen by the event loop."""

import asyncio
import contextlib
import fcntl
import os
import signal
import termios
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import ToolError
from hermes.terminal.base import Running
from hermes.terminal.local.lifeline import Lifeline, stop_family

LOST = 255
"""The exit code when somebody else took it."""

# A shell complains when it begins in a folder that was deleted, and ours may have been. This one's
# complaint is not heard; 4 is the standard error of what it leads to.
SOMEWHERE = ("/bin/sh", "-c", 'cd / && exec "$@" 2>&4 4>&-', "hermes")


def start_child(
    argv: Sequence[str],
    environment: Mapping[str, str],
    descriptors: Mapping[int, int],
    terminal: str = "",
) -> int:
    """The process id of a program in a session of its own.

    `descriptors` says which of the child's are which of ours; it gets no others, and ours must lie
    above all of the child's. `terminal` is the path of a pseudo-terminal that becomes its standard
    streams and its controlling terminal.
    """
    files: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_CLOSE, inherited) for inherited in _inherited()]
    if terminal:
        # A session leader without a terminal gets the first one it opens.
        files.append((os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0))
        files += [(os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
    files += [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in descriptors.items()]
    command = [*argv]
    if not _folder_exists():
        command = [*SOMEWHERE, *argv]
        files += [(os.POSIX_SPAWN_DUP2, 2, 4), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
    try:
        return os.posix_spawn(
            command[0],
            command,
            environment,
            file_actions=files,
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores these two
        )
    except OSError as error:
        raise ToolError(f"{argv[0]} cannot be started: {error.strerror}") from error
    except ValueError as error:  # a null byte somewhere, or a `=` in the name of a variable
        raise ToolError(f"{argv[0]} cannot be started: {error}") from error


def _inherited() -> list[int]:
    """What whoever started us left open for our children; all that Python opens is not."""
    found = []
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - before every command; a Path each is slow
        with contextlib.suppress(OSError):  # the listing itself
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found


def _folder_exists() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def watch_child(pid: int, ended: Callable[[int], None]) -> None:
    """Call `ended` in the event loop with the exit code; 128 + n when signal n ended it."""
    loop = asyncio.get_running_loop()
    try:
        watched = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or an old one
        threading.Thread(target=_wait, args=(pid, ended, loop), daemon=True).start()
        return

    def reap() -> None:
        loop.remove_reader(watched)
        os.close(watched)
        ended(exit_code(pid))

    loop.add_reader(watched, reap)


def _wait(pid: int, ended: Callable[[int], None], loop: asyncio.AbstractEventLoop) -> None:
    code = exit_code(pid)
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know
        loop.call_soon_threadsafe(ended, code)


def exit_code(pid: int) -> int:
    """Waits until the process has ended."""
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return LOST
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


# Ends of pipes and terminals that the event loop reads from and writes to without ever waiting.

CHUNK = 65_536
LAST_READS = 16
"""Chunks read after a program ended: what a full pipe can hold, even if others still write."""


class Reading:
    """Hands over what comes; made, used and closed in the event loop's thread."""

    def __init__(
        self, descriptor: int, on_data: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor, self._on_data, self._on_end = descriptor, on_data, on_end
        self._discarding = False
        self.ended = False
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def drain(self) -> None:
        """Take what is there now."""
        for _ in range(LAST_READS):
            if self.ended or not self._read():
                break

    def discard(self) -> None:
        """Read on but throw away, so that nobody who still writes dies of a closed pipe."""
        self._discarding = True

    def close(self) -> None:
        if not self.ended:
            self.ended = True
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)

    def _read(self) -> bool:
        """Take one chunk; False when there is none now."""
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


class Writing:
    """Writes in the order of the calls; `close` is the end of the other side's input."""

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
                    await self._room()
                except OSError as error:
                    self.close()
                    raise ToolError("the program takes no more input") from error

    async def end(self) -> None:
        """Tell the program that no more comes. A terminal stays open; it is told by Ctrl-D."""
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

    async def _room(self) -> None:
        self._writable.clear()
        self._loop.add_writer(self._descriptor, self._writable.set)
        try:
            await self._writable.wait()
        finally:
            if not self._closed:
                self._loop.remove_writer(self._descriptor)


# Starting programs on this machine so that the event loop never waits and nothing is left behind.
#
# The lifeline hears of a process group before the program can start anything, so it dies when we
# are
# killed: descriptor 3 of what is started is the lifeline's, and its first act is to write its own
# number there and close it.

COLUMNS, LINES = 120, 40
"""Size of a terminal."""
PATIENCE = 0.05
"""Seconds we read on when the program has ended but another still holds its output."""
UNSTOPPABLE = 0.2
"""Seconds a killed program gets to end; one that runs as another user may not."""
KILLED = 137
LOWEST = 10
"""Our descriptors lie above those the child shall have."""

ANNOUNCE = r"""printf '+ %s\n' "$$" >&3 && exec 3>&-"""
EXECUTE = ANNOUNCE + r""" && cd -- "$1" && shift && exec "$@" """


async def spawn(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: str | None = None,
    on_output: Callable[[bytes], None],
    on_error: Callable[[bytes], None] | None = None,
    pty: bool = False,
    lifeline: Lifeline,
) -> Running:
    """Start a program in a session of its own, with its standard input open.

    Its environment is `environment` and nothing else. Without `on_error` standard error joins the
    output; a terminal (`pty`) has only one stream. The callbacks run in the event loop. A program
    that does not exist ends with 127 and a message, as in a shell.
    """
    if cwd is not None and not Path(cwd).is_dir():
        raise ToolError(f"the working folder {cwd} does not exist")
    return launch(
        ["/bin/sh", "-c", EXECUTE, "hermes", cwd or ".", *argv],
        environment,
        lifeline,
        on_output=on_output,
        on_error=on_error,
        pty=pty,
    )


def launch(
    argv: Sequence[str],
    environment: Mapping[str, str],
    lifeline: Lifeline,
    *,
    on_output: Callable[[bytes], None],
    on_error: Callable[[bytes], None] | None = None,
    pty: bool = False,
    takes_input: bool = True,
) -> "Launched":
    """Start a program that writes itself to the lifeline, as `ANNOUNCE` does."""
    opened = _Opened()
    try:
        streams = (
            _terminal(opened, on_output)
            if pty
            else _pipes(opened, on_output, on_error, takes_input=takes_input)
        )
        streams.child[3] = opened.high(lifeline.descriptor)
        pid = start_child(argv, environment, streams.child, streams.terminal)
    except OSError as error:
        opened.close()
        raise ToolError(f"no pipe or terminal can be had: {error.strerror}") from error
    except ToolError:
        opened.close()
        raise
    opened.close(keep={streams.writing, *streams.reading})
    return Launched(pid, lifeline, streams)


class _Streams(msgspec.Struct):
    """The descriptors of a program that is about to start."""

    child: dict[int, int] = {}
    """The child's number of each, and ours of the same."""
    reading: dict[int, Callable[[bytes], None]] = {}
    writing: int = -1
    terminal: str = ""
    """The path of its pseudo-terminal."""


class _Opened:
    """Descriptors to close again, all above those a child gets."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def high(self, descriptor: int) -> int:
        """A copy above those the child shall have, so that none is overwritten."""
        copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, LOWEST)
        self._descriptors.append(copy)
        return copy

    def add(self, *descriptors: int) -> list[int]:
        if min(descriptors) >= LOWEST:
            self._descriptors += descriptors
            return [*descriptors]
        try:
            return [self.high(descriptor) for descriptor in descriptors]
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def close(self, keep: Container[int] = ()) -> None:
        for descriptor in self._descriptors:
            if descriptor not in keep:
                os.close(descriptor)


def _pipes(
    opened: _Opened,
    on_output: Callable[[bytes], None],
    on_error: Callable[[bytes], None] | None,
    *,
    takes_input: bool,
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


def _terminal(opened: _Opened, on_output: Callable[[bytes], None]) -> _Streams:
    ours, theirs = opened.add(*os.openpty())
    termios.tcsetwinsize(theirs, (LINES, COLUMNS))
    writing = opened.high(ours)
    return _Streams(reading={ours: on_output}, writing=writing, terminal=os.ttyname(theirs))


class Launched:
    """A started program (see `base.Running`)."""

    def __init__(self, pid: int, lifeline: Lifeline, streams: _Streams) -> None:
        self.pid = pid
        self.exit_code: int | None = None
        self._lifeline = lifeline
        self._done = asyncio.get_running_loop().create_future()
        self._terminal = bool(streams.terminal)
        self._writing = (
            Writing(streams.writing, terminal=self._terminal) if streams.writing >= 0 else None
        )
        self._readings = [
            Reading(descriptor, handler, self._look)
            for descriptor, handler in streams.reading.items()
        ]
        lifeline.hold(self)
        watch_child(pid, self._ended)

    async def wait(self) -> int:
        return await asyncio.shield(self._done)

    async def write(self, data: bytes) -> None:
        if self._writing is None or self.exit_code is not None:
            raise ToolError("the program takes no input")
        await self._writing.write(data)

    async def close_input(self) -> None:
        if self._writing is not None:
            await self._writing.end()

    async def stop(self) -> None:
        # An interactive shell does not heed SIGTERM, but it does when its terminal goes away.
        polite = (signal.SIGHUP, signal.SIGTERM) if self._terminal else (signal.SIGTERM,)
        try:
            if self.exit_code is None or self._lifeline.is_left(self.pid):
                await stop_family(self.pid, polite=polite)
        finally:
            await self.release()

    async def release(self) -> None:
        """It was killed: take its exit code if it comes, and free what is held."""
        await asyncio.wait((self._done,), timeout=UNSTOPPABLE)
        if self.exit_code is None:
            self.exit_code = KILLED
        self._finish()
        for reading in self._readings:
            reading.close()
        self._lifeline.drop(self)

    def _ended(self, code: int) -> None:
        self.exit_code = code
        self._lifeline.leader_ended(self.pid)
        if self._writing is not None:
            self._writing.close()
        for reading in self._readings:
            reading.drain()
        self._look()
        if not self._done.done():
            asyncio.get_running_loop().call_later(PATIENCE, self._finish)

    def _look(self) -> None:
        """Done when the program has ended and each stream has too."""
        if self.exit_code is not None and all(reading.ended for reading in self._readings):
            self._finish()
            self._lifeline.drop(self)

    def _finish(self) -> None:
        """All output was handed over; what others still write is thrown away."""
        for reading in self._readings:
            reading.discard()
        if not self._done.done():
            self._done.set_result(self.exit_code)
