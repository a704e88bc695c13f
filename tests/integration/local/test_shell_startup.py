"""The user's start-up files, as a session's commands see them."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted
from hermes.terminal import LocalShell, ShellOptions

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


async def test_exports_of_bashrc_and_of_the_named_files_are_kept(
    session: Open, tmp_path: Path
) -> None:
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
async def test_a_file_that_returns_early_or_fails_breaks_nothing(
    session: Open, tmp_path: Path, text: str
) -> None:
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


async def test_secrets_that_a_file_exports_are_withheld_again(
    session: Open, tmp_path: Path
) -> None:
    (tmp_path / ".bashrc").write_text(
        "export OPENAI_API_KEY=sk-1 PLAIN=p FROM_DOTENV=sk-2 GIVEN_TOKEN=sk-3\n"
        "declare -rx READONLY_SECRET=sk-4\n"
        "export TEXT='a\ndeclare -x SOME_KEY=\"b\"'\n"
    )
    options = ShellOptions(withheld=frozenset({"FROM_DOTENV"}))
    shell = session(options, GIVEN_TOKEN="sk-0")
    assert "sk-1" not in (await output(shell, "set; env"))
    seen = await output(shell, "env")
    assert "PLAIN=p" in seen
    assert "GIVEN_TOKEN=sk-3" in seen
    assert "SOME_KEY" in seen
    assert "sk-2" not in seen
    assert "sk-4" not in seen
