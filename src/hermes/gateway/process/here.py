"""Which service manager this machine has, and what the gateway's service runs."""

import getpass
import sys
from pathlib import Path

from hermes.app.installation.place import start_command
from hermes.config.environment import search_path, variable
from hermes.config.home import Home
from hermes.gateway.process.launchd import Launchd
from hermes.gateway.process.service import Job, Service, ServiceFailed, suffix
from hermes.gateway.process.systemd import Systemd, systemd_is_running

GRACE_SECONDS = 15
"""Beyond the time that running turns get."""
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def service_of(home: Home, *, system: bool = False) -> Service:
    """The service of a home, installed or not. Raises `ServiceFailed` where there can be none."""
    name = suffix(home, Path.home() / ".hermes")
    if sys.platform == "darwin":
        if system:
            raise ServiceFailed("--system is for Linux", hint="leave it out")
        return Launchd(name)
    if not systemd_is_running():
        raise ServiceFailed("this machine has no systemd to run a service", hint=instead())
    return Systemd(name, system=system)


def installed_service(home: Home, *, system: bool = False) -> Service | None:
    """The service of a home, if it is installed here."""
    try:
        found = service_of(home, system=system)
    except ServiceFailed:
        return None
    return found if found.installed() else None


def under_a_manager() -> bool:
    """Whether a service manager started this process, and so would start it again."""
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
    """What to do on a machine without services."""
    if any(mark.exists() for mark in marks):
        return "in a container make `hermes gateway run` its main process, or: hermes gateway start"
    if kernel.is_file() and "microsoft" in kernel.read_text(errors="replace").lower():
        return (
            "in WSL put `[boot]` and `systemd=true` into /etc/wsl.conf and restart it,"
            " or: hermes gateway start"
        )
    return "`hermes gateway start` runs it in the background until the machine stops"
