"""`lock.json`: what is installed, where it came from, and the hash of every file."""

from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import ConfigError
from hermes.skills.hub.contents import safe_name
from hermes.skills.hub.errors import UNREADABLE, Unfit
from hermes.skills.hub.sources.source import Origin
from hermes.util import atomic

VERSION = 1


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One installed skill."""

    identifier: str
    source: str
    trust: str
    origin: Origin
    category: str = ""
    files: dict[str, str]
    """SHA-256 by name."""
    sha256: str
    """Of all together; see `whole_hash`."""
    verdict: str = ""
    """What the scan said when it was installed."""
    installed_at: str
    """ISO 8601, in UTC."""
    updated_at: str = ""

    def folder(self, skills: Path, name: str) -> Path:
        return skills / self.category / name if self.category else skills / name


class Lock(msgspec.Struct, frozen=True):
    skills: dict[str, Entry] = {}
    version: int = VERSION


def read_lock(file: Path) -> Lock:
    """Raises `ConfigError` for one that cannot be understood: nothing is guessed over it."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return Lock()
    except OSError as error:
        raise _damaged(file, error.strerror or str(error)) from error
    try:
        version = msgspec.json.decode(data, type=dict[str, Any]).get("version")
        if isinstance(version, int) and version > VERSION:
            raise ConfigError(
                "a later version of Hermes wrote this file", where=str(file), hint="update Hermes"
            )
        lock = msgspec.json.decode(data, type=Lock)
        for name, entry in lock.skills.items():
            check_entry(name, entry)
    except (*UNREADABLE, Unfit) as error:
        raise _damaged(file, str(error)) from error
    return lock


def check_entry(name: str, entry: Entry) -> None:
    """Whether its folder can only be one of the hub's. Raises `Unfit`."""
    safe_name(name)
    if "/" in name or "/" in entry.category:
        raise Unfit(f"{name} has no folder of its own in the hub")
    if entry.category:
        safe_name(entry.category)


def _damaged(file: Path, what: str) -> ConfigError:
    return ConfigError(
        f"the list of installed skills is damaged: {what}",
        where=str(file),
        hint="put back a copy of it, or delete it and install the skills again",
    )


def write_lock(file: Path, lock: Lock) -> None:
    data = msgspec.json.format(msgspec.json.encode(lock, order="deterministic"), indent=2)
    atomic.write_bytes(file, data + b"\n")
