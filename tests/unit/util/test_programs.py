"""Programs that are started, and stopped at an awkward moment."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from hermes.util.processes import end_group, start_program


def helper(folder: Path) -> str:
    """A program whose helper holds its pipes open."""
    program = folder / "program"
    program.write_text(
        f"#!/bin/sh\nsleep 300 &\necho $! > {folder}/part\nmv {folder}/part {folder}/pid\nwait\n"
    )
    program.chmod(0o700)
    return str(program)


async def test_cancelled_while_it_starts_nothing_is_left(tmp_path: Path, gone: Any) -> None:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    task = asyncio.create_task(start_program(helper(tmp_path), **pipes))
    for _ in range(3):
        await asyncio.sleep(0)
    while not (tmp_path / "pid").exists():
        time.sleep(0.01)  # noqa: ASYNC251 - the loop must not come to know that it has started
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(task), 30)
    await gone(int((tmp_path / "pid").read_text()))


async def test_it_runs_in_a_group_of_its_own_and_ends_with_it(tmp_path: Path, gone: Any) -> None:
    process = await start_program(helper(tmp_path), stdout=asyncio.subprocess.PIPE)
    while not (tmp_path / "pid").exists():
        await asyncio.sleep(0.01)
    end_group(process)
    assert await process.wait() == -9
    await gone(int((tmp_path / "pid").read_text()))
    end_group(process)


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await start_program(str(tmp_path / "missing"))
