"""The name of this machine and when its processes began, for leases that processes of several
machines hold."""

import hashlib
import os
import socket
from functools import cache
from pathlib import Path

import psutil


@cache
def this_machine() -> str:
    """The same for processes that see each other: two containers may have one name."""
    facts = [str(int(psutil.boot_time()))]
    for file in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        path = Path(file)
        try:
            facts.append(str(path.readlink()) if path.is_symlink() else path.read_text())
        except OSError:
            continue
    if len(facts) > 1:
        del facts[0]  # worked out from the clock, which may be set
    digest = hashlib.sha256("|".join(facts).encode()).hexdigest()[:8]
    return f"{socket.gethostname().replace(':', '-')}-{digest}"


def process_began(pid: int) -> str | None:
    """Tells a process from a later one with the same number; "" when there is no such process, None
    when it is somebody else's and cannot be looked at."""
    try:
        return _began_linux(pid)
    except PermissionError:
        return None
    except ProcessLookupError:
        return ""
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None if _is_hidden(pid) else ""
    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.AccessDenied:
        return None
    except psutil.Error:
        return ""


def _began_linux(pid: int) -> str:
    """Ticks since the machine started: unlike a time they stay when the clock is set."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "" if fields[0] in ("Z", "X") else f"{boot}:{fields[19]}"


def _is_hidden(pid: int) -> bool:
    """A machine may show each user only their own processes (`hidepid`)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return False
