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

import msgspec

from hermes.config.environment import search_path, variable
from hermes.config.home import Home, tilde, unusable
from hermes.config.installation import start_command
from hermes.core.errors import HermesError
from hermes.util import files

RESTART = 75  #: Exit code of a gateway that asks to be started again.
SUFFIX_LENGTH = 8
SECONDS = 90.0  #: Time limit in seconds for a service manager; stopping waits for running turns.


class ServiceSpec(msgspec.Struct, frozen=True):
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path  #: The working directory.
    logs: Path
    stop_seconds: int
    user: str = ""  #: For a system-wide service: the user it runs as.


class ServiceFailed(HermesError):
    """The service manager did not do what was asked."""


class _ServiceFile:
    def __init__(self, name: str, file: Path) -> None:
        self.name, self.file = name, file

    def installed(self) -> bool:
        return self.file.is_file()

    def _write(self, data: bytes, mode: int = 0o600) -> None:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            files.write_bytes(self.file, data, mode=mode)
        except PermissionError as error:
            raise ServiceFailed(
                f"cannot write {self.file}", hint="a service of the whole machine needs sudo"
            ) from error
        except OSError as error:
            raise unusable(self.file, error) from error

    def _remove(self, *stop: str) -> None:
        """Stop the service with a command and delete its file."""
        _call(stop)  # it may be stopped already
        try:
            self.file.unlink(missing_ok=True)
        except OSError as error:
            raise unusable(self.file, error) from error


def service_suffix(home: Home, usual: Path) -> str:
    """Return the suffix of the services of a home; "" for the `usual` home."""
    digest = hashlib.sha256(str(home.root).encode()).hexdigest()
    return "" if home.root == usual else f"-{digest[:SUFFIX_LENGTH]}"


