"""Slash commands of the terminal: each does something."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.app.command_handlers import HANDLERS
from hermes.app.commands import CommandCall, Surface, commands_in, resolve_command
from hermes.app.tools import find_toolsets
from hermes.cli.session import subcommand_handlers
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import UsageError
from hermes.ops.commands import OPS_HANDLERS
from hermes.tui.plain import TerminalCommands
from tests.cases import cases

CASES = cases(__file__)

NOWHERE: Any = SimpleNamespace(display=None)


def test_every_command_of_the_registry_is_carried_out(hermes_home: Path) -> None:
    terminal = TerminalCommands(NOWHERE, hermes_home).handlers
    own = {**OPS_HANDLERS, **subcommand_handlers(Home(hermes_home)), **terminal}
    names = {each.name for each in commands_in(Surface.TERMINAL)}
    assert names - {*HANDLERS, *own} == set()
    names = {each for each in own if resolve_command(each) is None}
    assert names == set()


@pytest.mark.parametrize(("line", "shown"), CASES["output of a subcommand is returned"])
async def test_output_of_a_subcommand_is_returned(hermes_home: Path, line: str, shown: str) -> None:
    word, _, arguments = line.partition(" ")
    command = resolve_command(word)
    assert command is not None
    text = await subcommand_handlers(Home(hermes_home))[command.name](
        CommandCall(command, arguments, NOWHERE)
    )
    assert shown in text


async def test_tools_are_switched_for_new_conversations(hermes_home: Path) -> None:
    home, command = Home(hermes_home), resolve_command("/tools")
    assert command is not None
    loaded = load(home, {"model.default": "x"})
    talk: Any = SimpleNamespace(app=SimpleNamespace(loaded=loaded))
    await subcommand_handlers(home)["tools"](CommandCall(command, "disable web", talk))
    assert "web_search" not in find_toolsets(loaded).names("cli")
    assert loaded.settings.model.default == "x"
    await subcommand_handlers(home)["tools"](CommandCall(command, "enable web", talk))
    assert "web_search" in find_toolsets(loaded).names("cli")


async def test_invalid_argument_is_a_usage_error(hermes_home: Path) -> None:
    command = resolve_command("/tools")
    assert command is not None
    with pytest.raises(UsageError, match="there is no action"):
        await subcommand_handlers(Home(hermes_home))["tools"](
            CommandCall(command, "wrong", NOWHERE)
        )
