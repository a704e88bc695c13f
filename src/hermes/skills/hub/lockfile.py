"""`lock.json`: what is installed, where it came from, and the hash of every file."""

from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import ConfigError
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
    try:
        version = msgspec.json.decode(data, type=dict[str, Any]).get("version")
        if isinstance(version, int) and version > VERSION:
            raise ConfigError(
                "a later version of Hermes wrote this file", where=str(file), hint="update Hermes"
            )
        return msgspec.json.decode(data, type=Lock)
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"the list of installed skills is damaged: {error}",
            where=str(file),
            hint="put back a copy of it, or delete it and install the skills again",
        ) from error


def write_lock(file: Path, lock: Lock) -> None:
    data = msgspec.json.format(msgspec.json.encode(lock, order="deterministic"), indent=2)
    atomic.write_bytes(file, data + b"\n")
