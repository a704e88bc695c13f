"""What only the local shell has: start-up files, sudo and the lifeline."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted
from hermes.terminal import CommandResult, LocalShell, ShellOptions
from tests.cases import cases

CASES = cases(__file__)

Run = Callable[..., Awaitable[CommandResult]]
Gone = Callable[[int], Awaitable[None]]


async def test_state_is_kept_although_a_command_redefines_export(run: Run) -> None:
    await run("set -euC; export() { :; }; printf() { :; }; cd /; false")
    assert (await run("pwd; echo still")).output == "/\nstill\n"


async def test_only_the_given_environment_is_seen(run: Run, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "sk-secret" not in (await run("env")).output
    assert "sk-secret" not in (await run("env")).output


async def test_cancel_reaches_a_command_inside_a_larger_scope(run, gone, tmp_path):
    cancel = CancelToken()

    async def work() -> None:
        with cancel.scope():
            await run("echo $$ > pid; echo ready; sleep 600", cancel=cancel, on_output=stop)

    def stop(_text: str) -> None:
        cancel.cancel("enough")

    with pytest.raises(Interrupted, match="enough"):
        await work()
    await gone(int((tmp_path / "pid").read_text()))


async def test_a_background_child_that_floods_does_not_hold_the_call(run: Run) -> None:
    assert (await run("yes & echo $!")).exit_code == 0


async def test_shell_works_without_bash(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    shell = LocalShell({"PATH": str(tools), "A": "b"}, tmp_path)

    async def output(command: str) -> tuple[str, int]:
        result = await shell.run(command, timeout=60, on_output=len, cancel=CancelToken())
        return result.output, result.exit_code

    assert await output("cd /; export A='c d'; exit 5") == ("", 5)
    assert await output('echo "$A $PWD"; echo "${BASH_VERSION-no bash}"') == ("c d /\nno bash\n", 0)
    assert (await output("if then"))[1] == 2
    assert await output("echo on") == ("on\n", 0)
    printed = bytearray()
    program = await shell.start(
        'echo "$A ${BASH_VERSION-no bash}"; exit 4', on_output=printed.extend
    )
    assert await program.wait() == 4
    assert printed == b"c d no bash\n"
    await shell.close()


async def test_a_child_in_a_session_of_its_own_ends_with_the_command(run, gone, tmp_path):
    command = "setsid sh -c 'echo $$ > pid; exec sleep 600' & until [ -s pid ]; do :; done; wait"
    assert (await run(command, timeout=0.5)).timed_out
    await gone(int((tmp_path / "pid").read_text()))


STUBBORN = CASES["stubborn"]


@pytest.mark.parametrize("command", STUBBORN.values(), ids=STUBBORN.keys())
async def test_cancel_ends_any_command(run: Run, command: str, tmp_path: Path) -> None:
    cancel = CancelToken()

    def stop(_text: str) -> None:
        cancel.cancel("enough")

    with pytest.raises(Interrupted):
        await run(command, timeout=600, on_output=stop, cancel=cancel)
    while working_in(tmp_path):
        await asyncio.sleep(0.02)
    assert (await run("echo on")).output == "on\n"


def working_in(folder: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cwd", "status"])
        if process.info["cwd"] == str(folder) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


async def test_deleted_working_folder_does_no_harm(run, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert (await run("pwd")).output == f"{tmp_path}\n"


async def test_the_keeper_of_the_lifeline_may_be_killed(run, shell, gone, tmp_path):
    await run("export KEPT=yes; sleep 600 & echo $! > pid")
    assert shell._session is not None
    shell._session.lifeline._supervisor.kill()
    shell._session.lifeline._supervisor.wait()
    assert (await run("echo $KEPT")).output == "yes\n"
    await shell.close()
    await gone(int((tmp_path / "pid").read_text()))


async def test_many_commands_leave_nothing_open(run: Run) -> None:
    await run("true")
    before = psutil.Process().num_fds()
    for _ in range(5):
        await run("echo x; true &")
    await run("sleep 0.1")
    assert psutil.Process().num_fds() == before


async def test_background_process_runs_during_a_foreground_command(run, shell):
    foreground = asyncio.ensure_future(run("until [ -e go ]; do sleep 0.01; done; echo seen"))
    await asyncio.sleep(0)
    await (await shell.start("touch go", on_output=len)).wait()
    assert (await foreground).output == "seen\n"


async def test_close_stops_background_programs(shell: LocalShell, gone: Gone) -> None:
    programs = [
        await shell.start("sleep 600", on_output=len, pty=terminal) for terminal in (False, True)
    ]
    await shell.close()
    for program in programs:
        assert program.pid is not None
        await gone(program.pid)
        assert await program.wait() > 128


Open = Callable[..., LocalShell]


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Open]:
    """Makes shells whose home is `tmp_path`."""
    async with AsyncExitStack() as closing:

        def make(options: ShellOptions | None = None, **variables: str) -> LocalShell:
            environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **variables}
            shell = LocalShell(environment, tmp_path, options=options)
            closing.push_async_callback(shell.close)
            return shell

        yield make


async def output(shell: LocalShell, command: str) -> str:
    result = await shell.run(command, timeout=60, on_output=len, cancel=CancelToken())
    return result.output


async def test_exports_of_bashrc_and_of_the_named_files_are_kept(session, tmp_path):
    (tmp_path / ".bashrc").write_text("export FIRST=1 PATH=$HOME/bin:$PATH; cd /; echo noise\n")
    (tmp_path / "more.sh").write_text("export SECOND=$FIRST$FIRST\n")
    other = tmp_path / "other.sh"
    other.write_text("echo x >> ~/times; export THIRD=3")
    shell = session(ShellOptions(init_files=("~/more.sh", str(other), "~/not-there.sh")))
    assert await output(shell, 'echo "$FIRST $SECOND $THIRD ${PATH%%:*} $PWD"') == (
        f"1 11 3 {tmp_path}/bin {tmp_path}\n"
    )
    await output(shell, "true")
    assert (tmp_path / "times").read_text() == "x\n"


async def test_a_background_command_sees_them_too(session: Open, tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("export FIRST=1\n")
    printed = bytearray()
    program = await session().start("echo $FIRST", on_output=printed.extend)
    await program.wait()
    assert printed == b"1\n"


async def test_bashrc_is_left_alone_when_the_setting_says_so(session: Open, tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("export FIRST=1\n")
    assert await output(session(ShellOptions(source_bashrc=False)), "echo [$FIRST]") == "[]\n"


@pytest.mark.parametrize(
    "text",
    ["case $- in *i*) ;; *) return ;; esac", "exit 3", "set -eu; false", "if then", "exec sleep 0"],
)
async def test_a_file_that_returns_early_or_fails_breaks_nothing(session, tmp_path, text):
    (tmp_path / ".bashrc").write_text(text + "\n")
    (tmp_path / "more.sh").write_text("export MORE=1\n")
    shell = session(ShellOptions(init_files=("~/more.sh",)))
    assert await output(shell, 'echo "$MORE $HOME"; false; echo on') == f"1 {tmp_path}\non\n"


async def test_a_file_that_takes_forever_is_given_up(session: Open, tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("export EARLY=1\nsleep 600\nexport LATE=1\n")
    shell = session(ShellOptions(init_seconds=0.3))
    assert await output(shell, 'echo "[$LATE]"') == "[]\n"


async def test_a_cancelled_start_is_made_up_for_later(session: Open, tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("[ -e go ] || { touch begun; sleep 600; }; export A=1\n")
    shell = session(ShellOptions(init_seconds=600))
    cancel = CancelToken()

    async def stop_when_begun() -> None:
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        cancel.cancel()

    stopping = asyncio.ensure_future(stop_when_begun())
    with pytest.raises(Interrupted):
        await shell.run("true", timeout=60, on_output=len, cancel=cancel)
    await stopping
    (tmp_path / "go").touch()
    assert await output(shell, "echo $A") == "1\n"


async def test_secrets_that_a_file_exports_are_withheld_again(session, tmp_path):
    (tmp_path / ".bashrc").write_text(
        "export OPENAI_API_KEY=sk-1 PLAIN=p FROM_DOTENV=sk-2 GIVEN_TOKEN=sk-3\n"
        "declare -rx READONLY_SECRET=sk-4\n"
        "export TEXT='a\ndeclare -x SOME_KEY=\"b\"'\n"
    )
    options = ShellOptions(withheld=frozenset({"FROM_DOTENV"}))
    shell = session(options, GIVEN_TOKEN="sk-0")
    assert "sk-1" not in (await output(shell, "set; env"))
    seen = await output(shell, "env")
    assert "PLAIN=p" in seen and "GIVEN_TOKEN=sk-3" in seen and "SOME_KEY" in seen
    assert "sk-2" not in seen and "sk-4" not in seen


PASSWORD = "p4ss 'w\"ord$HOME"

SUDO = CASES["sudo"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    folder.mkdir()
    return folder


@pytest.fixture
def environment(tmp_path: Path, log: Path) -> dict[str, str]:
    program = tmp_path / "bin" / "sudo"
    program.parent.mkdir()
    program.write_text(SUDO)
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}", "LOG": str(log)}


@pytest.fixture
async def sudo_shell(environment: dict[str, str], tmp_path: Path) -> AsyncIterator[LocalShell]:
    shell = LocalShell(environment, tmp_path, sudo_password=PASSWORD)
    yield shell
    await shell.close()


async def test_sudo_gets_the_password_and_the_command_its_own_input(sudo_shell, log):
    assert await output(sudo_shell, "echo for me | sudo cat") == "for me\n"
    assert (log / "password").read_text() == PASSWORD + "\n"
    assert (log / "arguments").read_text() == "-A cat\n"


async def test_a_sudo_that_needs_no_password_does_not_hand_it_to_the_command(sudo_shell, log):
    (log / "cached").touch()
    assert await output(sudo_shell, "sudo cat; echo done") == "done\n"


async def test_the_password_is_nowhere_else(sudo_shell: LocalShell, log: Path) -> None:
    everything = await output(sudo_shell, "sudo sh -c 'env; set'; set; env; cat /proc/$$/cmdline")
    everything += await output(sudo_shell, "export -p; cat /proc/$$/environ")
    everything += (log / "environment").read_text() + (log / "arguments").read_text()
    assert "p4ss" not in everything
    assert "ASKPASS" not in await output(sudo_shell, "env; export -p")


async def test_background_commands_have_it_too(sudo_shell: LocalShell) -> None:
    printed = bytearray()
    program = await sudo_shell.start("sudo echo fine", on_output=printed.extend)
    assert await program.wait() == 0
    assert printed == b"fine\n"


async def test_askpass_program_is_private_and_deleted(sudo_shell: LocalShell) -> None:
    await output(sudo_shell, "true")
    assert sudo_shell._session is not None
    (holder,) = sudo_shell._session.lifeline.folder.glob("askpass")
    assert holder.stat().st_mode & 0o777 == 0o700
    assert holder.parent.stat().st_mode & 0o777 == 0o700
    await sudo_shell.close()
    assert not holder.exists()


async def test_the_user_s_own_way_of_giving_it_is_respected(sudo_shell, log):
    await output(sudo_shell, "echo x | sudo -S true; set -u; sudo")
    assert (log / "arguments").read_text() == "-S true\n-A\n"


async def test_without_a_password_nothing_changes(environment, tmp_path):
    shell = LocalShell(environment, tmp_path)
    assert "a terminal is required" in await output(shell, "sudo true")
    await shell.close()


async def test_plain_sh_can_do_it(environment: dict[str, str], tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    for name in ("env", "cat"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    shell = LocalShell({**environment, "PATH": str(tools)}, tmp_path, sudo_password=PASSWORD)
    assert await output(shell, 'echo "${BASH_VERSION-sh}" | sudo cat') == "sh\n"
    await shell.close()
    without = tmp_path / "empty"
    without.mkdir()
    shell = LocalShell({"PATH": str(without)}, tmp_path, sudo_password=PASSWORD)
    assert await output(shell, "command -v sudo || echo none") == "none\n"
    await shell.close()
