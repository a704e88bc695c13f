"""`hermes skills tap`: further places that are searched."""

import argparse

from hermes.cli.actions import Actions, run_action
from hermes.cli.commands.skills.access import with_hub
from hermes.cli.commands.skills.wording import document, example
from hermes.cli.context import Cli
from hermes.core.errors import UsageError
from hermes.skills.hub import Hub
from hermes.util.plain import plain_line
from hermes.util.text import many


def add_actions(actions: Actions) -> None:
    parser = actions.add(
        "tap",
        run_action,  # replaced by the help of those below
        "repositories and sites that are searched too",
        epilog=example("hermes skills tap add owner/repo", "hermes skills tap list"),
    )
    below = Actions(parser)
    add = below.add("add", with_hub(_add), "add a repository at GitHub, or a site")
    remove = below.add("remove", with_hub(_remove), "search it no more")
    below.add("list", with_hub(_list), "show them", json=True)
    add.add_argument("tap", metavar="OWNER/REPO", help="or https://site")
    remove.add_argument("tap", metavar="OWNER/REPO")


async def _add(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    tap = hub.taps.normalize(args.tap)
    count = len(await hub.sources.tap(tap).browse())
    if not count:
        raise UsageError(f"there are no skills in {tap}", hint="nothing was added")
    with hub.store.exclusive():
        is_new = hub.taps.add(tap)
    if not is_new:
        cli.say(f"{tap} is a tap already")
        return 0
    cli.say(f"added {tap} with {many(count, 'skill')}")
    return 0


async def _remove(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    tap = hub.taps.normalize(args.tap)
    with hub.store.exclusive():
        removed = hub.taps.remove(tap)
    if not removed:
        raise UsageError(f"{tap} is not a tap", hint="`hermes skills tap list` shows them")
    cli.say(f"removed {tap}; what was installed from it stays")
    return 0


async def _list(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    found = hub.taps.all()
    if args.json:
        document(cli, found)
        return 0
    if not found:
        cli.say("no taps: `hermes skills tap add owner/repo`")
    for tap in found:
        cli.say(plain_line(tap))
    return 0
