"""A child process: started without copying this one, its end seen by the event loop."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes.core.errors import ToolError

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
