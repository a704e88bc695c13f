"""Which process is the gateway of a home.

A process claims the home with a lock that ends with it, whatever happens to it, and says who it is
in `gateway.pid`. A number alone is not enough, since numbers are used again: the file also says
when the process began.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes.config.home import Home, ensure_hermes_home, unusable
from hermes.core.errors import HermesError
from hermes.util import atomic
from hermes.util.machine import process_began

PID_FILE = "gateway.pid"
LOCK_FILE = "gateway.lock"
KNOWN_FOLDER = Path(".local") / "state" / "hermes" / "gateways"
"""In the user's own folder: a link for each home that had a gateway, for `stop --all`."""


class Running(msgspec.Struct, frozen=True):
    """The process in `gateway.pid`."""

    pid: int
    began: str
    """When the process began, as the system counts: see `util.machine.process_began`."""
    started_at: float
    """The same as a time."""
    home: str
    version: str = ""


class AlreadyRunning(HermesError):
    """Another process is the gateway of this home."""


@contextlib.contextmanager
def claimed(home: Home, *, now: float, version: str = "") -> Iterator[Running]:
    """Be the gateway of `home` inside the block. Raises `AlreadyRunning`."""
    root = ensure_hermes_home(home)
    descriptor = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(home) from None
        me = Running(os.getpid(), process_began(os.getpid()) or "", now, str(root), version)
        _write(root / PID_FILE, me)
        _remember(root)
        try:
            yield me
        finally:
            (root / PID_FILE).unlink(missing_ok=True)
    finally:
        os.close(descriptor)  # which also lets go of the lock


def running(root: Path) -> Running | None:
    """The gateway of the home folder `root`, if one runs. Files left by a crash are no gateway."""
    try:
        found = msgspec.json.decode((root / PID_FILE).read_bytes(), type=Running)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None  # half a file is impossible; another program's file says nothing
    except OSError as error:
        raise unusable(root / PID_FILE, error) from error
    return found if found.pid > 0 and process_began(found.pid) == found.began else None


def all_running(home: Home) -> list[Running]:
    """Every gateway of this user: of all profiles, and of other homes that had one."""
    root = home.default_root
    roots = [home.root, root, *sorted((root / "profiles").glob("*"))]
    with contextlib.suppress(OSError):
        roots += sorted(link.readlink() for link in _known().iterdir() if link.is_symlink())
    found = {each.pid: each for folder in roots if (each := running(folder))}
    return list(found.values())


def _taken(home: Home) -> AlreadyRunning:
    other = running(home.root)
    who = f" (process {other.pid})" if other else ""
    return AlreadyRunning(
        f"the gateway of {home.display()} is running already{who}",
        hint="`hermes gateway run --replace` takes its place; `hermes gateway stop` ends it",
    )


def _write(path: Path, value: Running) -> None:
    try:
        atomic.write_bytes(path, msgspec.json.encode(value) + b"\n", mode=0o600)
    except OSError as error:
        raise unusable(path, error) from error


def _remember(root: Path) -> None:
    """Only for `stop --all`, so a folder that cannot be written to stops nobody."""
    with contextlib.suppress(OSError, RuntimeError):
        known = _known()
        known.mkdir(mode=0o700, parents=True, exist_ok=True)
        for link in known.iterdir():
            if link.is_symlink() and not link.exists():
                link.unlink(missing_ok=True)
        link = known / hashlib.sha256(str(root).encode()).hexdigest()[:16]
        if not link.is_symlink():
            link.symlink_to(root)


def _known() -> Path:
    return Path.home() / KNOWN_FOLDER
