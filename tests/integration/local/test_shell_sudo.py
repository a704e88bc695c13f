"""`sudo` in commands. The `sudo` here is a fake that behaves as the real one does towards us: with
-A it runs the program of SUDO_ASKPASS and reads the password from its output; then it runs the
command with the standard input it was given."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.core.cancel import CancelToken
from hermes.terminal import LocalShell

PASSWORD = "p4ss 'w\"ord$HOME"

SUDO = """#!/bin/sh
echo "$@" >>"$LOG/arguments"
env >>"$LOG/environment"
[ "$1" = -A ] || { echo "sudo: a terminal is required" >&2; exit 1; }
shift
[ -e "$LOG/cached" ] || "$SUDO_ASKPASS" >"$LOG/password" || exit 1
unset SUDO_ASKPASS
"$@"
"""


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
async def shell(environment: dict[str, str], tmp_path: Path) -> AsyncIterator[LocalShell]:
    shell = LocalShell(environment, tmp_path, sudo_password=PASSWORD)
    yield shell
    await shell.close()


async def output(shell: LocalShell, command: str) -> str:
    result = await shell.run(command, timeout=60, on_output=len, cancel=CancelToken())
    return result.output


async def test_sudo_gets_the_password_and_the_command_its_own_input(
    shell: LocalShell, log: Path
) -> None:
    assert await output(shell, "echo for me | sudo cat") == "for me\n"
    assert (log / "password").read_text() == PASSWORD + "\n"
    assert (log / "arguments").read_text() == "-A cat\n"


async def test_a_sudo_that_needs_no_password_does_not_hand_it_to_the_command(
    shell: LocalShell, log: Path
) -> None:
    (log / "cached").touch()
    assert await output(shell, "sudo cat; echo done") == "done\n"


async def test_the_password_is_nowhere_else(shell: LocalShell, log: Path) -> None:
    everything = await output(shell, "sudo sh -c 'env; set'; set; env; cat /proc/$$/cmdline")
    everything += await output(shell, "export -p; cat /proc/$$/environ")
    everything += (log / "environment").read_text() + (log / "arguments").read_text()
    assert "p4ss" not in everything
    assert "ASKPASS" not in await output(shell, "env; export -p")


async def test_background_commands_have_it_too(shell: LocalShell) -> None:
    printed = bytearray()
    program = await shell.start("sudo echo fine", on_output=printed.extend)
    assert await program.wait() == 0
    assert printed == b"fine\n"


async def test_askpass_program_is_private_and_deleted(shell: LocalShell) -> None:
    await output(shell, "true")
    assert shell._session is not None
    (holder,) = shell._session.lifeline.folder.glob("askpass")
    assert holder.stat().st_mode & 0o777 == 0o700
    assert holder.parent.stat().st_mode & 0o777 == 0o700
    await shell.close()
    assert not holder.exists()


async def test_the_user_s_own_way_of_giving_it_is_respected(shell: LocalShell, log: Path) -> None:
    await output(shell, "echo x | sudo -S true; set -u; sudo")
    assert (log / "arguments").read_text() == "-S true\n-A\n"


async def test_without_a_password_nothing_changes(
    environment: dict[str, str], tmp_path: Path
) -> None:
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