def _call(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program of the service manager. Raises `ServiceFailed` if it cannot run or end."""
    try:
        return subprocess.run(
            list(command),
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise ServiceFailed(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ServiceFailed(f"`{' '.join(command)}` does not end") from None


def _require(command: Sequence[str], hint: str = "") -> None:
    """Run a program that must succeed. Raises `ServiceFailed` with its last line of output."""
    done = _call(command)
    if done.returncode:
        output = (done.stderr.strip() or done.stdout.strip()).splitlines()
        why = output[-1] if output else f"exit code {done.returncode}"
        raise ServiceFailed(f"`{' '.join(command)}` failed: {why}", hint=hint)


NAME = "hermes-gateway"
BOOTED = Path("/run/systemd/system")  #: Exists only on machines that systemd started.
SYSTEM_UNITS = Path("/etc/systemd/system")
USER_UNITS = Path(".config") / "systemd" / "user"

NETWORK = "Wants=network-online.target\nAfter=network-online.target\n"
"""Only the system-wide manager knows this target."""
UNIT = Path(__file__).with_name("gateway.service")


def unit_text(spec: ServiceSpec, about: str, *, system: bool) -> str:
    environment = [f"{name}={value}" for name, value in sorted(spec.environment.items())]
    # `%` and `$` are literal; in the name of the program `$` is literal anyway.
    program, *rest = (_quoted(_literal(word)) for word in spec.command)
    return UNIT.read_text("utf-8").format(
        about=_literal(about),
        network=NETWORK if system else "",
        command=" ".join([program, *(word.replace("$", "$$") for word in rest)]),
        environment="\n".join(f"Environment={_quoted(_literal(line))}" for line in environment),
        folder=_literal(str(spec.folder)),
        restart=RESTART,
        stop_seconds=spec.stop_seconds,
        user=f"User={_literal(spec.user)}\n" if system and spec.user else "",
        wanted_by="multi-user.target" if system else "default.target",
    )


class SystemdService(_ServiceFile):
    """A unit `hermes-gateway[-hash].service`, of the user or system-wide."""

    def __init__(self, suffix: str, *, system: bool = False) -> None:
        name = f"{NAME}{suffix}.service"
        super().__init__(name, (SYSTEM_UNITS if system else Path.home() / USER_UNITS) / name)
        self.system = system

    def install(self, spec: ServiceSpec) -> list[str]:
        """Write, check and enable the service. Returns notes for the user."""
        text = unit_text(spec, str(spec.environment.get("HERMES_HOME", "")), system=self.system)
        verify_unit(text, self.name)
        self._write(text.encode(), 0o644 if self.system else 0o600)
        self._systemctl("daemon-reload")
        self._systemctl("enable", self.name)
        notes = [f"the service is {tilde(self.file)}"]
        if not self.system:  # keep the services of the user running after the last logout
            done = _call(["loginctl", "enable-linger"]) if shutil.which("loginctl") else None
            if done is None or done.returncode:
                notes.append(
                    "it ends when you log out; to keep it: sudo loginctl enable-linger $USER"
                )
        return notes

    def uninstall(self) -> None:
        self._remove(*self._command("disable", "--now", self.name))
        self._systemctl("daemon-reload")

    def start(self) -> None:
        self._systemctl("start", self.name)

    def stop(self) -> None:
        self._systemctl("stop", self.name)

    def restart(self) -> None:
        self._systemctl("restart", self.name)

    def state(self) -> str:
        """Return the state as the service manager names it."""
        return _call(self._command("is-active", self.name)).stdout.strip() or "unknown"

    def _systemctl(self, *words: str) -> None:
        hint = f"look at: journalctl {'' if self.system else '--user '}-u {self.name}"
        _require(self._command(*words), hint)

    def _command(self, *words: str) -> list[str]:
        return ["systemctl", *(() if self.system else ("--user",)), *words]


def verify_unit(text: str, name: str) -> None:
    """Let systemd check the unit. Raises `ServiceFailed` with its message."""
    if shutil.which("systemd-analyze") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / name
        unit.write_text(text, encoding="utf-8")
        done = _call(["systemd-analyze", "--recursive-errors=no", "verify", str(unit)])
    errors = [line for line in done.stderr.splitlines() if name in line]
    if done.returncode and errors:
        raise ServiceFailed(f"systemd does not accept the service: {errors[0].strip()}")


def _literal(text: str) -> str:
    return text.replace("%", "%%").replace("\n", " ")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


LABEL = "ai.hermes.gateway"
AGENTS = Path("Library") / "LaunchAgents"
NOT_LOADED = "not loaded"


def plist(spec: ServiceSpec, label: str) -> bytes:
    """Return the agent definition; `KeepAlive` restarts a process that failed."""
    return plistlib.dumps({
        "Label": label,
        "ProgramArguments": list(spec.command),
        "EnvironmentVariables": dict(spec.environment),
        "WorkingDirectory": str(spec.folder),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 3,
        "ExitTimeOut": spec.stop_seconds,
        "StandardOutPath": str(spec.logs / "gateway.out"),
        "StandardErrorPath": str(spec.logs / "gateway.out"),
    })  # fmt: skip


class LaunchdService(_ServiceFile):
    """An agent `ai.hermes.gateway[-suffix]` of the user."""

    def __init__(self, suffix: str) -> None:
        name = f"{LABEL}{suffix}"
        super().__init__(name, Path.home() / AGENTS / f"{name}.plist")
        self._domain = f"gui/{os.getuid()}"
        self._agent = f"{self._domain}/{name}"

    def install(self, spec: ServiceSpec) -> list[str]:
        try:
            spec.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise unusable(spec.logs, error) from error
        self._write(plist(spec, self.name))
        _require(["plutil", "-lint", str(self.file)])
        return [f"the service is {tilde(self.file)}"]

    def uninstall(self) -> None:
        self._remove("launchctl", "bootout", self._agent)

    def start(self) -> None:
        if self.state() == NOT_LOADED:
            _require(["launchctl", "bootstrap", self._domain, str(self.file)])
        else:
            _require(["launchctl", "kickstart", self._agent])

    def stop(self) -> None:
        """Unload the agent, because launchd would start it again at once."""
        _require(["launchctl", "bootout", self._agent])

    def restart(self) -> None:
        if self.state() == NOT_LOADED:
            self.start()
        else:
            _require(["launchctl", "kickstart", "-k", self._agent])

    def state(self) -> str:
        done = _call(["launchctl", "print", self._agent])
        if done.returncode:
            return NOT_LOADED
        lines = (line.strip().partition(" = ") for line in done.stdout.splitlines())
        return next((value for name, _, value in lines if name == "state"), "unknown")


Service = SystemdService | LaunchdService
GRACE_SECONDS = 15  #: Seconds added to the time that running turns get.
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def find_service(home: Home, *, system: bool = False) -> Service:
    """Return the service of a home, installed or not. Raises `ServiceFailed` if the machine has
    no service manager."""
    suffix = service_suffix(home, Path.home() / ".hermes")
    if sys.platform == "darwin":
        if system:
            raise ServiceFailed("--system is for Linux", hint="leave it out")
        return LaunchdService(suffix)
    if not BOOTED.is_dir() or shutil.which("systemctl") is None:
        raise ServiceFailed("this machine has no systemd to run a service", hint=manual_hint())
    return SystemdService(suffix, system=system)


def installed_service(home: Home, *, system: bool = False) -> Service | None:
    try:
        found = find_service(home, system=system)
    except ServiceFailed:
        return None
    return found if found.installed() else None


def is_managed() -> bool:
    """Return whether a service manager started this process, and would start it again."""
    return bool(variable("INVOCATION_ID")) or (variable("XPC_SERVICE_NAME") or "0") != "0"


def service_spec(home: Home, *, drain_seconds: float, user: str = "") -> ServiceSpec:
    return ServiceSpec(
        command=(*start_command(), "gateway", "run", "--quiet"),
        environment={"HERMES_HOME": str(home.root), "PATH": search_path()},
        folder=Path.home(),
        logs=home.logs,
        stop_seconds=int(drain_seconds) + GRACE_SECONDS,
        user=user or getpass.getuser(),
    )


def manual_hint(
    marks: tuple[Path, ...] = CONTAINER_MARKS, kernel: Path = Path("/proc/version")
) -> str:
    """Return a hint for machines without a service manager."""
    if any(mark.exists() for mark in marks):
        return "in a container make `hermes gateway run` its main process, or: hermes gateway start"
    if kernel.is_file() and "microsoft" in kernel.read_text(errors="replace").lower():
        return (
            "in WSL put `[boot]` and `systemd=true` into /etc/wsl.conf and restart it,"
            " or: hermes gateway start"
        )
    return "`hermes gateway start` runs it in the background until the machine stops"
