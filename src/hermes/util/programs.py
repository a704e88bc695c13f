"""Starting programs so that a stop at any moment leaves nothing behind."""

import asyncio
import contextlib
import os
import signal
from typing import Any


async def start_program(*command: str, **options: Any) -> asyncio.subprocess.Process:
    """As `asyncio.create_subprocess_exec`, in a session of its own. Who is cancelled before the
    program is there for sure has no process to end; then it is ended here, with all it started:
    asyncio would kill it alone, and wait for ever for pipes that its children hold open.

    Raises `OSError`.
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
    """All it reads. One that does not read to the end says why with its exit code."""
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
