"""Parts shared by the backends on other hosts: engine clients, mounts, owner marks, uploads."""

import asyncio
import csv
import io
import os
import platform
import re
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

import msgspec

from hermes.core.errors import BackendUnavailable
from hermes.terminal.base import Argv, Host, Running, Sink
from hermes.terminal.local.lifeline import Lifeline
from hermes.terminal.local.process import spawn
from hermes.terminal.sync import Sync

# The command-line client of a container engine, started so that it ends with this process.

ENGINE_TIMEOUT = 30.0  #: Seconds an engine may take to answer a small request.


class EngineResult(msgspec.Struct, frozen=True):
    exit_code: int
    output: str
    errors: str


class EngineClient:
    """Runs an engine's client; `environment` is all it sees (`DOCKER_HOST`, `PATH`, …)."""

    def __init__(self, program: str, environment: Mapping[str, str], lifeline: Lifeline) -> None:
        self.program = program
        self._environment = environment
        self._lifeline = lifeline

    def installed(self) -> bool:
        return shutil.which(self.program, path=self._environment.get("PATH")) is not None

    async def start(
        self,
        *arguments: str,
        on_output: Sink,
        on_error: Sink | None = None,
        pty: bool = False,
        extra: Mapping[str, str] | None = None,
    ) -> Running:
        """Start the program; `extra` is added to its environment, where `ps` does not show it."""
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
        timeout: float | None = ENGINE_TIMEOUT,
        notify: Callable[[str], None] | None = None,
    ) -> EngineResult:
        """Run the program to its end; with `notify`, pass on its lines as they arrive."""
        output, errors = bytearray(), bytearray()
        lines = LineSplitter(notify) if notify else None

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
        return EngineResult(
            code, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace")
        )


class LineSplitter:
    """Splits a byte stream into lines and passes on the non-empty ones."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify, self._rest = notify, b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data.replace(b"\r", b"\n")).split(b"\n")
        for line in lines:
            if text := line.decode("utf-8", "replace").strip():
                self._notify(text)


# Mounts and persistent folders of containers.

WORKSPACE = "/workspace"
HOME = "/root"
HERMES_HOME = f"{HOME}/.hermes"  #: Where credential files of the Hermes home appear inside.

ENGINE_SOCKETS = (
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
)
"""Write access to one of these sockets amounts to root on this machine."""


class Mount(msgspec.Struct, frozen=True):
    """A local file or folder that is visible inside."""

    source: str
    target: str
    read_only: bool = False

    def option(self) -> str:
        """Return the value of `--mount`, quoted as comma-separated values."""
        fields = ["type=bind", f"source={self.source}", f"target={self.target}"]
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(fields + ["readonly"] * self.read_only)
        return line.getvalue()

    def bind(self) -> str:
        """Return the value of apptainer's `--bind`."""
        return f"{self.source}:{self.target}" + ":ro" * self.read_only


def parse_volume(text: str) -> Mount:
    """Parse a volume of the settings: `host:container[:ro|rw]`."""
    parts = text.split(":")
    mode = parts.pop() if len(parts) > 2 else "rw"
    if len(parts) != 2 or mode not in ("ro", "rw") or not parts[1].startswith("/"):
        raise _invalid_volume(text, "is not of the form host:container[:ro|rw]")
    source = Path(parts[0]).expanduser()
    if not source.is_absolute() or _mode(source) is None:
        raise _invalid_volume(text, f"names {parts[0]}, which is not an existing absolute path")
    if re.fullmatch(r"/+", parts[1]):
        raise _invalid_volume(text, "would replace the container's own root")
    return safe_mount(str(source), parts[1], read_only=mode == "ro", setting=text)


def safe_mount(source: str, target: str, *, read_only: bool = False, setting: str = "") -> Mount:
    """Return a mount; refuse one that gives control of this machine, even read-only (sockets)."""
    real = Path(source).resolve()
    inside = [socket for socket in ENGINE_SOCKETS if Path(socket).resolve().is_relative_to(real)]
    if real == Path("/"):
        raise _invalid_volume(setting or source, "would hand the whole machine to the container")
    if inside or stat.S_ISSOCK(_mode(real) or 0):
        raise _invalid_volume(
            setting or source, "would hand the container a socket that controls the host"
        )
    return Mount(str(real), target, read_only)


