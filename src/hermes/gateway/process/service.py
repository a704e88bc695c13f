"""The gateway as a service: what is the same for systemd and launchd."""

import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from hermes.config.home import Home
from hermes.core.errors import HermesError

RESTART = 75
"""Exit code of a gateway that wants to be started again."""
SUFFIX_LENGTH = 8
SECONDS = 90.0
"""The longest a service manager may take to answer; stopping waits for running turns."""


class Job(msgspec.Struct, frozen=True):
    """What the service runs."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    """Where it starts."""
    logs: Path
    stop_seconds: int
    user: str = ""
    """Of a service of the whole machine: who it runs as."""


class Service(Protocol):
    name: str
    file: Path

    def installed(self) -> bool: ...

    def install(self, job: Job) -> list[str]:
        """Write it, check it, switch it on. What the user should know."""
        ...

    def uninstall(self) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def restart(self) -> None: ...

    def state(self) -> str:
        """In the words of the service manager."""
        ...


class ServiceFailed(HermesError):
    """The service manager did not do what was asked."""


def suffix(home: Home, usual: Path) -> str:
    """What tells the services of several homes apart; "" for the `usual` home."""
    if home.root == usual:
        return ""
    digest = hashlib.sha256(str(home.root).encode()).hexdigest()
    return f"-{digest[:SUFFIX_LENGTH]}"


def call(command: Sequence[str], *, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """Run a service manager's program. Raises `ServiceFailed` when it is not there."""
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
    """The same, for what must succeed."""
    done = call(command)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        why = said[-1] if said else f"exit code {done.returncode}"
        raise ServiceFailed(f"`{' '.join(command)}` failed: {why}", hint=hint)
