"""Ending a gateway from outside, and waiting until it is gone."""

import contextlib
import os
import signal
import time
from collections.abc import Callable

from hermes.gateway.process.pid_file import Running
from hermes.util.machine import process_began

PAUSE = 0.05


def stop(
    found: Running,
    *,
    seconds: float,
    force: bool = False,
    pause: Callable[[float], None] = time.sleep,
) -> bool:
    """Ask a gateway to end; whether it is gone. It ends running turns first, which `seconds` must
    allow for. With `force` it is killed after that: nothing is lost, since all it has is on disk.
    Raises PermissionError when it belongs to somebody else."""
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