def credential_mounts(home: Path, names: Sequence[str]) -> tuple[Mount, ...]:
    """Return `terminal.credential_files`, relative to `home`, as read-only mounts.

    Missing files are skipped; a name that leads out of the home raises `BackendUnavailable`.
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


def persistent_folder(sandbox_dir: str | Path, task: str) -> Path:
    """Return the folder in `terminal.sandbox_dir` that keeps the files of `task`; create it if
    missing."""
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
    """Return the file mode, or None if the path is missing or not accessible."""
    try:
        return path.stat().st_mode
    except OSError:
        return None


def _invalid_volume(volume: str, why: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"the volume {volume!r} {why}", hint="correct terminal.docker_volumes in config.yaml"
    )


# Owner marks: how the next start finds what a killed process left behind.

CLOCK_DRIFT = 5.0
"""Tolerated difference in seconds of a process's start time, in case the clock was changed."""


def owner_mark() -> str:
    """Return the mark of this process: `machine:pid:start`."""
    psutil = import_module("psutil")  # takes a while to load; only containers need it
    return f"{_machine_id()}:{os.getpid()}:{int(psutil.Process().create_time())}"


def is_owner_gone(mark: str) -> bool:
    """Return whether the process with this mark ran here and has ended.

    False for anything else: another machine, another container, or not a mark.
    """
    place, _, rest = mark.rpartition(":")
    place, _, pid = place.rpartition(":")
    if place != _machine_id() or not pid.isdecimal() or not rest.isdecimal():
        return False
    psutil = import_module("psutil")
    try:
        started = psutil.Process(int(pid)).create_time()
    except psutil.NoSuchProcess:
        return True
    return bool(abs(started - int(rest)) > CLOCK_DRIFT)


@cache
def _machine_id() -> str:
    """Return the machine and, on Linux, the PID namespace; a PID is meaningful only within both."""
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = ""
    try:
        space = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        space = 0
    return f"{machine or platform.node()}-{space}"


# Hosts that wrap another host.


class DeferredHost:
    """Creates the host at first use, so that a session without commands costs nothing. It is
    created again after `close`."""

    def __init__(self, name: str, make: Callable[[], Host]) -> None:
        self.name, self._make = name, make
        self._created: Host | None = None

    def _host(self) -> Host:
        if self._created is None:
            self._created = self._make()
        return self._created

    async def open(self) -> None:
        await self._host().open()

    async def start(
        self, argv: Argv, *, on_output: Sink, on_error: Sink | None = None, pty: bool = False
    ) -> Running:
        return await self._host().start(argv, on_output=on_output, on_error=on_error, pty=pty)

    async def close(self) -> None:
        host, self._created = self._created, None
        if host is not None:
            await host.close()


class SyncedHost:
    """Uploads local files to a host: whenever the host was opened, and before a program starts
    if the files have changed."""

    def __init__(self, host: Host) -> None:
        self.name, self._host = host.name, host
        self._uploads = {private: (Sync(host), dict[str, Path]()) for private in (False, True)}

    def upload(self, path: Path, target: str, *, private: bool = False) -> None:
        """Keep the file or folder `path` available at `target` on the host from now on."""
        self._uploads[private][1][target] = path

    async def open(self) -> None:
        await self._host.open()
        for private, (sync, files) in self._uploads.items():
            if files:
                await sync.push([(path, to) for to, path in files.items()], private=private)

    async def start(
        self, argv: Argv, *, on_output: Sink, on_error: Sink | None = None, pty: bool = False
    ) -> Running:
        await self.open()
        return await self._host.start(argv, on_output=on_output, on_error=on_error, pty=pty)

    async def close(self) -> None:
        for sync, _files in self._uploads.values():
            sync.forget()
        await self._host.close()
