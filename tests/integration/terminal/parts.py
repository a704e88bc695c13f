"""Parts of the tests of terminal backends: watching processes."""

import asyncio
import os
import secrets
import shutil
import signal
import sys

import anyio
import msgspec
import psutil
import pytest


def program(name: str) -> str:
    """Where it is installed; a test that needs it is skipped when it is not."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"needs {name}")
    return found


def unique_sleep() -> str:
    """A command with a unique argument, so that its processes can be found."""
    return f"sleep 6{secrets.randbelow(10**9):09d}"


def processes_of(command: str) -> list[int]:
    """The processes of this machine that are this very command."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["cmdline"] == command.split()
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


async def started(command: str, count: int = 1) -> None:
    """Waits for `count` processes; the test's own time limit is the only clock."""
    while len(processes_of(command)) < count:
        await anyio.sleep(0.02)


async def gone(command: str) -> None:
    while processes_of(command):
        await anyio.sleep(0.02)


async def kill_actor(script: str, options: object, count: int) -> None:
    """Kill a process that runs `count` commands on a host, and wait until all of them ended."""
    sleep, given = unique_sleep(), msgspec.json.encode(options).decode()
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", script, given, sleep)
    await started(sleep, count)
    below = psutil.Process(child.pid).children(recursive=True)
    child.kill()
    await child.wait()
    await gone(sleep)
    for process in below:
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            await anyio.sleep(0.02)


def kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
