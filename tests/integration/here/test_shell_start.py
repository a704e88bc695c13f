"""Commands started in the background by the local shell."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.core.errors import ToolError
from hermes.terminal import CommandResult, LocalShell, Running

Run = Callable[..., Awaitable[CommandResult]]
Gone = Callable[[int], Awaitable[None]]
Start = Callable[..., Awaitable[Running]]


@pytest.fixture
def printed() -> bytearray:
    return bytearray()


@pytest.fixture
def start(shell: LocalShell, printed: bytearray) -> Start:
    async def start(command: str, **options: Any) -> Running:
        return await shell.start(command, on_output=printed.extend, **options)

    return start


async def test_it_begins_with_the_folder_and_variables_of_now(
    run: Run, start: Start, printed: bytearray
) -> None:
    await run("export GREETING='hello there'; cd /usr")
    first = await start("read -r line; echo $GREETING $PWD $line")
    await run("export GREETING=changed; cd /")
    await first.write(b"go\n")
    assert await first.wait() == 0
    assert printed == b"hello there /usr go\n"


async def test_background_command_does_not_change_the_session(
    run: Run, start: Start, shell: LocalShell, tmp_path: Path
) -> None:
    await run("export KEPT=yes")
    await (await start("cd /; export KEPT=no OTHER=1; exit 3")).wait()
    assert shell.cwd == str(tmp_path)
    assert (await run('echo "$KEPT $OTHER $PWD"')).output == f"yes  {tmp_path}\n"


async def test_it_may_be_the_first_command_of_all(start: Start, printed: bytearray) -> None:
    assert await (await start('echo "$HOME $PWD"', cwd="/")).wait() == 0
    assert printed.endswith(b" /\n")
    with pytest.raises(ToolError, match="does not exist"):
        await start("true", cwd="nowhere")


async def test_exit_code_lines_and_here_documents_are_as_in_a_script(
    start: Start, printed: bytearray
) -> None:
    program = await start(
        'cat <<\'EOF\'\n$HOME "quoted"\nEOF\necho "[$#]"\nno-such-program\nexit 7'
    )
    assert await program.wait() == 7
    assert printed.startswith(b'$HOME "quoted"\n[0]\n')
    assert b"no-such-program: command not found" in printed
    assert b"hermes-shell" not in printed


async def test_background_process_runs_during_a_foreground_command(
    run: Run, start: Start, tmp_path: Path
) -> None:
    foreground = asyncio.ensure_future(run("until [ -e go ]; do sleep 0.01; done; echo seen"))
    await asyncio.sleep(0)
    await (await start("touch go")).wait()
    assert (await foreground).output == "seen\n"


async def test_a_terminal_is_a_terminal(start: Start, printed: bytearray) -> None:
    program = await start("tty -s && stty size && echo $TERM", pty=True)
    assert await program.wait() == 0
    assert printed.split() == [b"40", b"120", b"xterm-256color"]


async def test_closing_the_shell_ends_it(start: Start, shell: LocalShell, gone: Gone) -> None:
    programs = [await start("sleep 600"), await start("sleep 600", pty=True)]
    await shell.close()
    for program in programs:
        assert program.pid is not None
        await gone(program.pid)
        assert await program.wait() > 128


async def test_plain_sh_is_enough(tmp_path: Path) -> None:
    printed = bytearray()
    shell = LocalShell({"PATH": str(tmp_path), "A": "b c"}, tmp_path)
    program = await shell.start(
        'echo "$A ${BASH_VERSION-no bash}"; exit 4', on_output=printed.extend
    )
    assert await program.wait() == 4
    assert printed == b"b c no bash\n"
    await shell.close()
