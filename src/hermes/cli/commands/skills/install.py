"""`hermes skills install` and `uninstall`."""

import argparse

from hermes.cli.actions import Actions
from hermes.cli.commands.skills.access import (
    add_source,
    add_yes,
    consents,
    context,
    own_copy,
    with_hub,
)
from hermes.cli.commands.skills.wording import example, say_candidate, say_difference
from hermes.cli.context import Cli
from hermes.config.home import tilde
from hermes.skills import hidden_reason
from hermes.skills.hub import Hub, InstallCandidate, InstallRefused
from hermes.skills.scanner import SourceTrust
from hermes.skills.writing import read_overlay
from hermes.util.plain import plain_line

THIRD_PARTY = (
    "This skill was written by a third party. It tells the agent what to do on this machine;\n"
    "the scan finds known tricks, not every one. Install it only if you trust its author."
)


def add_actions(actions: Actions) -> None:
    install = actions.add(
        "install",
        with_hub(_install),
        "fetch, scan and install a skill",
        description="Fetch a skill into quarantine, scan it, and install it when the rules and you"
        "\nsay so. --force installs one with findings; a dangerous one is never installed.",
        epilog=example(
            "hermes skills install official/devops/kubernetes",
            "hermes skills install anthropics/skills/skills/pdf",
            "hermes skills install https://example.com/team/skills.git#main:notes --yes",
        ),
    )
    install.add_argument("identifier", metavar="IDENTIFIER")
    add_source(install, "where it is")
    install.add_argument("--category", default="", help="file it under this one")
    install.add_argument(
        "--force", action="store_true", help="in spite of findings, or of changes made here"
    )
    add_yes(install)
    uninstall = actions.add("uninstall", with_hub(_uninstall), "remove an installed skill")
    uninstall.add_argument("name", metavar="NAME")
    add_yes(uninstall)


async def _install(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    candidate = await hub.prepare(args.identifier, args.source, args.category)
    try:
        hub.check_name(candidate, force=args.force)
        held = candidate.installed
        if held and held.sha256 == candidate.sha256 and candidate.current == candidate.files:
            cli.say(f"{candidate.name} is installed already, and there is no newer version")
            return 0
        return 0 if taken(args, cli, hub, candidate, force=args.force) else 1
    finally:
        hub.quarantine.discard(candidate.staged)


def taken(
    args: argparse.Namespace, cli: Cli, hub: Hub, candidate: InstallCandidate, *, force: bool
) -> bool:
    """Shows the skill, asks, and installs it or its new version. False when the user says no.

    Raises `Refused` when the rules do.
    """
    say_candidate(cli, candidate)
    if candidate.installed:
        say_difference(cli, candidate)
    decision = candidate.decision(force=force)
    if not decision.allowed:
        hub.refuse(candidate, decision.reason)
        hint = "--force installs it all the same" if decision.asks else "nothing overrides this"
        raise InstallRefused(
            f"{candidate.name} is not installed: {plain_line(decision.reason)}",
            hint=f"{hint}; `hermes skills inspect {candidate.name}` shows it in quarantine",
        )
    if candidate.locally_changed and args.yes and not force:
        raise InstallRefused(
            f"{candidate.name} was changed here: {', '.join(candidate.locally_changed)}",
            hint="--force replaces the changes; without --yes you are asked",
        )
    if not _wanted(args, cli, candidate):
        cli.say(f"{candidate.name} was left as it is")
        return False
    entry = hub.accept(candidate, force=force)
    what = "updated" if candidate.installed else "installed"
    cli.say(f"{what} {candidate.name} in {tilde(entry.folder(hub.store.skills, candidate.name))}")
    own = own_copy(cli, candidate.name)
    if own is not None:
        cli.note(f"your own skill in {tilde(own)} counts instead of it")
    hidden = hidden_reason(candidate.skill, context(cli))
    if hidden:
        cli.note(f"it stays hidden here: {plain_line(hidden)}")
    _say_needs(cli, candidate)
    return True


def _wanted(args: argparse.Namespace, cli: Cli, candidate: InstallCandidate) -> bool:
    """What comes with Hermes, or from a trusted repository, is installed without a question."""
    if candidate.locally_changed:
        cli.say(f"changed here since it was installed: {', '.join(candidate.locally_changed)}")
        return consents(args, cli, f"Replace the changes with this version of {candidate.name}?")
    if candidate.installed:
        return consents(args, cli, f"Install this version of {candidate.name}?")
    if candidate.trust is not SourceTrust.COMMUNITY:
        return True
    cli.say(THIRD_PARTY)
    return consents(args, cli, f"Install {candidate.name}?")


def _say_needs(cli: Cli, candidate: InstallCandidate) -> None:
    names = [plain_line(variable.name) for variable in candidate.skill.variables]
    if names:
        cli.say(f"it needs {', '.join(names)}: `hermes config set {names[0]} VALUE`")
    if candidate.skill.settings:
        cli.say("it has settings: `hermes skills config` shows them")


async def _uninstall(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    entry = hub.installed(args.name)
    if not consents(args, cli, f"Remove {args.name}, installed from {entry.identifier}?"):
        cli.say("nothing was removed")
        return 1
    hub.uninstall(args.name)
    cli.say(f"removed {args.name}")
    own = own_copy(cli, args.name)
    if own is not None:
        drop = f"; `hermes skills reset {args.name}` drops it" if read_overlay(own) else ""
        cli.note(f"your own skill in {tilde(own)} stays, and counts{drop}")
    return 0
