"""What only the shell of a host has: a supervisor, idle close and lost connections."""

import asyncio
import os
import shlex
from pathlib import Path

import psutil
import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import BackendUnavailable, Interrupted, ToolError
from hermes.terminal.host_files import HostFiles
from hermes.terminal.host_shell import HostShell, MarkedStream
from tests.integration.hosts.machine_host import MachineHost, programs, runner


@pytest.fixture(params=["usual", "posix", "busybox"])
def host(request, tmp_path, tmp_path_factory):
    path = programs(request.param, tmp_path_factory.mktemp("p") / "bin", os.environ["PATH"])
    return MachineHost({"PATH": path, "HOME": str(tmp_path)}, tmp_path, noise="welcome\n")


@pytest.fixture
async def plain(tmp_path):
    """For what does not depend on the programs there."""
    shell = HostShell(MachineHost({"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, tmp_path))
    yield shell
    await shell.close()


def number(path: Path) -> int:
    return int(path.read_text())


async def test_a_cancel_at_once_leaves_nothing(plain, tmp_path):
    """Also when the command is not yet known to the keeper."""
    await runner(plain)("true")
    for turns in (1, 3, 10, 30):
        cancel = CancelToken()
        running = asyncio.ensure_future(
            runner(plain)("exec sleep 601.25", cancel=cancel, timeout=600)
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        cancel.cancel("enough")
        with pytest.raises(Interrupted):
            await running
    while [p for p in psutil.process_iter(["cmdline"]) if "601.25" in (p.info["cmdline"] or [])]:
        await asyncio.sleep(0.02)


async def test_nothing_is_left_on_the_host(host, tmp_path):
    (tmp_path / "tmp dir").mkdir()
    host._environment["TMPDIR"] = f"{tmp_path}/tmp dir"
    shell = HostShell(host)
    assert (await runner(shell)("export A=1; cd /")).exit_code == 0
    assert (await runner(shell)("echo $A $PWD")).output == "1 /\n"
    (folder,) = (tmp_path / "tmp dir").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    await shell.close()
    assert not list((tmp_path / "tmp dir").iterdir())


async def test_a_command_does_not_begin_while_the_shell_is_closed(plain, tmp_path):
    """Something that takes its time to end keeps the keeper busy meanwhile."""
    for turns in (1, 3, 10, 30):
        stubborn = await plain.start("trap '' TERM; sleep 600; sleep 600", on_output=len)
        late = await plain.start("sleep 602.25", on_output=len)
        for _ in range(turns):
            await asyncio.sleep(0)
        await plain.close()
        assert await late.wait() != 0
        assert await stubborn.wait() != 0
    while [p for p in psutil.process_iter(["cmdline"]) if "602.25" in (p.info["cmdline"] or [])]:
        await asyncio.sleep(0.02)


async def test_a_program_in_a_terminal_is_stopped(plain, gone, tmp_path):
    started = await plain.start(
        "trap '' TERM; echo $$ > pid; sleep 600; sleep 600", on_output=len, pty=True
    )
    while not (tmp_path / "pid").exists():
        await asyncio.sleep(0.01)
    await started.stop()
    assert started.exit_code
    await gone(number(tmp_path / "pid"))


async def test_a_host_that_was_closed_is_opened_again_with_all_as_it_was(host, tmp_path):
    shell = HostShell(host, lifetime=0.2)
    run = runner(shell)
    await run("export A=1; cd /usr; sleep 600 & :")
    while not host.closed:
        await asyncio.sleep(0.02)
    assert (await run("echo $A $PWD")).output == "1 /usr\n"
    assert host.opened == 2
    await shell.close()


async def test_a_host_at_work_is_not_closed(plain, tmp_path):
    host = MachineHost({"PATH": os.environ["PATH"]}, tmp_path)
    shell = HostShell(host, lifetime=0.1)
    started = await shell.start("read -r line; exit 7", on_output=len)
    await asyncio.sleep(0.3)
    assert not host.closed
    await started.write(b"\n")
    assert await started.wait() == 7
    while not host.closed:
        await asyncio.sleep(0.02)
    files = HostFiles(host, shell)
    assert await files.names(str(tmp_path)) == []
    assert host.opened == 2
    while host.closed < 2:
        await asyncio.sleep(0.02)
    await shell.close()


async def test_killed_supervisor_is_replaced_and_takes_over_its_processes(plain, gone, tmp_path):
    run = runner(plain)
    await run("export A=1; sleep 600 & echo $! > pid")
    keeper = plain._session
    assert keeper is not None
    assert keeper._running.pid is not None
    psutil.Process(keeper._running.pid).kill()
    await keeper._running.wait()
    assert (await run("echo $A")).output == "1\n"
    await plain.close()
    await gone(number(tmp_path / "pid"))
    assert not Path(keeper.folder).exists()


async def test_lost_connection_is_reported_and_reopened(plain, tmp_path):
    run = runner(plain)
    await run("export A=1")
    host = plain._host
    assert isinstance(host, MachineHost)
    losing = asyncio.ensure_future(run("touch ready; sleep 600"))
    while not (tmp_path / "ready").exists():
        await asyncio.sleep(0.01)
    host.cut()
    with pytest.raises(BackendUnavailable, match="was lost") as caught:
        await losing
    assert "try again" in caught.value.hint
    assert (await run("echo $A")).output == "1\n"


async def test_half_a_command_is_not_run(tmp_path):
    class Cutting(MachineHost):
        """The connection breaks while a command is sent."""

        async def start(self, argv, **options):
            running = await super().start(argv, **options)
            whole = running.write
            running.write = lambda data: whole(data.replace(b"/tmp/x", b""))
            return running

    host = Cutting({"PATH": os.environ["PATH"]}, tmp_path)
    shell = HostShell(host)
    with pytest.raises(ToolError, match="was not run"):
        await runner(shell)(f"touch {shlex.quote(str(tmp_path / 'done'))} /tmp/x")
    assert not (tmp_path / "done").exists()
    await shell.close()


async def test_host_without_a_shell_is_reported(tmp_path):
    host = MachineHost({"PATH": "/nowhere"}, tmp_path)
    with pytest.raises(BackendUnavailable, match="no shell can be started"):
        await runner(HostShell(host))("true")
    await host.close()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
def test_marks_are_found_however_the_stream_is_cut(size):
    mark, found = b"\x01mark\x01", bytearray()
    stream = b"noise\x01ma" + mark + b"a\x01mar" + b"\x01\x01b\x01" + mark + b"rest"
    marked = MarkedStream(mark, found.extend)
    for start in range(0, len(stream), size):
        marked.feed(stream[start : start + size])
    assert (bytes(found), bytes(marked.after)) == (b"a\x01mar\x01\x01b\x01", b"rest")
    assert marked.ended
