"""The gateway as a launchd agent of the user."""

import os
import plistlib
from pathlib import Path

from hermes.config.home import tilde, unusable
from hermes.gateway.process.service import Job, call, demand
from hermes.util import atomic

LABEL = "ai.hermes.gateway"
AGENTS = Path("Library") / "LaunchAgents"
NOT_LOADED = "not loaded"


def plist(job: Job, label: str) -> bytes:
    """`KeepAlive` starts it again unless it ended well."""
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
    """An agent `ai.hermes.gateway[-suffix]`."""

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
            atomic.write_bytes(self.file, plist(job, self.name), mode=0o600)
        except OSError as error:
            raise unusable(self.file, error) from error
        demand(["plutil", "-lint", str(self.file)])
        return [f"the service is {tilde(self.file)}"]

    def uninstall(self) -> None:
        call(["launchctl", "bootout", f"{self._domain}/{self.name}"])  # it may be off already
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
        """Taken out until the next login or start: else it would be started again at once."""
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
