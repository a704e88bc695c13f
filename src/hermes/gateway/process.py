"""The gateway process of a home: PID file and lock, state file, start and stop.

A process claims the home with a lock that the system releases when the process ends, and describes
itself in `gateway.pid`. Because process ids are reused, the file also holds the start time of the
process.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from hermes.config.environment import variables
from hermes.config.home import Home, ensure_hermes_home, tilde, unusable
from hermes.core.errors import HermesError
from hermes.util import files
from hermes.util.processes import process_began
from hermes.util.text import human_size

T = TypeVar("T")
PID_FILE = "gateway.pid"
LOCK_FILE = "gateway.lock"
REPLACE_HINT = "`hermes gateway run --replace` takes its place; `hermes gateway stop` ends it"
KNOWN_FOLDER = Path(".local") / "state" / "hermes" / "gateways"
"""Folder in the user's home with a link for each home that had a gateway (`stop --all`)."""


class GatewayProcess(msgspec.Struct, frozen=True):
    """The process in `gateway.pid`."""

    pid: int
    began: str  #: Start of the process as the system counts it; see `process_began`.
    started_at: float  #: Start of the process in seconds since 1970.
    home: str
    version: str = ""


class AlreadyRunning(HermesError):
    """Another process is the gateway of this home."""


@contextlib.contextmanager
def claim_home(home: Home, *, now: float, version: str = "") -> Iterator[GatewayProcess]:
    """Be the gateway of `home` inside the block. Raises `AlreadyRunning`."""
    root = ensure_hermes_home(home)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(files.file_lock(root / LOCK_FILE, 0))
        except TimeoutError:
            other = running_gateway(home.root)
            who = f" (process {other.pid})" if other else ""
            raise AlreadyRunning(
                f"the gateway of {home.display()} is running already{who}", hint=REPLACE_HINT
            ) from None
        me = GatewayProcess(os.getpid(), process_began(os.getpid()) or "", now, str(root), version)
        _write(root / PID_FILE, me)
        _remember(root)
        try:
            yield me
        finally:
            (root / PID_FILE).unlink(missing_ok=True)


def running_gateway(root: Path) -> GatewayProcess | None:
    """Return the running gateway of a home folder; files left by a crash do not count."""
    found = _read(root / PID_FILE, GatewayProcess)
    return found if found and found.pid > 0 and not is_gone(found) else None


def running_gateways(home: Home) -> list[GatewayProcess]:
    """Return every gateway of this user: of all profiles, and of other homes that had one."""
    root = home.default_root
    roots = [home.root, root, *sorted((root / "profiles").glob("*"))]
    with contextlib.suppress(OSError):
        links = (Path.home() / KNOWN_FOLDER).iterdir()
        roots += sorted(link.readlink() for link in links if link.is_symlink())
    found = {each.pid: each for folder in roots if (each := running_gateway(folder))}
    return list(found.values())


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None  # the file is written atomically, so another program must have damaged it
    except OSError as error:
        raise unusable(path, error) from error


def _write(path: Path, value: object) -> None:
    try:
        files.write_bytes(path, msgspec.json.encode(value) + b"\n", mode=0o600)
    except OSError as error:
        raise unusable(path, error) from error


def _remember(root: Path) -> None:
    """Record the home for `stop --all`. A folder that is not writable must not stop the gateway."""
    with contextlib.suppress(OSError, RuntimeError):
        known = Path.home() / KNOWN_FOLDER
        known.mkdir(mode=0o700, parents=True, exist_ok=True)
        for link in known.iterdir():
            if link.is_symlink() and not link.exists():
                link.unlink(missing_ok=True)
        link = known / hashlib.sha256(str(root).encode()).hexdigest()[:16]
        if not link.is_symlink():
            link.symlink_to(root)


PAUSE = 0.05
KILL_SECONDS = 10.0


