"""The local shell and the shell of a host behave alike, whatever programs the host has."""

import asyncio
import os
from pathlib import Path

import psutil
import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolArgumentsInvalid, ToolError
from hermes.terminal import LocalShell, OutputLimits
from hermes.terminal.host_shell import HostShell
from tests.integration.hosts.machine_host import MachineHost, programs, runner

AnyShell = LocalShell | HostShell


@pytest.fixture(params=["local", "usual", "posix", "busybox"])
def make(request, tmp_path, tmp_path_factory):
    """Makes shells in `tmp_path`: of this machine, or of hosts with various programs."""
    if request.param == "local":
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        return lambda **options: LocalShell(environment, tmp_path, **options)
    path = programs(request.param, tmp_path_factory.mktemp("p") / "bin", os.environ["PATH"])
    host = MachineHost({"PATH": path, "HOME": str(tmp_path)}, tmp_path, noise="welcome\n")
    return lambda **options: HostShell(host, **options)


@pytest.fixture
async def shell(make):
    shell = make()
    yield shell
    await shell.close()


@pytest.fixture
def run(shell):
    return runner(shell)


def number(path: Path) -> int:
    return int(path.read_text())


async def test_output_and_exit_codes(run):
    result = await run("echo one; echo two >&2; echo three")
    assert (result.output, result.exit_code) == ("one\ntwo\nthree\n", 0)
    assert (await run("exit 3")).exit_code == 3
    assert (await run("exit 97")).exit_code == 97
    assert (await run("false")).exit_code == 1
    assert (await run("no-such-program")).exit_code == 127
    killed = await run("kill -9 $$")
    assert (killed.exit_code, killed.output) == (137, "")
    assert (await run("kill 0; sleep 600")).exit_code == 143
    assert (await run("echo on")).output == "on\n"


async def test_folder_and_variables_are_kept(run, shell, tmp_path):
    await run("mkdir sub; cd sub; export GREETING='hello\nit'\"'\"'s \"me\" $x'; LOCAL=1; exit 4")
    assert shell.cwd == str(tmp_path / "sub")
    result = await run('pwd; printf "%s|%s" "$GREETING" "$LOCAL"; cd - >/dev/null')
    assert result.output == f'{tmp_path}/sub\nhello\nit\'s "me" $x|'
    assert shell.cwd == str(tmp_path)
    await run("unset HOME")
    assert (await run('echo "[${HOME-none}]"')).output == "[none]\n"


async def test_command_sees_variables_exported_before_it(run, shell):
    assert (await run("echo [$NOTION_KEY]")).output == "[]\n"
    shell.export({"NOTION_KEY": "it's $HOME `x`"})
    assert (await run('echo "[$NOTION_KEY]"')).output == "[it's $HOME `x`]\n"
    shell.export({"NOTION_KEY": "newer"})
    output = bytearray()
    running = await shell.start("echo [$NOTION_KEY]", on_output=output.extend)
    await running.wait()
    assert output == b"[newer]\n"
    assert shell.exported_names() == ("NOTION_KEY",)


async def test_export_alone_starts_nothing(make):
    shell = make()
    shell.export({"NOTION_KEY": "x"})
    assert shell.exported_names() == ("NOTION_KEY",)
    assert shell._session is None
    await shell.close()


@pytest.mark.parametrize("command", ["if then", 'echo "open', "echo $(", "done"])
async def test_syntax_error_is_reported_and_state_is_kept(run, command):
    await run("export KEPT=yes; cd /")
    broken = await run(command)
    assert broken.exit_code != 0
    assert "shell: " in broken.output
    assert "hermes-shell" not in broken.output
    assert (await run("echo $KEPT $PWD")).output == "yes /\n"


async def test_state_is_kept_whatever_a_command_does_to_its_shell(run):
    await run("set -euC; printf() { :; }; cat() { :; }; cd /; false")
    assert (await run("pwd; echo still")).output == "/\nstill\n"
    assert (await run("cd /usr; exec echo bye")).output == "bye\n"
    assert (await run("pwd")).output == "/\n"
    await run("export PATH=/nowhere")
    assert (await run("echo $PATH; cd /usr")).output == "/nowhere\n"
    assert (await run("pwd")).output == "/usr\n"


async def test_folder_of_one_command_is_not_kept(run, tmp_path):
    assert (await run("pwd; cd /usr", cwd="/")).output == "/\n"
    (tmp_path / "sub dir").mkdir()
    assert (await run("pwd", cwd="~/sub dir")).output == f"{tmp_path}/sub dir\n"
    assert (await run("pwd; cd 'sub dir'; rmdir '../sub dir'")).output == f"{tmp_path}\n"
    # The remembered folder was deleted, so the first one is used.
    assert (await run("pwd")).output == f"{tmp_path}\n"
    with pytest.raises(ToolError, match="nowhere does not exist"):
        await run("pwd", cwd="nowhere")


async def test_input_is_empty_and_bytes_are_text(run):
    assert (await run("cat; read -r line || echo none")).output == "none\n"
    assert (await run(r"printf 'a\377\303\251\1'")).output == "a�é\x01"
    assert (await run(r"printf 'a\0b\r10%%\r20%%\n'")).output == "a\0b\r10%\r20%\n"
    assert (await run("printf '%s' '\udce9' | wc -c")).output.strip() == "1"


