"""One token, one gateway: two that use the same bot token would steal each other's messages.

The lock is the operating system's, so it is free as soon as its process is gone. Its file is named
by a hash of the token; the token itself is written nowhere.
"""

import contextlib
import hashlib
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from hermes.gateway.platforms.base import NotConnected
from hermes.util import atomic


class TokenInUse(NotConnected):
    """Another gateway has the token. It may let go of it, so this is tried again."""


class Holder(msgspec.Struct, frozen=True):
    """Who has a lock, as it is written beside it."""

    pid: int
    name: str = ""

    def __str__(self) -> str:
        return f"process {self.pid}, {self.name}" if self.name else f"process {self.pid}"


class ScopedLock(msgspec.Struct, frozen=True):
    """A lock that is held. Given back by `release_scoped_lock`."""

    lock: Any
    note: Path


def acquire_scoped_lock(scope: str, identity: str, folder: Path, *, holder: str = "") -> ScopedLock:
    """Take the lock of a token or an account. `scope` is the platform, `identity` the token, and
    `holder` says whose we are (a profile, a folder), for the other one's message. Raises
    `TokenInUse`, which names the process that has it."""
    filelock = import_module("filelock")  # slow to load
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    digest = hashlib.sha256(f"{scope}\0{identity}".encode()).hexdigest()[:32]
    path = folder / f"{scope}-{digest}.lock"
    note = path.with_suffix(".json")
    lock = filelock.FileLock(path, mode=0o600, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        error = TokenInUse(
            f"the {scope} account is already used by another gateway ({_holder(note)})"
        )
        error.hint = "stop it with `hermes gateway stop --all`, or give this profile its own token"
        raise error from None
    atomic.write_bytes(note, msgspec.json.encode(Holder(os.getpid(), holder)))
    return ScopedLock(lock, note)


def release_scoped_lock(lock: ScopedLock | None) -> None:
    """Let go of it; None, and a lock that was given back before, are fine."""
    if lock is None or not lock.lock.is_locked:
        return
    with contextlib.suppress(OSError):  # the note only helps people
        lock.note.unlink()
    lock.lock.release()


def _holder(note: Path) -> str:
    try:
        return str(msgspec.json.decode(note.read_bytes(), type=Holder))
    except (OSError, msgspec.DecodeError):
        return "it does not say which"
