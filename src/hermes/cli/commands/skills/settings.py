"""`hermes skills config`: the settings that skills declare."""

import argparse
from importlib import import_module
from typing import Any

import msgspec

from hermes.cli.actions import Actions
from hermes.cli.commands.skills.access import collection, context
from hermes.cli.commands.skills.wording import document, example
from hermes.cli.context import Cli
from hermes.config.assignment import assign
from hermes.config.home import tilde
from hermes.config.keys import MISSING, find, split_key
from hermes.config.masking import is_secret_setting, mask
from hermes.core.errors import UsageError
from hermes.skills import SkillSetting, unusable_reason
from hermes.util.plain import plain_line


class Declared(msgspec.Struct, frozen=True):
    skill: str
    key: str
    description: str
    value: Any
    """What is set, or the default."""
    is_set: bool
    prompt: str = ""
    """What the user is asked."""


def add_actions(actions: Actions) -> None:
    config = actions.add(
        "config",
        _config,
        "show the settings of skills, or set one",
        json=True,
        description="Show the settings that skills declare, with their values; with KEY and VALUE,"
        "\nset one. They are kept in config.yaml as skills.config.<key>.",
        epilog=example("hermes skills config", "hermes skills config wiki.path ~/wiki"),
    )
    config.add_argument("key", nargs="?", default="", metavar="KEY")
    config.add_argument("value", nargs="?", default=None, metavar="VALUE", help="as YAML")


def _config(args: argparse.Namespace, cli: Cli) -> int:
    found = [one for one in declared(cli) if args.key in ("", one.key)]
    if args.key and not found:
        raise UsageError(
            f"no skill has a setting {args.key}", hint="`hermes skills config` lists them"
        )
    if args.value is not None:
        return _set(args, cli)
    if args.json:
        document(cli, found)
        return 0
    if not found:
        cli.say("no skill has settings")
    for one in found:
        how = "" if one.is_set else "  (the default)" if one.value is not None else "  (not set)"
        shown = "" if one.value is None else f" = {plain_line(str(one.value))}"
        cli.say(f"{plain_line(one.key)}{shown}{how}")
        cli.say(f"    {one.skill}: {plain_line(one.description)}")
    return 0


def _set(args: argparse.Namespace, cli: Cli) -> int:
    change = assign(f"skills.config.{args.key}", args.value)
    edit = import_module("hermes.config.edit")  # slow to load, and only needed to write
    edit.set_value(cli.home, change.parts, change.value)
    cli.say(f"skills.config.{args.key} set in {tilde(cli.home.config_file)}")
    return 0


def declared(cli: Cli) -> list[Declared]:
    """Every setting of every skill that can be used here, with secrets masked."""
    values, here = cli.load().settings.skills.config, context(cli)
    return [
        _declared(skill.name, setting, values)
        for skill in collection(cli).skills()
        if not unusable_reason(skill, here)
        for setting in skill.settings
    ]


def _declared(skill: str, setting: SkillSetting, values: dict[str, Any]) -> Declared:
    parts = split_key(setting.key)
    value = find(values, parts)
    is_set = value is not MISSING and value is not None
    shown = value if is_set else setting.default
    if is_set and is_secret_setting(parts):
        shown = mask(str(shown))
    return Declared(skill, setting.key, setting.description, shown, is_set, setting.prompt)
