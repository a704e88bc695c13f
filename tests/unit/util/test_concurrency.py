"""Blocking work outside the event loop."""

import asyncio
import threading
from pathlib import Path

import filelock
import pytest

from hermes.util.concurrency import file_lock, in_thread


async def test_the_result_or_the_exception_comes_back() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 1, 0)


async def test_a_function_that_never_returns_can_be_left() -> None:
    started, never = threading.Event(), threading.Event()

    def block() -> None:
        started.set()
        never.wait()

    task = asyncio.ensure_future(in_thread(block))
    while not started.is_set():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    never.set()


def test_lock_file_is_held_against_filelock_too(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    other = filelock.FileLock(path, timeout=0)
    with file_lock(path, 0), pytest.raises(filelock.Timeout):
        other.acquire()
    assert path.stat().st_mode & 0o777 == 0o600
    with (
        other,
        pytest.raises(TimeoutError, match="is locked by another process"),
        file_lock(path, 0),
    ):
        pass
    with file_lock(path, 0):
        pass
