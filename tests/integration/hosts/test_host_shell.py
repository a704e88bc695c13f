"""A shell on a host behaves as the local one, whatever programs the host has."""

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import BackendUnavailable, Interrupted, ToolArgumentsInvalid, ToolError
from hermes.terminal import CommandResult, OutputLimits
from hermes.terminal.host.call import MarkedStream
from hermes.terminal.host.files import HostFiles
from hermes.terminal.host.shell import HostShell
from tests.integration.hosts.here_host import HereHost, programs

Run = Callable[..., Awaitable[CommandResult]]
Gone = Callable[[int], Awaitable[None]]


@pytest.fixture(params=["usual", "posix", "busybox"])
def host(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> HereHost:
    path = programs(request.param, tmp_path_factory.mktemp("p") / "bin", os.environ["PATH"])
    return HereHost({"PATH": path, "HOME": str(tmp_path)}, tmp_path, noise="welcome\n")


@pytest.fixture
async def shell(host: HereHost) -> AsyncIterator[HostShell]:
    shell = HostShell(host)
    shell.export({"GIVEN": "it's given"})
    yield shell
    await shell.close()


def runner(shell: HostShell) -> Run:
    async def run(command: str, **options: Any) -> CommandResult:
        settings = {"timeout": 60, "on_output": lambda _text: None, "cancel": CancelToken()}
        return await shell.run(command, **{**settings, **options})

    return run


@pytest.fixture
def run(shell: HostShell) -> Run:
    return runner(shell)


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[HostShell]:
    """For what does not depend on the programs there."""
    shell = HostShell(HereHost({"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, tmp_path))
    yield shell
    await shell.close()


def number(path: Path) -> int:
    return int(path.read_text())


async def test_output_and_exit_codes(run: Run) -> None:
    result = await run("echo one; echo two >&2; echo three")
    assert (result.output, result.exit_code) == ("one\ntwo\nthree\n", 0)
    assert (await run("exit 3")).exit_code == 3
    assert (await run("exit 97")).exit_code == 97
    assert (await run("no-such-program")).exit_code == 127
    killed = await run("kill -9 $$")
    assert (killed.exit_code, killed.output) == (137, "")
    assert (await run("kill 0; sleep 600")).exit_code == 143
    assert (await run("echo on")).output == "on\n"


async def test_folder_and_variables_last(run: Run, shell: HostShell, tmp_path: Path) -> None:
    assert (await run('pwd; echo "$GIVEN"')).output == f"{tmp_path}\nit's given\n"
    await run("mkdir sub; cd sub; export GREETING='hello\nit'\"'\"'s \"me\" $x'; LOCAL=1; exit 4")
    assert shell.cwd == str(tmp_path / "sub")
    result = await run('pwd; printf "%s|%s|%s" "$GREETING" "$LOCAL" "$GIVEN"; cd - >/dev/null')
    assert result.output == f"{tmp_path}/sub\nhello\nit's \"me\" $x||it's given"
    assert shell.cwd == str(tmp_path)
    await run("unset HOME")
    assert (await run('echo "[${HOME-none}]"')).output == "[none]\n"


@pytest.mark.parametrize("command", ["if then", 'echo "open', "done"])
async def test_a_syntax_error_harms_nothing(run: Run, command: str) -> None:
    await run("export KEPT=yes; cd /")
    broken = await run(command)
    assert broken.exit_code != 0
    assert "hermes-shell" not in broken.output
    assert (await run("echo $KEPT $PWD")).output == "yes /\n"


async def test_state_is_kept_whatever_a_command_does_to_its_shell(run: Run) -> None:
    await run("set -euC; printf() { :; }; cat() { :; }; cd /; false")
    assert (await run("pwd; echo still")).output == "/\nstill\n"
    assert (await run("cd /usr; exec echo bye")).output == "bye\n"
    await run("export PATH=/nowhere")
    assert (await run("echo $PATH; cd /usr")).output == "/nowhere\n"
    assert (await run("pwd")).output == "/usr\n"


async def test_a_folder_for_one_command_does_not_stay(run: Run, tmp_path: Path) -> None:
    assert (await run("pwd; cd /usr", cwd="/")).output == "/\n"
    (tmp_path / "sub dir").mkdir()
    assert (await run("pwd", cwd="~/sub dir")).output == f"{tmp_path}/sub dir\n"
    assert (await run("pwd; cd 'sub dir'; rmdir '../sub dir'")).output == f"{tmp_path}\n"
    assert (await run("pwd")).output == f"{tmp_path}\n"
    with pytest.raises(ToolError, match="nowhere does not exist"):
        await run("pwd", cwd="nowhere")


async def test_input_is_empty_and_bytes_are_text(run: Run) -> None:
    assert (await run("cat; read -r line || echo none")).output == "none\n"
    assert (await run(r"printf 'a\377\303\251\1'")).output == "a�é\x01"
    assert (await run("printf '%s' '\udce9' | wc -c")).output.strip() == "1"


async def test_a_long_command_is_no_problem(run: Run) -> None:
    text = "x" * 1_100_000
    assert (await run(f"cat <<'EOF' | wc -c\n{text}\nEOF")).output.strip() == "1100001"


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"])
async def test_a_command_that_is_no_text_is_refused(plain: HostShell, command: str) -> None:
    with pytest.raises(ToolArgumentsInvalid):
        await runner(plain)(command)


async def test_output_is_shown_while_the_command_runs(run: Run, tmp_path: Path) -> None:
    shown: list[str] = []

    def show(text: str) -> None:
        shown.append(text)
        (tmp_path / "go").touch()

    # The command ends only after its first line was shown.
    result = await run(
        "echo first; until [ -e go ]; do sleep 0.01; done; echo last", on_output=show
    )
    assert "".join(shown) == result.output == "first\nlast\n"


async def test_a_command_that_prints_forever_is_bounded_and_stopped(host: HereHost) -> None:
    shell = HostShell(host, limits=OutputLimits(1_000, 100, 100))
    result = await runner(shell)("while :; do echo y; done", timeout=0.5)
    assert (result.timed_out, result.truncated, result.exit_code) == (True, True, 124)
    assert len(result.output) < 1_200
    await shell.close()


async def test_a_timeout_ends_all_of_it_and_keeps_the_output(
    run: Run, gone: Gone, tmp_path: Path
) -> None:
    command = "trap '' TERM; echo early; (sleep 600 & echo $! > pid; wait) & sleep 600; sleep 600"
    result = await run(command, timeout=0.5)
    assert (result.timed_out, result.exit_code, result.output) == (True, 124, "early\n")
    await gone(number(tmp_path / "pid"))


async def test_cancel_stops_the_command(run: Run, gone: Gone, tmp_path: Path) -> None:
    cancel = CancelToken()

    def stop(_text: str) -> None:
        cancel.cancel("enough")

    command = "echo $$ > pid; echo ready; sleep 600; touch finished"
    with pytest.raises(Interrupted, match="enough"):
        await run(command, cancel=cancel, on_output=stop)
    await gone(number(tmp_path / "pid"))
    assert not (tmp_path / "finished").exists()
    assert (await run("echo on")).output == "on\n"


async def test_a_cancel_at_once_leaves_nothing(plain: HostShell, tmp_path: Path) -> None:
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


async def test_leftover_background_processes_live_until_close(
    run: Run, shell: HostShell, gone: Gone, tmp_path: Path
) -> None:
    # It goes on writing to the output of the finished call, which must not kill it.
    loop = "while :; do echo noise; sleep 0.01; [ -e stop ] && touch stopped && break; done"
    result = await run(f"({loop}; sleep 600) & echo $! > pid; echo started")
    assert "started" in result.output
    await run("touch stop; until [ -e stopped ]; do sleep 0.01; done")
    assert psutil.pid_exists(number(tmp_path / "pid"))
    for _ in range(6):
        await run("sleep 600 & :")
    await shell.close()
    await gone(number(tmp_path / "pid"))


async def test_nothing_is_left_on_the_host(host: HereHost, tmp_path: Path) -> None:
    (tmp_path / "tmp dir").mkdir()
    host._environment["TMPDIR"] = f"{tmp_path}/tmp dir"
    shell = HostShell(host)
    assert (await runner(shell)("export A=1; cd /")).exit_code == 0
    assert (await runner(shell)("echo $A $PWD")).output == "1 /\n"
    (folder,) = (tmp_path / "tmp dir").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    await shell.close()
    assert not list((tmp_path / "tmp dir").iterdir())


async def test_a_program_in_the_background_with_input(
    run: Run, shell: HostShell, tmp_path: Path
) -> None:
    await run("export A=1; cd /")
    output = bytearray()
    command = "echo $A $PWD; read -r line; echo got $line; cat; echo err >&2; cd /usr; exit 5"
    started = await shell.start(command, on_output=output.extend)
    assert started.exit_code is None
    await started.write(b"hello\n")
    await started.write(b"more\n\0\xff")
    await started.close_input()
    assert await started.wait() == started.exit_code == 5
    assert output == b"1 /\ngot hello\nmore\n\0\xfferr\n"
    with pytest.raises(ToolError, match="no input"):
        await started.write(b"x")
    assert (await run("pwd")).output == "/\n"


async def test_programs_in_the_background_can_be_stopped(
    run: Run, shell: HostShell, gone: Gone, tmp_path: Path
) -> None:
    started = await shell.start(
        "trap '' TERM; echo $$ > pid; sleep 600; sleep 600", on_output=len, cwd="."
    )
    while not (tmp_path / "pid").exists():
        await asyncio.sleep(0.01)
    await started.stop()
    # On a slow machine our end is let go of before the report of the kill has come.
    assert started.exit_code in {137, 143}
    await gone(number(tmp_path / "pid"))
    ready = asyncio.Event()
    other = await shell.start(
        "sleep 600 & echo $! > other; echo ready; wait", on_output=lambda _data: ready.set()
    )
    await ready.wait()
    await shell.close()
    assert await other.wait() != 0
    await gone(number(tmp_path / "other"))


async def test_a_command_does_not_begin_while_the_shell_is_closed(
    plain: HostShell, tmp_path: Path
) -> None:
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


async def test_the_end_of_a_program_is_not_held_up_by_what_it_left(shell: HostShell) -> None:
    output = bytearray()
    started = await shell.start("sleep 600 & echo done; exit 4", on_output=output.extend)
    assert await started.wait() == 4
    assert output == b"done\n"


async def test_a_terminal(shell: HostShell) -> None:
    output = bytearray()
    command = "[ -t 0 ] && stty size; echo $TERM; read -r line; echo got $line; exit 3"
    started = await shell.start(command, on_output=output.extend, pty=True)
    await started.write(b"hello\n")
    assert await started.wait() == 3
    assert b"40 120\r\nxterm-256color\r\n" in output
    assert b"got hello\r\n" in output
    assert b"hermes" not in output


async def test_a_program_in_a_terminal_is_stopped(
    plain: HostShell, gone: Gone, tmp_path: Path
) -> None:
    started = await plain.start(
        "trap '' TERM; echo $$ > pid; sleep 600; sleep 600", on_output=len, pty=True
    )
    while not (tmp_path / "pid").exists():
        await asyncio.sleep(0.01)
    await started.stop()
    assert started.exit_code
    await gone(number(tmp_path / "pid"))


async def test_commands_wait_for_each_other(plain: HostShell, tmp_path: Path) -> None:
    run = runner(plain)
    await asyncio.gather(*(run(f"echo {n}a >> log; sleep 0.05; echo {n}b >> log") for n in "12"))
    assert (tmp_path / "log").read_text() in ("1a\n1b\n2a\n2b\n", "2a\n2b\n1a\n1b\n")


async def test_a_host_that_was_closed_is_opened_again_with_all_as_it_was(
    host: HereHost, tmp_path: Path
) -> None:
    shell = HostShell(host, lifetime=0.2)
    run = runner(shell)
    await run("export A=1; cd /usr; sleep 600 & :")
    while not host.closed:
        await asyncio.sleep(0.02)
    assert (await run("echo $A $PWD")).output == "1 /usr\n"
    assert host.opened == 2
    await shell.close()


async def test_a_host_at_work_is_not_closed(plain: HostShell, tmp_path: Path) -> None:
    host = HereHost({"PATH": os.environ["PATH"]}, tmp_path)
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


async def test_killed_supervisor_is_replaced_and_takes_over_its_processes(
    plain: HostShell, gone: Gone, tmp_path: Path
) -> None:
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


async def test_lost_connection_is_reported_and_reopened(plain: HostShell, tmp_path: Path) -> None:
    run = runner(plain)
    await run("export A=1")
    host = plain._host
    assert isinstance(host, HereHost)
    losing = asyncio.ensure_future(run("touch ready; sleep 600"))
    while not (tmp_path / "ready").exists():
        await asyncio.sleep(0.01)
    host.cut()
    with pytest.raises(BackendUnavailable, match="was lost") as caught:
        await losing
    assert "try again" in caught.value.hint
    assert (await run("echo $A")).output == "1\n"


async def test_half_a_command_is_not_run(tmp_path: Path) -> None:
    class Cutting(HereHost):
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


async def test_host_without_a_shell_is_reported(tmp_path: Path) -> None:
    host = HereHost({"PATH": "/nowhere"}, tmp_path)
    with pytest.raises(BackendUnavailable, match="no shell can be started"):
        await runner(HostShell(host))("true")
    await host.close()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
def test_marks_are_found_however_the_stream_is_cut(size: int) -> None:
    mark, found = b"\x01mark\x01", bytearray()
    stream = b"noise\x01ma" + mark + b"a\x01mar" + b"\x01\x01b\x01" + mark + b"rest"
    marked = MarkedStream(mark, found.extend)
    for start in range(0, len(stream), size):
        marked.feed(stream[start : start + size])
    assert (bytes(found), bytes(marked.after)) == (b"a\x01mar\x01\x01b\x01", b"rest")
    assert marked.ended
