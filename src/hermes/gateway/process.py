"""The gateway process of a home: PID file and lock, state file, start and stop, lease owners.

A process claims the home with a lock that the system releases when the process ends, and describes
itself in `gateway.pid`. Because process ids are reused, the file also holds the start time of the
process.
"""

import contextlib
import fcntl
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from hermes.config.environment import variables
from hermes.config.home import Home, ensure_hermes_home, tilde, unusable
from hermes.core.errors import HermesError
from hermes.util import files
from hermes.util.processes import process_began, this_machine

PID_FILE = "gateway.pid"
LOCK_FILE = "gateway.lock"
KNOWN_FOLDER = Path(".local") / "state" / "hermes" / "gateways"
"""Folder in the user's home with a link for each Hermes home that had a gateway, for `stop
--all`."""


class Running(msgspec.Struct, frozen=True):
    """The process in `gateway.pid`."""

    pid: int
    began: str
    """Start of the process as the system counts it; see `util.machine.process_began`."""
    started_at: float
    """Start of the process in seconds since 1970."""
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
        os.close(descriptor)  # also releases the lock


def running(root: Path) -> Running | None:
    """Return the running gateway of the home folder `root`, if any. Files left by a crash do not
    count."""
    try:
        found = msgspec.json.decode((root / PID_FILE).read_bytes(), type=Running)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None  # the file is written atomically, so another program must have written this
    except OSError as error:
        raise unusable(root / PID_FILE, error) from error
    return found if found.pid > 0 and process_began(found.pid) == found.began else None


def all_running(home: Home) -> list[Running]:
    """Return every gateway of this user: of all profiles, and of other homes that had one."""
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
        files.write_bytes(path, msgspec.json.encode(value) + b"\n", mode=0o600)
    except OSError as error:
        raise unusable(path, error) from error


def _remember(root: Path) -> None:
    """Record the home for `stop --all`. A folder that is not writable must not stop the gateway."""
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


PAUSE = 0.05


def stop(
    found: Running,
    *,
    seconds: float,
    force: bool = False,
    pause: Callable[[float], None] = time.sleep,
) -> bool:
    """Ask a gateway to stop and return whether it is gone.

    It finishes running turns first, so `seconds` must allow for them. With `force` it is killed
    after that; nothing is lost, because its state is on disk. Raises `PermissionError` if it
    belongs to another user.
    """
    _send(found, signal.SIGTERM)
    if _gone_within(found, seconds, pause):
        return True
    if not force:
        return False
    _send(found, signal.SIGKILL)
    return _gone_within(found, 10.0, pause)


def is_gone(found: Running) -> bool:
    return process_began(found.pid) != found.began


def _send(found: Running, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        if not is_gone(found):
            os.kill(found.pid, number)


def _gone_within(found: Running, seconds: float, pause: Callable[[float], None]) -> bool:
    deadline = time.monotonic() + seconds
    while not is_gone(found):
        if time.monotonic() >= deadline:
            return False
        pause(PAUSE)
    return True


STATE_FILE = "gateway_state.json"


class AdapterState(msgspec.Struct, frozen=True):
    platform: str
    state: str
    """`connected`, `connecting`, `waiting` (for its next attempt), `failed`, `stopped`, or
    `incomplete`: not tried, because some of its variables are missing."""
    account: str = ""
    detail: str = ""
    """Why it is not connected; if it is, the address where it listens."""
    hint: str = ""
    """How to fix the problem."""
    since: float = 0.0
    last_in: float | None = None
    last_out: float | None = None
    waiting_out: int = 0
    """Messages that wait to be sent there."""


class GatewayState(msgspec.Struct, frozen=True):
    pid: int
    state: str
    """`starting`, `running`, `draining` or `stopped`."""
    started_at: float
    updated_at: float
    adapters: tuple[AdapterState, ...] = ()
    waiting_in: int = 0
    """Messages that wait for a worker."""
    waiting_out: int = 0
    unreadable_in: int = 0
    """Messages that are damaged in the store and cannot be answered."""
    turns: int = 0
    """Number of running turns."""
    last_in: float | None = None
    last_out: float | None = None
    cron: str = ""
    """State of the scheduled jobs in a few words."""
    troubles: tuple[str, ...] = ()
    """Problems that do not concern a platform."""


def write_state(root: Path, state: GatewayState) -> None:
    path = root / STATE_FILE
    try:
        files.write_bytes(path, msgspec.json.encode(state) + b"\n", mode=0o600)
    except OSError as error:
        raise unusable(path, error) from error


def read_state(root: Path) -> GatewayState | None:
    """Return the last state that was written; None if there is none that can be read.

    It describes the running gateway only if the process id is the same.
    """
    path = root / STATE_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=GatewayState)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None
    except OSError as error:
        raise unusable(path, error) from error


