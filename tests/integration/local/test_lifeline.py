"""Nothing outlives this process: process families and the lifeline."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from hermes.terminal.local.lifeline import (
    ProcessEntry,
    _from_proc,
    _from_psutil,
    _send_signal,
    process_family,
    stop_family,
)
from tests.cases import cases

CASES = cases(__file__)

AGENT = CASES["agent"]


def start_agent(folder: Path, scratch: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", AGENT, str(folder)],
        env={"TMPDIR": str(scratch), "PYTHONPATH": ":".join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_killed_parent_leaves_no_orphan_and_no_file(number, tmp_path, gone):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    agent = start_agent(tmp_path, scratch)
    names = ("background", "child", "shell")
    while not all((tmp_path / name).exists() and (tmp_path / name).read_text() for name in names):
        assert agent.poll() is None
        await anyio.sleep(0.02)
    agent.send_signal(number)
    await anyio.to_thread.run_sync(agent.wait)
    for name in names:
        await gone(int((tmp_path / name).read_text()))
    while list(scratch.iterdir()):
        await anyio.sleep(0.02)


@pytest.fixture
def parent() -> Iterator["subprocess.Popen[bytes]"]:
    """A shell whose name in /proc is hard to read, with a child in a session of its own."""
    script = "echo ') Z 1 1' >/proc/$$/comm; setsid sh -c 'echo $$; exec sleep 600' & wait"
    process = subprocess.Popen(
        ["bash", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    )
    yield process
    for member in process_family(process.pid):
        os.kill(member.pid, 9)
    process.communicate()


def child_of(parent: "subprocess.Popen[bytes]") -> int:
    assert parent.stdout is not None
    return int(parent.stdout.readline())


def test_a_child_in_a_session_of_its_own_belongs_to_the_family(parent):
    child = child_of(parent)
    assert {member.pid for member in process_family(parent.pid)} == {parent.pid, child}


def test_both_ways_of_looking_see_the_same(parent: "subprocess.Popen[bytes]") -> None:
    pids = {parent.pid, child_of(parent), os.getpid()}
    seen = [
        {(each.pid, each.parent, each.group, each.is_zombie) for each in look() if each.pid in pids}
        for look in (_from_proc, _from_psutil)
    ]
    assert seen[0] == seen[1]
    assert len(seen[0]) == 3


def test_a_number_that_now_belongs_to_another_process_is_not_taken_for_the_old_one(parent):
    child_of(parent)
    (me,) = [each for each in _from_proc() if each.pid == os.getpid()]
    assert me in process_family(parent.pid, [me])
    earlier = type(me)(me.pid, me.parent, me.group, me.is_zombie, me.started - 1)
    assert earlier not in process_family(parent.pid, [earlier])
    assert me not in process_family(parent.pid, [earlier])


@pytest.fixture
def stubborn() -> "subprocess.Popen[bytes]":
    script = "trap '' TERM; echo ready; while :; do sleep 600; done"
    process = subprocess.Popen(
        ["bash", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


async def test_a_second_cancellation_kills_at_once(stubborn: "subprocess.Popen[bytes]") -> None:
    stopping = asyncio.ensure_future(stop_family(stubborn.pid))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert stubborn.wait() == -9


async def test_stopping_an_ended_process_family_succeeds(stubborn):
    stubborn.kill()
    stubborn.wait()
    await stop_family(stubborn.pid)


def test_parents_hear_of_the_end_before_their_children(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = ProcessEntry(9_000_003, 1, 9_000_003, False, 1.0)
    child = ProcessEntry(9_000_001, shell.pid, 9_000_001, False, 2.0)
    told: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, _number: told.append(group))
    _send_signal(15, [shell, child], shell.pid)
    assert told == [shell.pid, child.pid]
