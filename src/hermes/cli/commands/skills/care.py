"""`hermes skills audit`, `quarantine` and `reset`."""

import argparse

from hermes.cli.actions import Actions
from hermes.cli.commands.skills.access import (
    add_yes,
    consents,
    with_hub,
)
from hermes.cli.commands.skills.history import original, skill_writer
from hermes.cli.commands.skills.wording import document, example, say_findings
from hermes.cli.context import Cli
from hermes.core.errors import UsageError
from hermes.skills.hub import Hub, SkillInspection, audit_installed, restore_skill
from hermes.util.plain import plain_line
from hermes.util.text import many


def add_actions(actions: Actions) -> None:
    actions.add(
        "audit",
        with_hub(_audit),
        "compare the installed skills with their hashes, and scan them again",
        json=True,
        description="Compare every file of the installed skills with the hash it was installed with"
        "\nand scan them again. The exit code is 1 when something is wrong.",
    )
    quarantine = actions.add(
        "quarantine", with_hub(_quarantine), "list the skills that were refused", json=True
    )
    quarantine.add_argument("--clean", action="store_true", help="delete them")
    quarantine.add_argument("name", nargs="?", default="", metavar="NAME", help="only this one")
    reset = actions.add(
        "reset",
        with_hub(_reset),
        "drop your changes of a skill that is not your own",
        description="A skill that is bundled or installed is changed in a copy. Reset drops the"
        "\ncopy, so that the original counts again. With --restore, an installed skill whose"
        "\nfiles were changed on the disk is fetched once more.",
        epilog=example("hermes skills reset arxiv", "hermes skills reset pdf --restore --yes"),
    )
    reset.add_argument("name", metavar="NAME")
    reset.add_argument("--restore", action="store_true", help="fetch the installed files again")
    add_yes(reset)


async def _audit(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    found = audit_installed(hub)
    if args.json:
        document(cli, found)
        return 0 if found.clean else 1
    if not found.skills and not found.strays:
        cli.say("nothing is installed from the hub")
    for one in found.skills:
        _say(cli, one)
    for folder in found.strays:
        cli.say(f"{plain_line(folder)}: nobody installed it; move it out of the hub's folder")
    return 0 if found.clean else 1


def _say(cli: Cli, one: SkillInspection) -> None:
    if not one.is_tampered:
        cli.say(f"{one.name}: as installed ({one.trust})")
    else:
        cli.say(f"{one.name}: CHANGED since it was installed")
        for what in ("changed", "missing", "added"):
            for name in getattr(one, what):
                cli.say(f"  {what:<8} {plain_line(name)}")
        if one.problem:
            cli.say(f"  {plain_line(one.problem)}")
        cli.say(f"  `hermes skills reset {one.name} --restore` puts the files back")
    if one.verdict not in ("", "safe"):
        say_findings(cli, one.verdict, one.findings)


async def _quarantine(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    if args.clean:
        gone = hub.quarantine.clean(args.name)
        cli.say(f"deleted {many(len(gone), 'refused skill')}")
        return 0
    held = [one for one in hub.quarantine.refused() if args.name in ("", one.name)]
    if args.json:
        document(cli, held)
        return 0
    if not held:
        cli.say("nothing is in quarantine")
    for one in held:
        cli.say(f"{one.name}  {one.at}  {plain_line(one.identifier)}\n    {plain_line(one.reason)}")
    return 0


async def _reset(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    writer = skill_writer(cli)
    try:
        copied = writer.overlay_of(args.name)
    except UsageError:
        return await _restored(args, cli, hub)
    left = original(cli, copied.name)
    what = f"drop your copy of {plain_line(copied.name)}"
    if left is None:
        what += f", whose {copied.source} original is gone"
    if not consents(args, cli, f"{what[0].upper()}{what[1:]}?"):
        cli.say("nothing was changed")
        return 1
    reason = f"back to the {copied.source} skill {copied.name}"
    commit = (await writer.reset(args.name, reason)).commit
    undo = f"; `hermes skills undo {commit.short}` takes this back" if commit else ""
    now = f"the {left.source} skill counts again" if left else "nothing is left of it"
    cli.say(f"dropped your copy of {plain_line(copied.name)}: {now}{undo}")
    return await _restored(args, cli, hub) if args.restore else 0


async def _restored(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    installed = args.name in hub.store.lock().skills
    if not args.restore or not installed:
        raise UsageError(
            f"there is no changed copy of {args.name}",
            hint="--restore fetches its installed files again"
            if installed
            else "`hermes skills list` says which skills are copies",
        )
    if not consents(args, cli, f"Replace the files of {args.name} with those of its source?"):
        cli.say("nothing was changed")
        return 1
    await restore_skill(hub, args.name)
    cli.say(f"{args.name} is as it was installed")
    return 0
