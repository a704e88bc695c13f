"""`hermes mcp remove`: a server, and all that was kept for it."""

import argparse
import re
from importlib import import_module
from typing import Any

from hermes.cli.actions import Actions
from hermes.cli.commands.mcp.access import awaited, cache_of, server_named, tokens_folder
from hermes.cli.commands.mcp.given import prefix_of
from hermes.cli.commands.mcp.wording import examples
from hermes.cli.context import Cli
from hermes.config.document import read_document
from hermes.core.errors import UsageError
from hermes.mcp.oauth import logout

ALLOWLIST = "command_allowlist"
_REFERENCE = re.compile(r"\$\{(\w+)\}")


def add_actions(actions: Actions) -> None:
    remove = actions.add(
        "remove",
        _remove,
        "remove a server",
        aliases=["rm"],
        description="Remove a server from config.yaml, with its login, the list of its tools, the\n"
        "secrets that `hermes mcp add` kept for it, and consents to its tools.",
        epilog=examples("hermes mcp remove tickets --yes"),
    )
    remove.add_argument("name", metavar="NAME")
    remove.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _remove(args: argparse.Namespace, cli: Cli) -> int:
    name = args.name
    server_named(cli, name)
    if not args.yes:
        if not cli.interactive:
            raise UsageError("removing a server needs --yes when nobody can be asked")
        if cli.ask(f"Remove {name}? [y/N] ").strip().lower() not in ("y", "yes"):
            cli.say("nothing was removed")
            return 1
    edit = import_module("hermes.config.edit")
    before = read_document(cli.home.config_file).data
    edit.unset_value(cli.home, ("mcp_servers", name))
    after = read_document(cli.home.config_file).data
    for variable in sorted(_references(before) - _references(after)):
        if variable.startswith(prefix_of(name)):
            edit.unset_variable(cli.home, variable)
    # Another server of that name must not find consents that were not meant for it.
    held = cli.load().settings.command_allowlist
    for place in reversed(range(len(held))):
        if held[place].startswith(f"mcp:{name}:"):
            edit.unset_value(cli.home, (ALLOWLIST, str(place)))
    cache_of(cli).drop(name)
    problem = awaited(cli, logout(name, tokens_folder(cli)))
    cli.say(f"removed {name}")
    if problem:
        cli.note(f"note: {problem}")
    return 0


def _references(value: Any) -> set[str]:
    """The variables that are referred to."""
    if isinstance(value, str):
        return set(_REFERENCE.findall(value))
    if isinstance(value, dict):
        return set().union(*(_references(held) for held in value.values()))
    if isinstance(value, list):
        return set().union(*(_references(held) for held in value))
    return set()
