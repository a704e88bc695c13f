"""`hermes skills check` and `update`."""

import argparse

from hermes.cli.actions import Actions
from hermes.cli.commands.skills.access import add_yes, with_hub
from hermes.cli.commands.skills.install import taken
from hermes.cli.commands.skills.wording import document, example
from hermes.cli.context import Cli
from hermes.skills.hub import (
    Hub,
    InstallRefused,
    UpdateState,
    UpdateStatus,
    check_update,
    check_updates,
)
from hermes.util.plain import plain_line


def add_actions(actions: Actions) -> None:
    checking = actions.add(
        "check", with_hub(_check), "say which installed skills have updates", json=True
    )
    update = actions.add(
        "update",
        with_hub(_update),
        "install new versions, after showing what changes",
        epilog=example("hermes skills update", "hermes skills update pdf --yes"),
    )
    for parser in (checking, update):
        parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    update.add_argument(
        "--force", action="store_true", help="in spite of findings, or of changes made here"
    )
    add_yes(update)


async def _check(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    found = await check_updates(hub, args.names)
    if args.json:
        facts = [{"name": one.name, "state": one.state, "reason": one.reason} for one in found]
        document(cli, facts)
        return 0
    if not found:
        cli.say("nothing is installed from the hub")
    for one in found:
        _say(cli, one)
    if any(one.state is UpdateState.NEWER for one in found):
        cli.say("`hermes skills update` shows what changes, and asks")
    return 0


async def _update(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    entries = {name: hub.installed(name) for name in args.names} or hub.store.lock().skills
    if not entries:
        cli.say("nothing is installed from the hub")
    failed = False
    for name, entry in sorted(entries.items()):
        one = await check_update(hub, name, entry)
        failed |= one.state not in (UpdateState.CURRENT, UpdateState.NEWER)
        if one.candidate is None:
            _say(cli, one)
            continue
        try:
            failed |= not taken(args, cli, hub, one.candidate, force=args.force)
        except InstallRefused as error:
            failed = True
            cli.note(f"{error}; {error.hint}")
        finally:
            hub.quarantine.discard(one.candidate.staged)
    return 1 if failed else 0


def _say(cli: Cli, one: UpdateStatus) -> None:
    reason = f": {plain_line(one.reason)}" if one.reason else ""
    cli.say(f"{one.name}: {one.state}{reason}")
