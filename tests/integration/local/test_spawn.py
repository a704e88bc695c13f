"""Programs started on this machine: their streams, their terminal, their end."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from hermes.core.errors import ToolError
from hermes.terminal import Lifeline, Running, spawn
from hermes.terminal.base import load_script

Gone = Callable[[int], Awaitable[None]]
Start = Callable[..., Awaitable[Running]]


@pytest.fixture
async def lifeline() -> AsyncIterator[Lifeline]:
    lifeline = Lifeline()
    yield lifeline
    await lifeline.close()


@pytest.fixture
def printed() -> bytearray:
    return bytearray()


@pytest.fixture
def start(lifeline: Lifeline, printed: bytearray) -> Start:
    async def start(*argv: str, **options: Any) -> Running:
        settings = {
            "environment": {"PATH": os.environ["PATH"]},
            "on_output": printed.extend,
            "lifeline": lifeline,
        }
        return await spawn(argv, **{**settings, **options})

    return start


def bash(script: str) -> tuple[str, ...]:
    return ("bash", "-c", script)


async def line(printed: bytearray) -> bytes:
    while b"\n" not in printed:
        await asyncio.sleep(0.01)
    return bytes(printed)


async def test_output_and_errors_come_together_or_apart(start: Start, printed: bytearray) -> None:
    assert await (await start(*bash("echo one; echo two >&2"))).wait() == 0
    assert printed == b"one\ntwo\n"
    errors = bytearray()
    apart = await start(*bash("echo one; echo two >&2"), on_error=errors.extend)
    assert await apart.wait() == 0
    assert printed == b"one\ntwo\none\n"
    assert errors == b"two\n"


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -9 $$", 137)])
async def test_exit_code_is_reported(start: Start, script: str, code: int) -> None:
    program = await start(*bash(script))
    assert await program.wait() == code
    assert program.exit_code == code


async def test_a_program_that_is_not_there_ends_with_127(start: Start, printed: bytearray) -> None:
    assert await (await start("no-such-program")).wait() == 127
    assert b"no-such-program" in printed


async def test_program_gets_environment_folder_and_arguments_unchanged(start, printed, tmp_path):
    folder = tmp_path / "a b"
    folder.mkdir()
    program = await start(
        *bash('pwd; echo "$0|$1|$A|$HOME"'),
        "x y",
        "-n '$A'",
        environment={"A": "1\n2", "PATH": os.environ["PATH"]},
        cwd=str(folder),
    )
    assert await program.wait() == 0
    assert printed == f"{folder}\nx y|-n '$A'|1\n2|\n".encode()
    with pytest.raises(ToolError, match="does not exist"):
        await start("true", cwd=str(tmp_path / "nowhere"))


async def test_program_inherits_only_its_three_streams(start: Start, printed: bytearray) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    await (await start("ls", "/proc/self/fd")).wait()
    os.close(reading)
    os.close(writing)
    assert printed.split() == [b"0", b"1", b"2", b"3"]  # the last is the folder being listed


async def test_input_is_open_until_it_is_closed(start: Start, printed: bytearray) -> None:
    program = await start("cat")
    await program.write(b"first\n")
    assert await line(printed) == b"first\n"
    await program.write(b"second")
    await program.close_input()
    assert await program.wait() == 0
    assert printed == b"first\nsecond"
    with pytest.raises(ToolError, match="no input"):
        await program.write(b"more")


async def test_input_of_any_size_waits_for_the_program_to_take_it(start, printed):
    program = await start("wc", "-c")
    await program.write(b"x" * 1_000_000)
    await program.close_input()
    await program.wait()
    assert printed.strip() == b"1000000"


async def test_unread_write_fails_when_the_program_ends(start: Start) -> None:
    program = await start("sleep", "600")
    writing = asyncio.ensure_future(program.write(b"x" * 1_000_000))
    await asyncio.sleep(0.05)
    assert not writing.done()
    await program.stop()
    with pytest.raises(ToolError, match="no more input"):
        await writing


async def test_output_of_any_size_never_blocks_the_loop(start: Start) -> None:
    size = 0
    turns = 0

    def count(data: bytes) -> None:
        nonlocal size
        size += len(data)

    program = await start("head", "-c", "30000000", "/dev/zero", on_output=count)
    waiting = asyncio.ensure_future(program.wait())
    while not waiting.done():
        await asyncio.sleep(0)
        turns += 1
    assert size == 30_000_000
    assert turns > 100


async def test_a_child_that_keeps_the_output_open_does_not_hold_the_end(start, printed, gone):
    program = await start(*bash("sleep 600 & echo $!"))
    assert await program.wait() == 0
    pid = int(printed)
    assert psutil.pid_exists(pid)
    await program.stop()
    await gone(pid)


@pytest.mark.parametrize("pty", [False, True])
async def test_stop_ends_children_and_those_in_a_session_of_their_own(start, printed, gone, pty):
    script = "trap '' TERM HUP; sleep 600 & setsid sh -c 'echo $$; exec sleep 600' & wait; wait"
    program = await start(*bash(script), pty=pty)
    apart = int(await line(printed))
    assert program.pid is not None
    children = [child.pid for child in psutil.Process(program.pid).children(recursive=True)]
    assert apart in children
    await program.stop()
    assert program.exit_code is not None
    for pid in (program.pid, *children):
        await gone(pid)
    await program.stop()


async def test_a_daemon_that_left_the_tree_on_purpose_is_left_alone(start, printed):
    leave = "setsid sh -c 'sh -c \"echo \\$\\$; exec sleep 600 >/dev/null\" & exit'; sleep 600"
    program = await start(*bash(leave))
    daemon = psutil.Process(int(await line(printed)))
    while program.pid in [parent.pid for parent in daemon.parents()]:
        await asyncio.sleep(0.01)
    await program.stop()
    assert daemon.status() == psutil.STATUS_SLEEPING
    daemon.kill()


async def test_a_terminal_has_a_size_and_controls_the_program(start, printed):
    program = await start(*bash("tty -s && stty size </dev/tty; exec cat"), pty=True)
    assert await line(printed) == b"40 120\r\n"
    printed.clear()
    await program.write(b"hello\n")
    while printed.count(b"hello\r\n") < 2:  # the echo and the answer
        await asyncio.sleep(0.01)
    await program.close_input()
    assert await program.wait() == 0


async def test_ctrl_c_in_a_terminal_interrupts(start: Start, printed: bytearray) -> None:
    program = await start(*bash("echo ready; exec sleep 600"), pty=True)
    await line(printed)
    await program.write(b"\x03")
    assert await program.wait() == 130


async def test_all_output_of_a_terminal_arrives_before_the_end(start, printed):
    program = await start(*bash("seq 20000"), pty=True)
    assert await program.wait() == 0
    assert printed.split() == [b"%d" % n for n in range(1, 20_001)]


async def test_closing_the_lifeline_ends_what_runs(start: Start, gone: Gone) -> None:
    lifeline = Lifeline()
    program = await start(*bash("trap '' TERM; sleep 600; sleep 600"), lifeline=lifeline)
    await lifeline.close()
    assert await program.wait() == 137
    assert not lifeline.folder.exists()
    await lifeline.close()


async def test_closing_the_lifeline_leaves_the_threads_to_others(start, lifeline, printed):
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    await start(*bash("trap '' TERM; echo ready; sleep 60"))
    await line(printed)
    closing = asyncio.create_task(lifeline.close())
    await asyncio.sleep(0)
    await asyncio.to_thread(int)
    assert not closing.done()  # the program gets a second to end
    await closing


@pytest.mark.parametrize("ended", [True, False])
async def test_supervisor_looks_at_all_processes_only_if_a_group_is_left(tmp_path, ended):
    """A look takes time that grows with the number of processes, such as other sessions' shells."""
    script, group = load_script("local_supervisor"), 2**22 + 1  # no process has this number
    lines = f"+ {group}\n" + (f"- {group}\n" if ended else "")
    traced = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-x", "-c", script, "hermes-lifeline", str(tmp_path / "folder")),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _output, trace = await traced.communicate(lines.encode())
    assert (b"+ look" in trace) is not ended
    assert b"+ rm -rf" in trace


async def test_deleted_current_folder_does_no_harm(start, printed, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert await (await start(*bash("pwd"))).wait() == 0
    assert printed == b"/\n"


async def test_descriptors_are_given_back(start: Start) -> None:
    async def round_trip(pty: bool) -> None:
        await (await start("true", pty=pty)).wait()

    await round_trip(False)
    before = psutil.Process().num_fds()
    for pty in (False, True) * 3:
        await round_trip(pty)
    stopped = await start("sleep", "600")
    await stopped.stop()
    assert psutil.Process().num_fds() == before


async def test_a_system_without_pidfd_sees_the_end_too(start, printed, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    program = await start(*bash("echo x; exit 3"))
    assert await program.wait() == 3
    assert printed == b"x\n"


@pytest.mark.parametrize("wrong", [{"argv": "a\0b"}, {"environment": {"A=B": "c"}}])
async def test_invalid_arguments_are_reported(start: Start, wrong: dict[str, Any]) -> None:
    argument = wrong.pop("argv", "fine")
    with pytest.raises(ToolError, match="cannot be started"):
        await start("echo", argument, **wrong)