def stop_gateway(
    found: GatewayProcess,
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
    for number, limit in ((signal.SIGTERM, seconds), (signal.SIGKILL, KILL_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            if not is_gone(found):
                os.kill(found.pid, number)
        deadline = time.monotonic() + limit
        while not is_gone(found) and time.monotonic() < deadline:
            pause(PAUSE)
        if is_gone(found) or not force:
            break
    return is_gone(found)


def is_gone(found: GatewayProcess) -> bool:
    return process_began(found.pid) != found.began


STATE_FILE = "gateway_state.json"


class AdapterState(msgspec.Struct, frozen=True):
    platform: str
    state: str
    """`connected`, `connecting`, `waiting` (for its next attempt), `failed`, `stopped`, or
    `incomplete`: not tried, because some of its variables are missing."""
    account: str = ""
    detail: str = ""  #: Why it is not connected; if it is, the address where it listens.
    hint: str = ""  #: How to fix the problem.
    since: float = 0.0
    last_in: float | None = None
    last_out: float | None = None
    waiting_out: int = 0  #: Messages that wait to be sent there.


class ReadinessProblem(msgspec.Struct, frozen=True):
    """Why a gateway that runs cannot do its work now."""

    part: str  #: `store`, `disk`, `shutdown`, or a platform, as `platform:telegram`.
    reason: str
    hint: str = ""  #: How to fix it.


def disk_problem(root: Path, min_free_mb: int) -> ReadinessProblem | None:
    """Return what is wrong with the disk of a home; None if it has enough space."""
    try:
        free = shutil.disk_usage(root).free
    except OSError as error:
        return ReadinessProblem("disk", f"the disk of {tilde(root)} cannot be read: {error}")
    if free >= min_free_mb * 1_000_000:
        return None
    reason = f"only {human_size(free)} is left on the disk of {tilde(root)}"
    return ReadinessProblem("disk", reason, "free some space, or lower gateway.min_free_mb")


class GatewayState(msgspec.Struct, frozen=True):
    pid: int
    state: str  #: `starting`, `running`, `draining` or `stopped`.
    started_at: float
    updated_at: float
    adapters: tuple[AdapterState, ...] = ()
    waiting_in: int = 0  #: Messages that wait for a worker.
    waiting_out: int = 0
    unreadable_in: int = 0  #: Messages that are damaged in the store and cannot be answered.
    turns: int = 0  #: Number of running turns.
    last_in: float | None = None
    last_out: float | None = None
    cron: str = ""  #: State of the scheduled jobs in a few words.
    troubles: tuple[str, ...] = ()  #: Problems that do not concern a platform.
    problems: tuple[ReadinessProblem, ...] = ()  #: Empty while it is ready.


def write_state(root: Path, state: GatewayState) -> None:
    _write(root / STATE_FILE, state)


def read_state(root: Path) -> GatewayState | None:
    """Return the last state, of the running gateway if the process id is the same; None if there is
    none that can be read."""
    return _read(root / STATE_FILE, GatewayState)


START_SECONDS = 30.0
CONNECT_SECONDS = 15.0
OUTPUT = "gateway.out"
LAST_LINES = 8
LAST_BYTES = 4000
UNSETTLED = frozenset({"connecting", "stopped"})
"""States of a platform that is still being connected."""


def start_in_background(
    home: Home, command: Sequence[str], *, seconds: float = START_SECONDS
) -> GatewayProcess:
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
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        found, state = running_gateway(home.root), read_state(home.root)
        late = time.monotonic() >= deadline
        if found is not None and (late or (state is not None and state.pid == found.pid)):
            process.returncode = 0  # detach: Popen must not wait for it
            return found
        if late:
            break
        time.sleep(PAUSE)
    with output.open("rb") as file:
        file.seek(max(before, output.stat().st_size - LAST_BYTES))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
    end = " / ".join([line for line in lines if line][-LAST_LINES:])
    raise HermesError(
        f"the gateway did not start{end and f': {end}'}", hint=f"more is in {tilde(output)}"
    )


def wait_connected(
    root: Path, *, seconds: float = CONNECT_SECONDS, pause: Callable[[float], None] = time.sleep
) -> GatewayState | None:
    """Wait until each platform of a gateway that was just started is connected or has failed, for
    at most `seconds`.

    Returns its state; None if it has not written one, or is gone.
    """
    deadline = time.monotonic() + seconds
    seen = False
    while True:
        found, state = running_gateway(root), read_state(root)
        state = state if found and state and state.pid == found.pid else None
        open_states = {each.state for each in state.adapters} if state else set()
        settled = state and state.state != "starting" and not open_states & UNSETTLED
        if settled or (seen and found is None) or time.monotonic() >= deadline:
            return state
        seen = found is not None
        pause(PAUSE)
