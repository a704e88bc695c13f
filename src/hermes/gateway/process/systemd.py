"""The gateway as a systemd service, of the user or of the whole machine."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hermes.config.home import tilde, unusable
from hermes.gateway.process.service import RESTART, Job, ServiceFailed, call, demand
from hermes.util import atomic

NAME = "hermes-gateway"
BOOTED = Path("/run/systemd/system")
"""There only on a machine that systemd started."""
SYSTEM_UNITS = Path("/etc/systemd/system")
USER_UNITS = Path(".config") / "systemd" / "user"

NETWORK = """\
Wants=network-online.target
After=network-online.target
"""
"""Only the manager of the machine knows it."""

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
    """A unit `hermes-gateway[-hash].service`."""

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
            atomic.write_text(self.file, text, mode=0o644 if self.system else 0o600)
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
        call(self._command("disable", "--now", self.name))  # it may be off already
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
    """Have systemd itself read the unit. Raises `ServiceFailed` with what it says."""
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
    """A user's services end with the last login unless they linger."""
    done = call(["loginctl", "enable-linger"]) if shutil.which("loginctl") else None
    if done is not None and done.returncode == 0:
        return []
    return ["it ends when you log out; to keep it: sudo loginctl enable-linger $USER"]


def _command_line(words: Sequence[str]) -> str:
    """`%` and `$` mean themselves; in the name of the program `$` does so anyway."""
    program, *rest = (_quoted(_literal(word)) for word in words)
    return " ".join([program, *(word.replace("$", "$$") for word in rest)])


def _literal(text: str) -> str:
    return text.replace("%", "%%").replace("\n", " ")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
