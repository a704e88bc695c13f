"""Commands on this machine, with real processes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted
from hermes.terminal import CommandResult, LocalShell

Run = Callable[..., Awaitable[CommandResult]]
Gone = Callable[[int], Awaitable[None]]


async def test_state_is_kept_although_a_command_redefines_export(
    run: Run,
) -> None:
    await run("set -euC; export() { :; }; printf() { :; }; cd /; false")
    assert (await run("pwd; echo still")).output == "/\nstill\n"


async def test_only_the_given_environment_is_seen(run: Run, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "sk-secret" not in (await run("env")).output
    assert "sk-secret" not in (await run("env")).output


async def test_cancel_reaches_a_command_inside_a_larger_scope(
    run: Run, gone: Gone, tmp_path: Path
) -> None:
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


async def test_a_child_in_a_session_of_its_own_ends_with_the_command(
    run: Run, gone: Gone, tmp_path: Path
) -> None:
    command = "setsid sh -c 'echo $$ > pid; exec sleep 600' & until [ -s pid ]; do :; done; wait"
    assert (await run(command, timeout=0.5)).timed_out
    await gone(int((tmp_path / "pid").read_text()))


STUBBORN = {
    "ignores SIGTERM": "trap '' TERM INT HUP; echo ready; while :; do sleep 600; done",
    "prints forever": "echo ready; yes",
    "has stubborn children": "(trap '' TERM; echo ready; sleep 600) & (trap '' TERM; sleep 600)",
    "is stopped": "echo ready; kill -STOP $$",
    "reads its terminal": "echo ready; cat </dev/tty || sleep 600",
    "forks again and again": "echo ready; f() { sleep 0.01; f & wait; }; f",
}


@pytest.mark.parametrize("command", STUBBORN.values(), ids=STUBBORN.keys())
async def test_whatever_the_command_does_a_cancel_ends_it(
    run: Run, command: str, tmp_path: Path
) -> None:
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


async def test_our_own_folder_may_be_deleted_under_us(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert (await run("pwd")).output == f"{tmp_path}\n"


async def test_the_keeper_of_the_lifeline_may_be_killed(
    run: Run, shell: LocalShell, gone: Gone, tmp_path: Path
) -> None:
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


async def test_background_process_runs_during_a_foreground_command(
    run: Run, shell: LocalShell
) -> None:
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
