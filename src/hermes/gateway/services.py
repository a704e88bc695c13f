"""The gateway as a system service: systemd units and launchd agents."""

import getpass
import hashlib
import os
import plistlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from hermes.app.installation import start_command
from hermes.config.environment import search_path, variable
from hermes.config.home import Home, tilde, unusable
from hermes.core.errors import HermesError
from hermes.util import files

RESTART = 75
"""Exit code of a gateway that asks to be started again."""
SUFFIX_LENGTH = 8
SECONDS = 90.0
"""Time limit in seconds for a service manager; stopping waits for running turns."""


class Job(msgspec.Struct, frozen=True):
    """What the service runs."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    """The working directory."""
    logs: Path
    stop_seconds: int
    user: str = ""
    """For a system-wide service: the user it runs as."""


class Service(Protocol):
    name: str
    file: Path

    def installed(self) -> bool: ...

    def install(self, job: Job) -> list[str]:
        """Write, check and enable the service. Returns notes for the user."""
        ...

    def uninstall(self) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def restart(self) -> None: ...

    def state(self) -> str:
        """Return the state as the service manager names it."""
        ...


class ServiceFailed(HermesError):
    """The service manager did not do what was asked."""


def suffix(home: Home, usual: Path) -> str:
    """Return the suffix that distinguishes the services of several homes; "" for the `usual`
    home."""
    if home.root == usual:
        return ""
    digest = hashlib.sha256(str(home.root).encode()).hexdigest()
    return f"-{digest[:SUFFIX_LENGTH]}"


def call(command: Sequence[str], *, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """Run a program of the service manager. Raises `ServiceFailed` if it is not installed or
    does not end."""
    try:
        return subprocess.run(
            list(command),
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise ServiceFailed(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ServiceFailed(f"`{' '.join(command)}` does not end") from None


def demand(command: Sequence[str], hint: str = "") -> None:
    """Run a program that must succeed. Raises `ServiceFailed` with its last line of output."""
    done = call(command)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        why = said[-1] if said else f"exit code {done.returncode}"
        raise ServiceFailed(f"`{' '.join(command)}` failed: {why}", hint=hint)


NAME = "hermes-gateway"
BOOTED = Path("/run/systemd/system")
"""Exists only on machines that systemd started."""
SYSTEM_UNITS = Path("/etc/systemd/system")
USER_UNITS = Path(".config") / "systemd" / "user"

NETWORK = """\
Wants=network-online.target
After=network-online.target
"""
"""Only the system-wide manager knows this target."""

UNIT = """\
[Unit]
Description=Hermes gateway ({about})
{network}StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=simple
ExecStart={command}
{environment}
WorkingDirectory={folder}
Restart=on-failure
RestartSec=3
RestartForceExitStatus={restart}
SuccessExitStatus=SIGTERM
KillMode=mixed
TimeoutStopSec={stop_seconds}
{user}
[Install]
WantedBy={wanted_by}
"""


def unit_text(job: Job, about: str, *, system: bool) -> str:
    environment = [f"{name}={value}" for name, value in sorted(job.environment.items())]
    return UNIT.format(
        about=_literal(about),
        network=NETWORK if system else "",
        command=_command_line(job.command),
        environment="\n".join(f"Environment={_quoted(_literal(line))}" for line in environment),
        folder=_literal(str(job.folder)),
        restart=RESTART,
        stop_seconds=job.stop_seconds,
        user=f"User={_literal(job.user)}\n" if system and job.user else "",
        wanted_by="multi-user.target" if system else "default.target",
    )


def systemd_is_running() -> bool:
    return BOOTED.is_dir() and shutil.which("systemctl") is not None


class Systemd:
    """A unit `hermes-gateway[-hash].service`, of the user or system-wide."""

    def __init__(self, suffix: str, *, system: bool = False, units: Path | None = None) -> None:
        self.name = f"{NAME}{suffix}.service"
        self.system = system
        folder = units or (SYSTEM_UNITS if system else Path.home() / USER_UNITS)
        self.file = folder / self.name

    def installed(self) -> bool:
        return self.file.is_file()

    def install(self, job: Job) -> list[str]:
        text = unit_text(job, str(job.environment.get("HERMES_HOME", "")), system=self.system)
        verify(text, self.name)
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(self.file, text, mode=0o644 if self.system else 0o600)
        except PermissionError as error:
            raise ServiceFailed(
                f"cannot write {self.file}", hint="a service of the whole machine needs sudo"
            ) from error
        except OSError as error:
            raise unusable(self.file, error) from error
        self._systemctl("daemon-reload")
        self._systemctl("enable", self.name)
        notes = [f"the service is {tilde(self.file)}"]
        return notes if self.system else [*notes, *_linger()]

    def uninstall(self) -> None:
        call(self._command("disable", "--now", self.name))  # it may be stopped already
        try:
            self.file.unlink(missing_ok=True)
        except OSError as error:
            raise unusable(self.file, error) from error
        self._systemctl("daemon-reload")

    def start(self) -> None:
        self._systemctl("start", self.name)

    def stop(self) -> None:
        self._systemctl("stop", self.name)

    def restart(self) -> None:
        self._systemctl("restart", self.name)

    def state(self) -> str:
        return call(self._command("is-active", self.name)).stdout.strip() or "unknown"

    def _systemctl(self, *words: str) -> None:
        hint = f"look at: journalctl {'' if self.system else '--user '}-u {self.name}"
        demand(self._command(*words), hint)

    def _command(self, *words: str) -> list[str]:
        return ["systemctl", *(() if self.system else ("--user",)), *words]


def verify(text: str, name: str) -> None:
    """Let systemd check the unit. Raises `ServiceFailed` with its message."""
    if shutil.which("systemd-analyze") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / name
        unit.write_text(text, encoding="utf-8")
        done = call(["systemd-analyze", "--recursive-errors=no", "verify", str(unit)])
    said = [line for line in done.stderr.splitlines() if name in line]
    if done.returncode and said:
        raise ServiceFailed(f"systemd does not take the service: {said[0].strip()}")


def _linger() -> list[str]:
    """Keep the user's services running after the last logout; returns a note if that fails."""
    done = call(["loginctl", "enable-linger"]) if shutil.which("loginctl") else None
    if done is not None and done.returncode == 0:
        return []
    return ["it ends when you log out; to keep it: sudo loginctl enable-linger $USER"]


