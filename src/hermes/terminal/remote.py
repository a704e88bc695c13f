"""Containers of Docker, Podman, Apptainer and Singularity."""

import asyncio
import csv
import io
import os
import platform
import re
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal.base import Host, Running
from hermes.terminal.local.lifeline import Lifeline
from hermes.terminal.local.process import spawn
from hermes.terminal.sync import Sync

# The command-line client of a container engine, run so that it ends with us.

SECONDS = 30.0
"""The longest an engine may take for a small question."""


class Answer(msgspec.Struct, frozen=True):
    exit_code: int
    output: str
    errors: str


class Client:
    """`environment` is all the program sees: its own settings (`DOCKER_HOST`), `PATH`, `HOME`."""

    def __init__(self, program: str, environment: Mapping[str, str], lifeline: Lifeline) -> None:
        self.program = program
        self._environment = environment
        self._lifeline = lifeline

    def installed(self) -> bool:
        return shutil.which(self.program, path=self._environment.get("PATH")) is not None

    async def start(
        self,
        *arguments: str,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        pty: bool = False,
        extra: Mapping[str, str] | None = None,
    ) -> Running:
        """Start the program; `extra` joins its environment, where `ps` does not show it."""
        return await spawn(
            [self.program, *arguments],
            environment={**self._environment, **(extra or {})},
            on_output=on_output,
            on_error=on_error,
            pty=pty,
            lifeline=self._lifeline,
        )

    async def call(
        self,
        *arguments: str,
        timeout: float | None = SECONDS,
        tell: Callable[[str], None] | None = None,
    ) -> Answer:
        """Run it to its end; with `tell` its lines are passed on as they come."""
        output, errors = bytearray(), bytearray()
        lines = Lines(tell) if tell else None

        def heard(kept: bytearray, data: bytes) -> None:
            kept.extend(data)
            if lines:
                lines.feed(data)

        running = await self.start(
            *arguments,
            on_output=lambda data: heard(output, data),
            on_error=lambda data: heard(errors, data),
        )
        try:
            await running.close_input()
            async with asyncio.timeout(timeout):
                code = await running.wait()
        except TimeoutError as error:
            raise BackendUnavailable(
                f"{self.program} {arguments[0]} did not answer in {timeout:.0f} s",
                hint=f"see what `{self.program} info` says",
            ) from error
        finally:
            if running.exit_code is None:
                await running.stop()
        return Answer(code, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))


class Lines:
    """Passes on whole lines of what comes in pieces."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._rest = tell, b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data.replace(b"\r", b"\n")).split(b"\n")
        for line in lines:
            if text := line.decode("utf-8", "replace").strip():
                self._tell(text)


# What containers share: what of this machine they see, and where their files are kept.

WORKSPACE = "/workspace"
HOME = "/root"
HERMES_HOME = f"{HOME}/.hermes"
"""Where the credential files of our home appear inside."""

ENGINE_SOCKETS = (
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
)
"""Who can write to one of these is root on this machine."""


class Mount(msgspec.Struct, frozen=True):
    """A file or folder of this machine that is seen inside."""

    source: str
    target: str
    read_only: bool = False

    def option(self) -> str:
        """The value of `--mount`, quoted for the comma-separated form it has."""
        fields = ["type=bind", f"source={self.source}", f"target={self.target}"]
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(fields + ["readonly"] * self.read_only)
        return line.getvalue()

    def bind(self) -> str:
        """The value of apptainer's `--bind`."""
        return f"{self.source}:{self.target}" + ":ro" * self.read_only


def parse_volume(text: str) -> Mount:
    """A volume of the settings: `host:container[:ro|rw]`."""
    parts = text.split(":")
    mode = parts.pop() if len(parts) > 2 else "rw"
    if len(parts) != 2 or mode not in ("ro", "rw") or not parts[1].startswith("/"):
        raise _refused(text, "is not of the form host:container[:ro|rw]")
    source = Path(parts[0]).expanduser()
    if not source.is_absolute() or _mode(source) is None:
        raise _refused(text, f"names {parts[0]}, which is not an existing absolute path")
    if re.fullmatch(r"/+", parts[1]):
        raise _refused(text, "would replace the container's own root")
    return safe_mount(str(source), parts[1], read_only=mode == "ro", said=text)


def safe_mount(source: str, target: str, *, read_only: bool = False, said: str = "") -> Mount:
    """A mount that does not hand over this machine. Read-only does not tame a socket."""
    real = Path(source).resolve()
    inside = [socket for socket in ENGINE_SOCKETS if Path(socket).resolve().is_relative_to(real)]
    if real == Path("/"):
        raise _refused(said or source, "would hand the whole machine to the container")
    if inside or stat.S_ISSOCK(_mode(real) or 0):
        raise _refused(said or source, "would hand the container a socket that controls the host")
    return Mount(str(real), target, read_only)


def credential_mounts(home: Path, names: Sequence[str]) -> tuple[Mount, ...]:
    """`terminal.credential_files`, relative to our home, as read-only files inside.

    A file that is not there is left out; a name that leads out of the home is refused.
    """
    mounts = []
    for name in names:
        path = (home / name).resolve()
        if not path.is_relative_to(home.resolve()):
            raise BackendUnavailable(
                f"terminal.credential_files: {name} is outside {home}",
                hint="name files of the Hermes home only",
            )
        if path.is_file():
            inside = path.relative_to(home.resolve()).as_posix()
            mounts.append(Mount(str(path), f"{HERMES_HOME}/{inside}", read_only=True))
    return tuple(mounts)


