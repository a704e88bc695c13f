"""Errors that nobody catches."""

import asyncio
import logging

import pytest

from hermes.tui.terminal_ui import LoopErrorHandler


async def test_each_is_told_once_and_logged_always(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopErrorHandler(told.append))
    for wrong in ("paint", "paint", "key"):
        loop.call_soon({}.__getitem__, wrong)
    loop.call_exception_handler({"message": "without an exception"})
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told == [
        "hermes: unexpected error: without an exception; for details: hermes logs errors",
        "hermes: unexpected error: KeyError('paint'); for details: hermes logs errors",
        "hermes: unexpected error: KeyError('key'); for details: hermes logs errors",
    ]
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len(errors) == 4
    assert errors[1].exc_info is not None
