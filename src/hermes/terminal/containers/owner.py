"""Whose a container is: a mark by which the next start finds what a killed process left."""

import os
import platform
from functools import cache
from importlib import import_module
from pathlib import Path

CLOCK_DRIFT = 5.0
"""Seconds by which the start of one process may be told differently, when the clock was set."""


def own_mark() -> str:
    """The mark of this process: `place:pid:start`."""
    psutil = import_module("psutil")  # takes a while to load; only containers need it
    return f"{_place()}:{os.getpid()}:{int(psutil.Process().create_time())}"


def owner_is_gone(mark: str) -> bool:
    """Whether the process with this mark ran here and runs no more.

    False for a mark that is not ours to judge: another machine, another container, not a mark.
    """
    place, _, rest = mark.rpartition(":")
    place, _, pid = place.rpartition(":")
    if place != _place() or not pid.isdecimal() or not rest.isdecimal():
        return False
    psutil = import_module("psutil")
    try:
        started = psutil.Process(int(pid)).create_time()
    except psutil.NoSuchProcess:
        return True
    return bool(abs(started - int(rest)) > CLOCK_DRIFT)


@cache
def _place() -> str:
    """The machine and, on Linux, the space of process numbers: they mean nothing elsewhere."""
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = ""
    try:
        space = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        space = 0
    return f"{machine or platform.node()}-{space}"
