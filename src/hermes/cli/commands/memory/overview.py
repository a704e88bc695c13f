"""`hermes memory` and `hermes memory status`."""

import argparse
from typing import Any

from hermes.app.extensions import Extensions
from hermes.cli.actions import Actions
from hermes.cli.commands.memory.desk import (
    brought_for,
    guarded_provider,
    info_of_provider,
    provider_desk,
)
from hermes.cli.commands.memory.notes import Notes, Shelf
from hermes.cli.context import Cli
from hermes.config.home import tilde
from hermes.core.errors import HermesError, ToolError
from hermes.memory import BUNDLED_PROVIDERS, config_fields
from hermes.plugins.context import RegistrationKind
from hermes.util.plain import plain_line
from hermes.util.text import many


def add_actions(actions: Actions) -> None:
    actions.add("status", _status, "show the provider, and whether it is set up", json=True)


def overview(args: argparse.Namespace, cli: Cli) -> int:  # noqa: ARG001 - as every action
    settings = cli.load().settings.memory
    cli.say(f"Notes, in {tilde(cli.home.memories)}")
    lines = [_line(notes) for notes in Shelf(cli).all()]
    widths = [max((len(line[at]) for line in lines), default=0) for at in (0, 1, 2)]
    for line in lines:
        padded = "  ".join(f"{part:<{width}}" for part, width in zip(line, widths, strict=False))
        cli.say(f"  {padded}  {line[3]}".rstrip())
    if not lines:
        cli.say("  none yet")
    for key in ("memory_enabled", "user_profile_enabled"):
        if not getattr(settings, key):
            cli.say(f"  switched off: memory.{key} is false")
    cli.say(f"\nProvider: {settings.provider or 'none'}")
    if not settings.provider:
        cli.say(f"  `hermes memory setup NAME` chooses one of {', '.join(BUNDLED_PROVIDERS)}")
        return 0
    try:
        with provider_desk(cli) as desk:
            cli.say(f"  {desk.summary() if desk else ''}")
    except HermesError as error:
        cli.say(f"  {error}")
        cli.say(f"  {error.hint}")
        return error.exit_code
    return 0


def _line(notes: Notes) -> tuple[str, str, str, str]:
    owner = plain_line(notes.owner)
    try:
        count = many(len(notes.file.read()), "note")
        return notes.target, owner, count, notes.fullness()
    except ToolError as error:
        return notes.target, owner, "", str(error)


def _status(args: argparse.Namespace, cli: Cli) -> int:
    facts = _facts(cli)
    if args.json:
        cli.json(facts)
        return 0 if facts["ready"] or not facts["provider"] else 1
    if not facts["provider"]:
        cli.say("no memory provider; the agent has its notes (`hermes memory`)")
        return 0
    cli.say(f"provider   {facts['provider']} ({facts['where']})")
    cli.say(f"ready      {'yes' if facts['ready'] else 'no'}")
    cli.say(f"waits      {facts['timeout']:g} s in a turn (memory.provider_timeout)")
    for name, state in facts["variables"].items():
        cli.say(f"           {name} is {'set' if state else 'not set'}")
    if facts["problem"]:
        cli.say(f"problem    {facts['problem']}")
    return 0 if facts["ready"] else 1


def _facts(cli: Cli) -> dict[str, Any]:
    settings = cli.load().settings.memory
    facts: dict[str, Any] = {
        "provider": settings.provider,
        "where": "",
        "ready": False,
        "timeout": settings.provider_timeout,
        "variables": {},
        "problem": "",
    }
    if not settings.provider:
        return facts
    brought = brought_for(cli, settings.provider)
    facts["where"] = _where(cli, settings.provider, brought)
    try:
        isolated = guarded_provider(cli, settings.provider, brought)
        facts["variables"] = {
            field.env_var: bool(cli.load().variable(field.env_var))
            for field in config_fields(isolated.provider)
            if field.env_var
        }
        facts["ready"] = bool(isolated.call_at_start("is_available"))
    except HermesError as error:
        facts["problem"] = str(error)
    else:
        if not facts["ready"]:
            facts["problem"] = f"it is not set up; `hermes memory setup {settings.provider}`"
    return facts


def _where(cli: Cli, name: str, brought: Extensions | None) -> str:
    if (info := info_of_provider(cli, name)) is not None:
        return info.where
    plugin = brought.plugin_with(RegistrationKind.MEMORY, name) if brought else ""
    return f"plugin {plugin}" if plugin else "not found"
