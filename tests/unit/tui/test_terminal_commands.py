"""Slash commands that only terminals have."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.app.commands import CommandCall, resolve_command
from hermes.config.settings import DisplaySettings
from hermes.core.errors import UsageError
from hermes.core.messages import Assistant, Text
from hermes.tui.plain import TerminalCommands
from hermes.tui.skins import PLAIN_SKIN, DisplayState
from hermes.tui.text import Depth


@pytest.fixture
def run(tmp_path: Path):
    """Runs a command and returns its answer; `run.display` is the state it changes."""
    display = DisplayState(DisplaySettings(), PLAIN_SKIN, Depth.NONE)
    terminal: Any = SimpleNamespace(display=display)
    handlers = TerminalCommands(terminal, tmp_path / "skins").handlers

    async def run(line: str, talk: Any = None) -> str:
        word, _, arguments = line.partition(" ")
        command = resolve_command(word)
        assert command is not None
        return await handlers[command.name](CommandCall(command, arguments, talk))

    run.display = display
    return run


@pytest.mark.parametrize(
    ("command", "field", "argument", "value"),
    [
        ("/verbose", "tool_progress", "off", "off"),
        ("/details", "results", "hidden", "hidden"),
        ("/statusbar", "status_bar", "off", False),
    ],
)
async def test_display_mode_changes_only_with_an_argument(
    run, command: str, field: str, argument: str, value: object
) -> None:
    before = getattr(run.display, field)
    assert before != value
    assert f"`{command} " in await run(command), "says how to change it"
    assert getattr(run.display, field) == before
    assert (await run(f"{command} {argument}")).strip().endswith(f": {argument}.")
    assert getattr(run.display, field) == value
    with pytest.raises(UsageError, match="must be one of"):
        await run(f"{command} loud")


async def test_copy_without_an_answer_is_one_message(run) -> None:
    talk: Any = SimpleNamespace(agent=SimpleNamespace(history=()))
    with pytest.raises(UsageError, match="there is no answer to copy yet") as raised:
        await run("/copy", talk)
    assert not raised.value.hint
    talk.agent.history = (Assistant((Text("one"),)),)
    with pytest.raises(UsageError, match="only 1 answer; /copy 1 is the last one"):
        await run("/copy 2", talk)
