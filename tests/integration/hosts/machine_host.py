"""A host that is this machine, with as many programs on it as a test wants."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hermes.sdk.terminal import owner_mark
from hermes.sdk.testing.terminal import run
from hermes.terminal import CommandResult, Lifeline, Running, Shell, spawn

Run = Callable[..., Awaitable[CommandResult]]

POSIX = (
    "sh", "cat", "cmp", "cut", "env", "find", "grep", "head", "ls", "mkdir", "mkfifo", "mktemp",
    "mv", "readlink", "rm", "rmdir", "sleep", "stat", "stty", "tail", "tar", "test", "touch", "tr",
    "wc", "xargs", "chmod", "chown", "id", "printf", "kill", "pwd", "seq", "true", "dd", "cp",
    "echo",
)  # fmt: skip


class MachineHost:
    """Starts programs on this machine. `noise` is what a login file prints before each."""

    name = "machine"

    def __init__(self, environment: Mapping[str, str], cwd: Path, *, noise: str = "") -> None:
        self._environment, self._cwd = dict(environment), str(cwd)
        self._lifeline: Lifeline | None = None
        self._noise = noise
        self.opened = self.closed = 0
        self.running: list[Running] = []

    async def open(self) -> None:
        if self._lifeline is None:
            self._lifeline = Lifeline()
            self.opened += 1

    async def start(self, argv: Sequence[str], **options: Any) -> Running:
        await self.open()
        assert self._lifeline is not None
        if self._noise:
            script = 'printf %s "$1"; printf %s "$1" >&2; shift; exec "$@"'
            argv = ["sh", "-c", script, "login", self._noise, *argv]
        place = {"environment": self._environment, "cwd": self._cwd}
        running = await spawn(argv, **place, lifeline=self._lifeline, **options)
        self.running.append(running)
        return running

    def cut(self) -> None:
        """All programs die at once, as clients do when a connection breaks."""
        for running in self.running:
            if running.exit_code is None and running.pid is not None:
                os.kill(running.pid, signal.SIGKILL)

    async def close(self) -> None:
        lifeline, self._lifeline = self._lifeline, None
        if lifeline is not None:
            self.closed += 1
            await lifeline.close()


def runner(shell: Shell) -> Run:
    """Return `shell.run` with default options."""
    return partial(run, shell)


def programs(kind: str, folder: Path, usual: str) -> str:
    """A PATH: `usual`, only POSIX programs with dash as the shell, or only busybox."""
    if kind == "usual":
        return usual
    folder.mkdir()
    if kind == "posix":
        for name in (*POSIX, "setsid"):
            found = shutil.which("dash" if name == "sh" else name, path=usual)
            if found:
                (folder / name).symlink_to(found)
        return str(folder)
    busybox = shutil.which("busybox", path=usual)
    if busybox is None:
        pytest.skip("needs busybox")
    subprocess.run([busybox, "--install", "-s", str(folder)], check=True)
    return str(folder)


async def gone_mark() -> str:
    """The mark of an owner that has ended."""
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    place, _, start = owner_mark().rsplit(":", 2)
    return f"{place}:{ended.pid}:{start}"