def kept_folder(sandbox_dir: str, task: str) -> Path:
    """The folder of `terminal.sandbox_dir` that keeps the files of `task`; made when missing."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", task).lstrip(".")[:100] or "default"
    folder = Path(sandbox_dir).expanduser().absolute() / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BackendUnavailable(
            f"the container's files cannot be kept in {folder}: {error.strerror}",
            hint="set terminal.sandbox_dir to a folder that can be written",
        ) from error
    return folder


def _mode(path: Path) -> int | None:
    """None when it is not there, or not for us to see."""
    try:
        return path.stat().st_mode
    except OSError:
        return None


def _refused(volume: str, why: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"the volume {volume!r} {why}", hint="correct terminal.docker_volumes in config.yaml"
    )


# Whose a container is: a mark by which the next start finds what a killed process left.

CLOCK_DRIFT = 5.0
"""Seconds by which the start of one process may be told differently, when the clock was set."""


def own_mark() -> str:
    """The mark of this process: `place:pid:start`."""
    psutil = import_module("psutil")  # takes a while to load; only containers need it
    return f"{_place()}:{os.getpid()}:{int(psutil.Process().create_time())}"


def owner_is_gone(mark: str) -> bool:
    """Whether the process with this mark ran here and runs no more.

    False for a mark that is not ours to judge: another machine, another container, not a mark.
    """
    place, _, rest = mark.rpartition(":")
    place, _, pid = place.rpartition(":")
    if place != _place() or not pid.isdecimal() or not rest.isdecimal():
        return False
    psutil = import_module("psutil")
    try:
        started = psutil.Process(int(pid)).create_time()
    except psutil.NoSuchProcess:
        return True
    return bool(abs(started - int(rest)) > CLOCK_DRIFT)


@cache
def _place() -> str:
    """The machine and, on Linux, the space of process numbers: they mean nothing elsewhere."""
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = ""
    try:
        space = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        space = 0
    return f"{machine or platform.node()}-{space}"


# A program that runs behind a cloud service's API.

GRACE = 0.7
"""Seconds a program gets to end after its input was closed; a cancelled call has one in all."""
ABANDONED = 137
"""The exit code of a program that was given up, as if it had been killed."""

LEADING = r"""
kill -0 "-$$" 2>/dev/null || ! command -v setsid >/dev/null || set -- setsid "$@"
exec "$@"
"""
"""Runs its arguments as leader of a process group, so that a program can end what it started."""


class RemoteProcess(ABC):
    """What such programs share. A subclass follows its program in `_follow` and feeds it."""

    pid = None

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self._closed = False
        self._over = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    def follow(self, until_end: Coroutine[Any, Any, int]) -> None:
        """Begin to hand over what it prints; `until_end` returns its exit code."""
        self._following = asyncio.create_task(self._follow(until_end))

    async def wait(self) -> int:
        await self._over.wait()
        return ABANDONED if self.exit_code is None else self.exit_code

    async def write(self, data: bytes) -> None:
        if self._closed or self.exit_code is not None:
            raise ToolError("the program takes no input any more")
        await self._send(data)

    async def close_input(self) -> None:
        if not self._closed:
            self._closed = True
            await self._send_end()

    async def stop(self) -> None:
        if self.exit_code is not None:
            return
        await self.close_input()
        try:
            async with asyncio.timeout(GRACE):
                await self.wait()
        except TimeoutError:
            await self._abandon()
            if self._following is not None:
                self._following.cancel()
            self._end(ABANDONED)

    def _end(self, code: int) -> None:
        if self.exit_code is None:
            self.exit_code = code
        self._over.set()

    async def _follow(self, until_end: Coroutine[Any, Any, int]) -> None:
        self._end(await until_end)

    @abstractmethod
    async def _send(self, data: bytes) -> None: ...

    @abstractmethod
    async def _send_end(self) -> None: ...

    async def _abandon(self) -> None:
        """It did not end when its input closed: do what the service can, which may be nothing."""
        return


# Hosts that add something to another host.


class LaterHost:
    """A host that is made when it is first used, so that a session that runs no command pays
    nothing; made anew after it was closed."""

    def __init__(self, name: str, make: Callable[[Lifeline], Host]) -> None:
        self.name, self._make = name, make
        self._made: tuple[Host, Lifeline] | None = None

    def _host(self) -> Host:
        if self._made is None:
            lifeline = Lifeline()
            self._made = (self._make(lifeline), lifeline)
        return self._made[0]

    async def open(self) -> None:
        await self._host().open()

    async def start(
        self,
        argv: Sequence[str],
        *,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        pty: bool = False,
    ) -> Running:
        return await self._host().start(argv, on_output=on_output, on_error=on_error, pty=pty)

    async def close(self) -> None:
        made, self._made = self._made, None
        if made is not None:
            host, lifeline = made
            try:
                await host.close()
            finally:
                await lifeline.close()


class StockedHost:
    """A host that is brought files of this machine: whenever it was opened anew, and again before
    a program starts when they have changed."""

    def __init__(self, host: Host) -> None:
        self.name, self._host = host.name, host
        self._stock = {private: (Sync(host), dict[str, Path]()) for private in (False, True)}

    def bring(self, path: Path, target: str, *, private: bool = False) -> None:
        """From now on the file or folder `path` is at `target` there."""
        self._stock[private][1][target] = path

    async def open(self) -> None:
        await self._host.open()
        for private, (sync, files) in self._stock.items():
            if files:
                await sync.push([(path, to) for to, path in files.items()], private=private)

    async def start(
        self,
        argv: Sequence[str],
        *,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        pty: bool = False,
    ) -> Running:
        await self.open()
        return await self._host.start(argv, on_output=on_output, on_error=on_error, pty=pty)

    async def close(self) -> None:
        for sync, _files in self._stock.values():
            sync.forget()
        await self._host.close()
