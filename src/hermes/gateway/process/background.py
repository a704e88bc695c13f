"""Starting the gateway in the background, without a service manager."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hermes.config.environment import variables
from hermes.config.home import Home, ensure_hermes_home, tilde, unusable
from hermes.core.errors import HermesError
from hermes.gateway.process.pid_file import Running, running
from hermes.gateway.process.state_file import GatewayState, read_state

START_SECONDS = 30.0
CONNECT_SECONDS = 15.0
PAUSE = 0.05
OUTPUT = "gateway.out"
LAST_LINES = 8
LAST_BYTES = 4000


def start(home: Home, command: Sequence[str], *, seconds: float = START_SECONDS) -> Running:
    """Start it, and return when it is there: its state says so, or `seconds` have passed. What it
    prints goes to logs/gateway.out. Raises `HermesError` with its last words when it ends."""
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
    """What a gateway that was just started says of its platforms, once each is connected or has
    failed, or when `seconds` have passed; None when it has said nothing, or is gone."""
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
            process.returncode = 0  # it goes on without us
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
