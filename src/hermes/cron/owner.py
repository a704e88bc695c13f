"""Who runs a job: a process of a machine, and whether it still lives."""

import os
import secrets
from pathlib import Path

import psutil

from hermes.util.machine import this_machine

_living: set[str] = set()
"""Owners of this process that still look after their runs."""


def new_owner() -> str:
    """`machine:process:start/part`; it lives until `retire`, or until this process ends."""
    pid = os.getpid()
    owner = f"{this_machine()}:{pid}:{_started(pid)}/{secrets.token_hex(2)}"
    _living.add(owner)
    return owner


def retire(owner: str) -> None:
    _living.discard(owner)


def is_dead(owner: str) -> bool | None:
    """Whether the process has ended; None when it is one of another machine."""
    machine, _, rest = owner.partition(":")
    pid, _, started = rest.partition(":")
    if machine != this_machine() or not pid.isdigit():
        return None
    if int(pid) == os.getpid():
        return owner not in _living
    try:
        alive = psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
        return not alive or _started(int(pid)) != started.partition("/")[0]
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def _started(pid: int) -> str:
    """When the process began, in ticks since the machine did: setting the clock changes nothing."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[19]
    except (OSError, IndexError):
        return f"{psutil.Process(pid).create_time():.2f}"
