"""`hermes memory setup` and `hermes memory off`."""

import argparse
import json
from collections.abc import Mapping
from importlib import import_module

import msgspec

from hermes.cli.actions import Actions
from hermes.cli.commands.memory.desk import SECONDS, guarded_provider, offered
from hermes.cli.context import Cli
from hermes.config.environment import export_variable
from hermes.config.home import ensure_hermes_home, tilde
from hermes.core.errors import HermesError, ToolError, UsageError
from hermes.memory import ConfigField, config_fields
from hermes.plugins.manifest import PluginInfo

SETTING = ("memory", "provider")


def add_actions(actions: Actions) -> None:
    setup = actions.add(
        "setup",
        _setup,
        "choose a memory provider and configure it",
        epilog="examples:\n  hermes memory setup\n  hermes memory setup mem0 --set api_key=KEY",
    )
    setup.add_argument("name", nargs="?", default="", metavar="NAME", help="which provider")
    setup.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="answer without being asked"
    )
    actions.add("off", _off, "use no memory provider; what it holds stays where it is")


def _setup(args: argparse.Namespace, cli: Cli) -> int:
    given = _given(args.set)
    name = args.name or _chosen(cli)
    isolated = guarded_provider(cli, name)
    fields = config_fields(isolated.provider)
    unknown = given.keys() - {field.key for field in fields}
    if unknown:
        known = ", ".join(field.key for field in fields) or "nothing"
        raise UsageError(f"{name} does not ask for {', '.join(sorted(unknown))}", hint=known)
    saved = _saved(cli, name)
    answers = {field.key: _answer(field, given, saved.get(field.key, ""), cli) for field in fields}
    edit = import_module("hermes.config.edit")
    ensure_hermes_home(cli.home)
    for field in fields:
        if field.secret and answers[field.key]:
            edit.set_variable(cli.home, field.env_var, answers[field.key])
            export_variable(field.env_var, answers[field.key])
            cli.say(f"{field.env_var} saved in {tilde(cli.home.env_file)}")
    plain = {field.key: answers[field.key] for field in fields if not field.secret}
    try:
        isolated.call("save_config", SECONDS, plain, str(cli.home.root))
        ready = bool(isolated.call("is_available", SECONDS))
    except ToolError as error:
        raise HermesError(str(error), hint="nothing was switched on") from error
    edit.set_value(cli.home, SETTING, name)
    cli.say(f"memory.provider set to {name} in {tilde(cli.home.config_file)}")
    if not ready:
        cli.note(f"warning: {name} says it is not ready yet; `hermes memory test` shows more")
        return 1
    return 0


def _off(args: argparse.Namespace, cli: Cli) -> int:  # noqa: ARG001 - as every action
    if import_module("hermes.config.edit").unset_value(cli.home, SETTING):
        cli.say("no memory provider is used any more; what it holds stays where it is")
        return 0
    cli.note("there is no memory provider in use")
    return 1


def _given(pairs: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--set {pair!r} has no =", hint="write --set KEY=VALUE")
        given[key] = value
    return given


def _chosen(cli: Cli) -> str:
    first: dict[str, PluginInfo] = {}
    for info in offered(cli):
        first.setdefault(info.name, info)
    for info in first.values():
        if info.problem:
            cli.note(f"{info.name} is left out: {info.problem}")
    offers = [info for info in first.values() if not info.problem]
    names = [info.name for info in offers]
    if not cli.interactive:
        raise UsageError("which provider?", hint=f"hermes memory setup NAME: {', '.join(names)}")
    for number, info in enumerate(offers, start=1):
        cli.say(f"{number:>3}  {info.name:<14} {info.description}".rstrip())
    said = cli.ask("provider (number or name): ").strip()
    if not said:
        raise UsageError("no provider was chosen", hint="nothing was changed")
    return names[int(said) - 1] if said.isdigit() and 1 <= int(said) <= len(names) else said


def _saved(cli: Cli, name: str) -> dict[str, str]:
    """What was answered before, if the provider keeps it where options belong."""
    try:
        held = msgspec.json.decode((cli.home.root / f"{name}.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    values = held.items() if isinstance(held, dict) else ()
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in values}


def _answer(field: ConfigField, given: Mapping[str, str], saved: str, cli: Cli) -> str:
    """What was given, else what the user says, else what there is already."""
    held = (cli.load().variable(field.env_var) or "") if field.env_var else ""
    fallback = held or saved or field.default
    if field.key in given:
        answer = given[field.key]
    else:
        said = _asked(field, fallback, cli) if cli.interactive else ""
        answer = said or ("" if field.secret and held else fallback)
    if field.choices and answer and answer not in field.choices:
        raise UsageError(
            f"{field.key} cannot be {answer!r}", hint=f"one of: {', '.join(field.choices)}"
        )
    if field.required and not (answer or held):
        place = f" ({field.url})" if field.url else ""
        raise UsageError(
            f"{field.key} is needed: {field.description}{place}",
            hint=f"--set {field.key}=VALUE",
        )
    return answer


def _asked(field: ConfigField, fallback: str, cli: Cli) -> str:
    cli.say(f"{field.description or field.key}{f' ({field.url})' if field.url else ''}")
    if field.secret:
        kept = ", empty keeps it" if fallback else ""
        return cli.ask_secret(f"  {field.key} (it is not shown{kept}): ").strip()
    choices = f" [{'|'.join(field.choices)}]" if field.choices else ""
    default = f" ({fallback})" if fallback else ""
    return cli.ask(f"  {field.key}{choices}{default}: ").strip()
