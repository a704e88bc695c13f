"""The terminal tool over a real shell."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hermes.core.errors import ToolTimedOut
from hermes.core.tool import Effect, Tool
from hermes.security.paths import Guard
from hermes.terminal.local import LocalShell
from hermes.tools.terminal import plain, terminal_tool

Use = Callable[..., Awaitable[str]]


@pytest.fixture
def tool(shell: LocalShell, guard: Guard) -> Tool:
    return terminal_tool(shell, guard)


async def test_what_the_model_sees(tool: Tool) -> None:
    assert (tool.name, tool.effect, tool.serial) == ("terminal", Effect.EXECUTE, True)
    properties = tool.spec.parameters["properties"]
    assert list(properties) == ["command", "timeout", "workdir"]
    assert properties["timeout"]["default"] == 180


async def test_output_exit_code_and_folder(
    tool: Tool, use: Use, shown: list[str], workspace: Path
) -> None:
    assert await use(tool, command="echo hello") == "hello"
    assert shown == ["hello\n"]
    assert await use(tool, command="echo oops >&2; exit 3") == "oops\n[exit code 3]"
    assert await use(tool, command="true") == "[no output]"
    assert await use(tool, command="cd /") == "[no output]\n[now in /]"
    assert await use(tool, command="pwd", workdir=str(workspace)) == str(workspace)


async def test_a_timeout_tells_what_was_printed(tool: Tool, use: Use) -> None:
    with pytest.raises(ToolTimedOut, match=r"(?s)stopped after 1 s.*half done"):
        await use(tool, command="echo half done; sleep 600", timeout=1)


def test_colours_and_progress_bars_are_taken_out() -> None:
    assert plain("\x1b[1;31mred\x1b[0m\r\n") == "red"
    assert plain("10%\r50%\r100%\ndone\n") == "100%\ndone"
    assert plain("\x1b]0;title\x07text\x00\x08") == "text"
    assert plain("a\tb\n") == "a\tb"


async def test_danger_is_seen_from_where_the_command_would_run(
    tool: Tool, user_home: Path, hermes_home: Path
) -> None:
    assert tool.examine({"command": "ls -la"}) is None
    asked = tool.examine({"command": "sudo rm -rf build"})
    assert asked is not None
    assert {asked.kind, *asked.also} == {"privileges", "recursive delete"}
    assert not asked.refused
    refused = tool.examine({"command": "echo x > config.yaml", "workdir": "~/.hermes"})
    assert refused is not None
    assert refused.refused
    assert tool.examine({"command": "echo x > config.yaml"}) is None


async def test_a_container_asks_nothing(shell: LocalShell, guard: Guard) -> None:
    assert terminal_tool(shell, guard, examined=False).examine({"command": "rm -rf /"}) is None
