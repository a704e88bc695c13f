"""A host that is this machine, with as many programs on it as a test wants."""

import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

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

    async def start(
        self,
        argv: Sequence[str],
        *,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        pty: bool = False,
    ) -> Running:
        await self.open()
        assert self._lifeline is not None
        if self._noise:
            script = 'printf %s "$1"; printf %s "$1" >&2; shift; exec "$@"'
            argv = ["sh", "-c", script, "login", self._noise, *argv]
        running = await spawn(
            argv,
            environment=self._environment,
            cwd=self._cwd,
            on_output=on_output,
            on_error=on_error,
            pty=pty,
            lifeline=self._lifeline,
        )
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
