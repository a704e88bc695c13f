"""Blocking work outside the event loop."""

import asyncio
import threading
from pathlib import Path

import pytest

from hermes.util.concurrency import in_thread
from hermes.util.files import file_lock


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


def test_lock_file_is_held_once(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    locked = pytest.raises(TimeoutError, match="is locked by another process")
    with file_lock(path, 0), locked, file_lock(path, 0):
        pass
    assert path.stat().st_mode & 0o777 == 0o600
    with file_lock(path, 0):
        pass
