"""Child programs and the identity of processes."""

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hermes.util.processes import end_group, process_began, start_program, this_machine


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


async def test_process_runs_in_its_own_group_and_ends_with_it(tmp_path: Path, gone: Any) -> None:
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


def test_a_process_that_is_not_there_never_began() -> None:
    assert process_began(2**22 + 1) == ""
    assert process_began(os.getpid()) == process_began(os.getpid()) != ""
    assert process_began(1) != process_began(os.getpid())


def test_zombie_process_counts_as_gone() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        began = process_began(process.pid)
        assert process.stdin is not None
        process.stdin.close()  # now it ends
        while process_began(process.pid) == began:
            time.sleep(0.01)
        assert process_began(process.pid) == ""


def test_process_of_another_user_may_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(path: Path, *_: object, **__: object) -> str:
        if path.match("/proc/*/stat"):
            raise FileNotFoundError(path)
        return "boot"

    def refused(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", hidden)
    assert process_began(2**22 + 1) == ""
    monkeypatch.setattr(os, "kill", refused)
    assert process_began(2**22 + 1) is None


def test_the_name_of_this_machine_stays() -> None:
    assert this_machine() == this_machine()
    assert ":" not in this_machine()
