"""Child programs that a cancellation leaves no trace of, and the identity of processes."""

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

PIECE_BYTES = 65_536


async def start_program(*command: str, **options: Any) -> asyncio.subprocess.Process:
    """Like `asyncio.create_subprocess_exec`, in a new session. Raises `OSError`.

    If the caller is cancelled during the start, the program is killed here with its children:
    asyncio would kill it alone and wait forever for pipes that its children hold open.
    """
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(*command, start_new_session=True, **options)
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            process = await starting
            end_group(process)
            await process.wait()
        raise


def end_group(process: asyncio.subprocess.Process) -> None:
    """Kill the program and what it started, also when it has ended itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    """Write `data` to the program. One that stops reading reports the reason by its exit code."""
    if process.stdin is None:
        raise RuntimeError("the program was started without pipes")
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()


def pipe(stream: asyncio.StreamReader | None) -> asyncio.StreamReader:
    if stream is None:
        raise RuntimeError("the program was started without pipes")
    return stream


class ProgramResult(NamedTuple):
    """What a program that has ended has written."""

    code: int | None  #: None when the program was ended because of its long output.
    output: bytes
    errors: str


async def run_program(
    *command: str, seconds: float, data: bytes = b"", most: int = 0, **options: Any
) -> ProgramResult:
    """Run a program with `data` as its input and end it with everything it started.

    At most `most` bytes of its output are read (0: all). Raises `TimeoutError` after `seconds`, and
    `OSError` when the program cannot be started. A program that has ended while its children hold
    its pipes open is not a failure: its result is returned after `seconds`.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    process = await start_program(*command, **pipes, **options)
    output, errors = bytearray(), bytearray()
    feeding = asyncio.ensure_future(feed(process, data))
    reading = asyncio.ensure_future(_read(process.stderr, errors, most))
    try:
        async with asyncio.timeout(seconds):
            whole = await _read(process.stdout, output, most) and await reading
            code = await process.wait() if whole else None
    except TimeoutError:
        code = process.returncode
        if code is None:
            raise
    finally:
        feeding.cancel()
        reading.cancel()
        end_group(process)  # the programs it started hold its pipes open
        await process.communicate()
    return ProgramResult(code, bytes(output), errors.decode("utf-8", "replace"))


async def _read(stream: asyncio.StreamReader | None, into: bytearray, most: int) -> bool:
    """Read to the end; return False when there are more than `most` bytes, which are cut."""
    while piece := await pipe(stream).read(PIECE_BYTES):
        into += piece
        if most and len(into) > most:
            del into[most:]
            return False
    return True


@cache
def this_machine() -> str:
    """Return a name that processes share if they see each other, for leases across machines."""
    import psutil  # slow to load, and most processes never ask

    facts = [str(int(psutil.boot_time()))]
    for file in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        path = Path(file)
        try:
            facts.append(str(path.readlink()) if path.is_symlink() else path.read_text())
        except OSError:
            continue
    if len(facts) > 1:
        del facts[0]  # worked out from the clock, which may be set
    digest = hashlib.sha256("|".join(facts).encode()).hexdigest()[:8]
    return f"{socket.gethostname().replace(':', '-')}-{digest}"


def process_name() -> str:
    """Return a name of this process that no other process has, on any machine."""
    return f"{this_machine()}:{os.getpid()}:{process_began(os.getpid())}"


def is_process_gone(name: str) -> bool | None:
    """Return whether the process of a `process_name` has ended; None if that is unknown: it is on
    another machine, or hidden from this user."""
    machine, _, rest = name.partition(":")
    pid, _, began = rest.partition(":")
    if machine != this_machine() or not pid.isdecimal():
        return None
    found = process_began(int(pid))
    return None if found is None else found != began


def process_began(pid: int) -> str | None:
    """Return the start of a process, which distinguishes it from a later one with the same id.

    "" if there is none, None if it belongs to another user and cannot be inspected.
    """
    try:
        return _began_linux(pid)
    except PermissionError:
        return None
    except ProcessLookupError:
        return ""
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None if _is_hidden(pid) else ""
    import psutil  # slow to load; not needed on Linux

    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.AccessDenied:
        return None
    except psutil.Error:
        return ""


def _began_linux(pid: int) -> str:
    """Return ticks since the boot, which unlike a time do not change with the clock."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "" if fields[0] in ("Z", "X") else f"{boot}:{fields[19]}"


def _is_hidden(pid: int) -> bool:
    """Return whether the process exists but is not shown to this user (`hidepid`)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return False
