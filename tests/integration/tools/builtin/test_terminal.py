"""The terminal tool over a real shell."""

import asyncio

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolError, ToolTimedOut
from hermes.core.tool import ToolContext
from hermes.terminal import BackgroundProcesses, LocalShell, OutputLimits
from hermes.tools.builtin.terminal import exit_note
from tests.cases import cases
from tests.workspace import make_tool

CASES = cases(__file__)


@pytest.fixture
def processes(shell):
    return BackgroundProcesses(shell)


@pytest.fixture
def tool(shell, processes, guard):
    return make_tool("terminal", shell=shell, processes=processes, guard=guard)


async def test_output_exit_code_and_folder(tool, use, shown, workspace):
    assert await use(tool, command="echo hello") == "hello"
    assert shown == ["hello\n"]
    assert await use(tool, command="echo oops >&2; exit 3") == "oops\n[exit code 3]"
    assert await use(tool, command="true") == "[no output]"
    assert "[exit code 1: nothing matched" in await use(tool, command="echo a | grep b")
    assert await use(tool, command="cd /") == "[no output]\n[now in /]"
    assert await use(tool, command="pwd", workdir=str(workspace)) == str(workspace)


async def test_long_output_says_that_it_was_cut(user_home, workspace, guard, use):
    shell = LocalShell({"HOME": str(user_home)}, workspace, OutputLimits(max_bytes=100))
    tool = make_tool("terminal", shell=shell, guard=guard)
    result = await use(tool, command="seq 1000")
    assert result.startswith("1\n2\n")
    assert "bytes left out" in result
    assert result.endswith(
        "1000\n[the middle of the output was cut; send it to a file to read all of it]"
    )
    await shell.close()


async def test_timeout_shows_the_output_and_a_hint(tool, use):
    with pytest.raises(ToolTimedOut, match=r"(?s)stopped after 1 s.*half done") as caught:
        await use(tool, command="echo half done; sleep 600", timeout=1)
    assert "background=true" in caught.value.hint


async def test_plugins_may_change_the_output(shell, processes, guard, use):
    async def shout(text):
        return text.upper()

    tool = make_tool("terminal", shell=shell, transform_output=shout)
    assert await use(tool, command="echo hello; exit 3") == "HELLO\n[exit code 3]"


async def test_background_command_gives_its_id_at_once(tool, use, processes, workspace):
    result = await use(
        tool,
        command="echo $PWD; sleep 600",
        background=True,
        workdir="/",
        notify_on_complete=True,
        watch_patterns=("x",),
    )
    (state,) = processes.list()
    assert f"[started in the background: {state.id}]" in result
    assert f"session_id='{state.id}'" in result
    assert (state.cwd, state.notify, state.watch_patterns) == ("/", True, ("x",))
    await processes.close()


async def test_foreground_command_may_have_a_terminal(tool, use, shown, shell, workspace):
    result = await use(tool, command="tty -s && echo yes; cd /; cat; exit 3", pty=True)
    assert result == "yes\n[exit code 3]"
    assert "".join(shown) == "yes\r\n"
    assert shell.cwd == str(workspace)
    with pytest.raises(ToolTimedOut, match="half"):
        await use(tool, command="echo half; sleep 600", pty=True, timeout=1)
    with pytest.raises(ToolError, match="does not exist"):
        await use(tool, command="true", pty=True, workdir="/nowhere")


@pytest.mark.parametrize("pty", [False, True])
async def test_cancelled_call_stops_its_command(tool, pty, workspace):
    cancel = CancelToken()

    def stop(_text):
        cancel.cancel("enough")

    call = ToolContext("session", "call", cancel, stop)
    with pytest.raises(Interrupted, match="enough"):
        await tool.handler(call, {"command": "echo a; sleep 600; touch late", "pty": pty})
    await asyncio.sleep(0.05)
    assert not (workspace / "late").exists()


async def test_command_is_examined_in_its_folder(tool, user_home, hermes_home):
    assert await tool.examine({"command": "ls -la"}) is None
    asked = await tool.examine({"command": "sudo rm -rf build"})
    assert asked is not None
    assert {asked.kind, *asked.also} == {"privileges", "recursive delete"}
    assert not asked.refused
    refused = await tool.examine({"command": "echo x > config.yaml", "workdir": "~/.hermes"})
    assert refused.refused
    assert await tool.examine({"command": "echo x > config.yaml"}) is None


async def test_isolated_backend_denies_only_refused_commands(shell, processes, guard):
    tool = make_tool("terminal", shell=shell, guard=guard, isolated=True)
    assert await tool.examine({"command": "sudo rm -rf build"}) is None
    refused = await tool.examine({"command": "mkfs.ext4 /dev/sda1"})
    assert refused.refused


async def test_only_a_command_that_may_change_files_is_preceded_by_a_checkpoint(tool):
    assert not tool.may_change({"command": "ls -la | head"})
    assert tool.may_change({"command": "make"})
    assert tool.may_change({"command": "ls > list.txt"})


@pytest.mark.parametrize(("command", "code", "words"), CASES["exit_codes_are_explained"])
def test_exit_codes_are_explained(command, code, words):
    note = exit_note(command, code)
    assert words in note
    assert bool(note) == bool(words)