def _command_line(words: Sequence[str]) -> str:
    """Quote a command line so that `%` and `$` are literal; in the program name `$` is literal
    anyway."""
    program, *rest = (_quoted(_literal(word)) for word in words)
    return " ".join([program, *(word.replace("$", "$$") for word in rest)])


def _literal(text: str) -> str:
    return text.replace("%", "%%").replace("\n", " ")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


LABEL = "ai.hermes.gateway"
AGENTS = Path("Library") / "LaunchAgents"
NOT_LOADED = "not loaded"


def plist(job: Job, label: str) -> bytes:
    """Return the agent definition. `KeepAlive` starts the process again unless it exited
    successfully."""
    return plistlib.dumps({
        "Label": label,
        "ProgramArguments": list(job.command),
        "EnvironmentVariables": dict(job.environment),
        "WorkingDirectory": str(job.folder),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 3,
        "ExitTimeOut": job.stop_seconds,
        "StandardOutPath": str(job.logs / "gateway.out"),
        "StandardErrorPath": str(job.logs / "gateway.out"),
    })  # fmt: skip


class Launchd:
    """An agent `ai.hermes.gateway[-suffix]` of the user."""

    def __init__(self, suffix: str, *, agents: Path | None = None) -> None:
        self.name = f"{LABEL}{suffix}"
        self.file = (agents or Path.home() / AGENTS) / f"{self.name}.plist"
        self._domain = f"gui/{os.getuid()}"

    def installed(self) -> bool:
        return self.file.is_file()

    def install(self, job: Job) -> list[str]:
        try:
            job.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.file.parent.mkdir(parents=True, exist_ok=True)
            files.write_bytes(self.file, plist(job, self.name), mode=0o600)
        except OSError as error:
            raise unusable(self.file, error) from error
        demand(["plutil", "-lint", str(self.file)])
        return [f"the service is {tilde(self.file)}"]

    def uninstall(self) -> None:
        call(["launchctl", "bootout", f"{self._domain}/{self.name}"])  # it may be stopped already
        try:
            self.file.unlink(missing_ok=True)
        except OSError as error:
            raise unusable(self.file, error) from error

    def start(self) -> None:
        if self.state() == NOT_LOADED:
            demand(["launchctl", "bootstrap", self._domain, str(self.file)])
        else:
            demand(["launchctl", "kickstart", f"{self._domain}/{self.name}"])

    def stop(self) -> None:
        """Unload the agent until the next login or start; otherwise launchd would start it again
        at once."""
        demand(["launchctl", "bootout", f"{self._domain}/{self.name}"])

    def restart(self) -> None:
        if self.state() == NOT_LOADED:
            self.start()
        else:
            demand(["launchctl", "kickstart", "-k", f"{self._domain}/{self.name}"])

    def state(self) -> str:
        done = call(["launchctl", "print", f"{self._domain}/{self.name}"])
        if done.returncode:
            return NOT_LOADED
        lines = (line.strip().partition(" = ") for line in done.stdout.splitlines())
        return next((value for name, _, value in lines if name == "state"), "unknown")


GRACE_SECONDS = 15
"""Seconds added to the time that running turns get."""
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def service_of(home: Home, *, system: bool = False) -> Service:
    """Return the service of a home, installed or not. Raises `ServiceFailed` if the machine has
    no service manager."""
    name = suffix(home, Path.home() / ".hermes")
    if sys.platform == "darwin":
        if system:
            raise ServiceFailed("--system is for Linux", hint="leave it out")
        return Launchd(name)
    if not systemd_is_running():
        raise ServiceFailed("this machine has no systemd to run a service", hint=instead())
    return Systemd(name, system=system)


def installed_service(home: Home, *, system: bool = False) -> Service | None:
    """Return the service of a home if it is installed."""
    try:
        found = service_of(home, system=system)
    except ServiceFailed:
        return None
    return found if found.installed() else None


def under_a_manager() -> bool:
    """Return whether a service manager started this process, and would start it again."""
    return bool(variable("INVOCATION_ID")) or (variable("XPC_SERVICE_NAME") or "0") != "0"


def job(home: Home, *, drain_seconds: float, user: str = "") -> Job:
    words = (*start_command(), "gateway", "run", "--quiet")
    return Job(
        command=words,
        environment={"HERMES_HOME": str(home.root), "PATH": search_path()},
        folder=Path.home(),
        logs=home.logs,
        stop_seconds=int(drain_seconds) + GRACE_SECONDS,
        user=user or getpass.getuser(),
    )


def instead(marks: tuple[Path, ...] = CONTAINER_MARKS, kernel: Path = Path("/proc/version")) -> str:
    """Return a hint for machines without a service manager."""
    if any(mark.exists() for mark in marks):
        return "in a container make `hermes gateway run` its main process, or: hermes gateway start"
    if kernel.is_file() and "microsoft" in kernel.read_text(errors="replace").lower():
        return (
            "in WSL put `[boot]` and `systemd=true` into /etc/wsl.conf and restart it,"
            " or: hermes gateway start"
        )
    return "`hermes gateway start` runs it in the background until the machine stops"
