"""Slash commands of the terminal: each does something."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.app.command_handlers import HANDLERS
from hermes.app.commands import CommandCall, Surface, commands_in, resolve_command
from hermes.app.providers import Providers
from hermes.app.tools import find_toolsets
from hermes.cli.session import subcommand_handlers
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import UsageError
from hermes.ops.commands import OPS_HANDLERS
from hermes.tui.plain import TerminalCommands
from hermes.util.concurrency import SystemClock
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


async def test_jobs_are_managed_in_a_conversation(hermes_home: Path) -> None:
    home, command = Home(hermes_home), resolve_command("/cron")
    assert command is not None
    talk: Any = SimpleNamespace(app=SimpleNamespace(services=SimpleNamespace(scheduler=None)))

    async def cron(arguments: str) -> str:
        return await subcommand_handlers(home)["cron"](CommandCall(command, arguments, talk))

    assert "no jobs yet" in await cron("")
    assert "created tea" in await cron('create "weekdays at 8:30" "Make tea" --name tea')
    assert "weekdays at 8:30" in await cron("list")
    assert "paused tea" in await cron("pause tea")
    assert "resumed tea" in await cron("resume tea")
    assert "will run on the next tick" in await cron("run tea")
    assert "removed tea" in await cron("remove tea")
    assert "a job needs a schedule" in await cron("create")
    with pytest.raises(UsageError, match="this conversation runs due jobs"):
        await cron("tick")


async def test_platforms_are_shown_and_not_controlled(hermes_home: Path) -> None:
    home, command = Home(hermes_home), resolve_command("/gateway")
    assert command is not None and command.name == "platforms"
    shown = [
        await subcommand_handlers(home)["platforms"](CommandCall(command, words, NOWHERE))
        for words in ("", "stop --all")
    ]
    assert shown[0] == shown[1] and "not running" in shown[0]


async def test_google_quota_without_a_login_names_the_next_step(hermes_home: Path) -> None:
    command = resolve_command("/gquota")
    assert command is not None
    hermes_home.mkdir()
    providers = Providers(Home(hermes_home), load(Home(hermes_home)), SystemClock(), None)  # type: ignore[arg-type]
    talk: Any = SimpleNamespace(app=SimpleNamespace(providers=providers))
    text = await HANDLERS["gquota"](CommandCall(command, "", talk))
    assert "no Google login" in text and "hermes auth add google-gemini-cli" in text
    await providers.close()