async def test_command_may_be_long(run):
    text = "x" * 1_100_000
    assert (await run(f"cat <<'EOF' | wc -c\n{text}\nEOF")).output.strip() == "1100001"


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"])
async def test_command_that_is_not_text_is_refused(run, command):
    with pytest.raises(ToolArgumentsInvalid):
        await run(command)


async def test_output_is_shown_while_the_command_runs(run, tmp_path):
    shown = []

    def show(text):
        shown.append(text)
        (tmp_path / "go").touch()

    # The command ends only after its first line was shown.
    result = await run(
        "echo first; until [ -e go ]; do sleep 0.01; done; echo last", on_output=show
    )
    assert "".join(shown) == result.output == "first\nlast\n"


async def test_endless_output_is_bounded_and_stopped(make):
    shell = make(limits=OutputLimits(1_000, 100, 100))
    result = await runner(shell)("while :; do echo y; done", timeout=0.5)
    assert (result.timed_out, result.truncated, result.exit_code) == (True, True, 124)
    assert len(result.output) < 1_200
    await shell.close()


async def test_timeout_stops_the_whole_family_and_keeps_the_output(run, gone, tmp_path):
    command = "trap '' TERM; echo early; (sleep 600 & echo $! > pid; wait) & sleep 600; sleep 600"
    result = await run(command, timeout=0.5)
    assert (result.timed_out, result.exit_code, result.output) == (True, 124, "early\n")
    await gone(number(tmp_path / "pid"))


async def test_cancel_stops_the_command(run, gone, tmp_path):
    cancel = CancelToken()

    def stop(_text):
        cancel.cancel("enough")

    command = "sleep 600 & echo $! > left; echo $$ > pid; echo ready; sleep 600; touch finished"
    with pytest.raises(Interrupted, match="enough"):
        await run(command, cancel=cancel, on_output=stop)
    await gone(number(tmp_path / "pid"))
    await gone(number(tmp_path / "left"))
    assert not (tmp_path / "finished").exists()
    assert (await run("echo on")).output == "on\n"


async def test_cancelled_task_stops_its_command(run, gone, tmp_path):
    ready = asyncio.Event()
    command = "echo $$ > pid; echo ready; sleep 600"
    task = asyncio.ensure_future(run(command, on_output=lambda _text: ready.set()))
    await ready.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(number(tmp_path / "pid"))


async def test_leftover_background_processes_live_until_close(run, shell, gone, tmp_path):
    # It keeps writing to the output of the finished call, which must not kill it.
    loop = "while :; do echo noise; sleep 0.01; [ -e stop ] && touch stopped && break; done"
    result = await run(f"({loop}; sleep 600) & echo $! > pid; echo started")
    assert "started" in result.output
    await run("touch stop; until [ -e stopped ]; do sleep 0.01; done")
    assert psutil.pid_exists(number(tmp_path / "pid"))
    for _ in range(6):
        await run("sleep 600 & :")
    await shell.close()
    await gone(number(tmp_path / "pid"))


async def test_commands_wait_for_each_other(run, tmp_path):
    await asyncio.gather(*(run(f"echo {n}a >> log; sleep 0.05; echo {n}b >> log") for n in "12"))
    assert (tmp_path / "log").read_text() in ("1a\n1b\n2a\n2b\n", "2a\n2b\n1a\n1b\n")


async def test_background_program_starts_with_the_current_state(run, shell):
    await run("export A='hello there'; cd /usr")
    output = bytearray()
    first = await shell.start("read -r line; echo $A $PWD $line", on_output=output.extend)
    await run("export A=changed; cd /")
    await first.write(b"go\n")
    assert await first.wait() == 0
    assert output == b"hello there /usr go\n"


async def test_background_program_has_input_and_does_not_change_the_session(run, shell):
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
    await (await shell.start("export A=no OTHER=1", on_output=len)).wait()
    assert (await run('pwd; echo "$A $OTHER"')).output == "/\n1 \n"


async def test_background_program_may_be_the_first_command(shell):
    output = bytearray()
    program = await shell.start(
        'echo "$PWD"; cat <<\'EOF\'\n$HOME "quoted"\nEOF\necho "[$#]"\nno-such-program\nexit 7',
        on_output=output.extend,
        cwd="/",
    )
    assert await program.wait() == 7
    assert output.startswith(b'/\n$HOME "quoted"\n[0]\n')
    assert b"no-such-program" in output
    assert b"not found" in output
    assert b"hermes-shell" not in output


async def test_background_program_can_be_stopped(shell, gone, tmp_path):
    started = await shell.start(
        "trap '' TERM; echo $$ > pid; sleep 600; sleep 600", on_output=len, cwd="."
    )
    while not (tmp_path / "pid").exists():
        await asyncio.sleep(0.01)
    await started.stop()
    # On a slow machine the client ends before the report of the kill has arrived.
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


async def test_background_program_ends_although_it_left_another(shell):
    output = bytearray()
    started = await shell.start("sleep 600 & echo done; exit 4", on_output=output.extend)
    assert await started.wait() == 4
    assert output == b"done\n"


async def test_terminal(shell):
    output = bytearray()
    command = "[ -t 0 ] && stty size; echo $TERM; read -r line; echo got $line; exit 3"
    started = await shell.start(command, on_output=output.extend, pty=True)
    await started.write(b"hello\n")
    assert await started.wait() == 3
    assert b"40 120\r\nxterm-256color\r\n" in output
    assert b"got hello\r\n" in output
    assert b"hermes" not in output