START_SECONDS = 30.0
CONNECT_SECONDS = 15.0
OUTPUT = "gateway.out"
LAST_LINES = 8
LAST_BYTES = 4000


def start(home: Home, command: Sequence[str], *, seconds: float = START_SECONDS) -> Running:
    """Start the gateway in the background without a service manager, and return when its state file
    exists or `seconds` have passed.

    Its output goes to logs/gateway.out. Raises `HermesError` with the end of the output if the
    process ends.
    """
    ensure_hermes_home(home)
    output = home.logs / OUTPUT
    try:
        home.logs.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unusable(output, error) from error
    try:
        before = os.fstat(descriptor).st_size
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
            cwd="/",
            env={**variables(), "HERMES_HOME": str(home.root)},
        )
    finally:
        os.close(descriptor)
    return _wait(process, home, before, seconds)


def connected(
    root: Path, *, seconds: float = CONNECT_SECONDS, pause: Callable[[float], None] = time.sleep
) -> GatewayState | None:
    """Wait until each platform of a gateway that was just started is connected or has failed, for
    at most `seconds`.

    Returns its state; None if it has not written one, or is gone.
    """
    deadline = time.monotonic() + seconds
    seen = False
    while True:
        found, state = running(root), read_state(root)
        said = state if found and state and state.pid == found.pid else None
        settled = said is not None and said.state != "starting" and not _connecting(said)
        if settled or (seen and found is None) or time.monotonic() >= deadline:
            return said
        seen = found is not None
        pause(PAUSE)


def _connecting(state: GatewayState) -> bool:
    return any(each.state in ("connecting", "stopped") for each in state.adapters)


def _wait(process: subprocess.Popen[bytes], home: Home, before: int, seconds: float) -> Running:
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        found = running(home.root)
        state = read_state(home.root)
        ready = state is not None and found is not None and state.pid == found.pid
        late = time.monotonic() >= deadline
        if found is not None and (ready or late):
            process.returncode = 0  # detach: Popen must not wait for it
            return found
        if late:
            break
        time.sleep(PAUSE)
    place = tilde(home.logs / OUTPUT)
    said = _last_words(home, before)
    raise HermesError(f"the gateway did not start{said}", hint=f"more is in {place}")


def _last_words(home: Home, before: int) -> str:
    with (home.logs / OUTPUT).open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(before, file.tell() - LAST_BYTES))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
    told = [line for line in lines if line][-LAST_LINES:]
    return f": {' / '.join(told)}" if told else ""


def this_process() -> str:
    return f"{this_machine()}:{os.getpid()}:{process_began(os.getpid())}"


def dead_owners(owners: tuple[str, ...]) -> tuple[str, ...]:
    """Return the owners on this machine whose process is gone. Nothing is known about other
    machines."""
    return tuple(owner for owner in owners if _is_dead(owner))


def _is_dead(owner: str) -> bool:
    host, _, rest = owner.partition(":")
    pid, _, began = rest.partition(":")
    return (
        host == this_machine() and pid.isdecimal() and process_began(int(pid)) not in (began, None)
    )
