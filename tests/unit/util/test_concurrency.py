"""Blocking work outside the event loop."""

import asyncio
import threading

import pytest

from hermes.util.concurrency import in_thread


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
