"""`hermes profile`: homes beside each other, each with its own settings, keys and memory."""

import argparse

from hermes.cli.actions import Actions, run_action
from hermes.cli.context import Cli
from hermes.config import environment
from hermes.config.home import DEFAULT_PROFILE, Home, active_profile, tilde
from hermes.config.profiles import choose_profile, create_profile, delete_profile, list_profiles
from hermes.core.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Make and choose profiles: each has its own settings, keys and memory."
    action = Actions(parser).add
    action("list", _list, "list the profiles; * marks the one used without -p", json=True)
    use = action("use", _use, "choose the profile used without -p")
    create = action("create", _create, "make a profile")
    create.add_argument("--clone", action="store_true", help="copy config.yaml, .env and SOUL.md")
    create.add_argument("--clone-all", action="store_true", help="copy everything")
    create.add_argument("--clone-from", metavar="PROFILE", help="copy from this profile")
    # Accepted for scripts that give it: no alias is made in any case.
    create.add_argument("--no-alias", action="store_true", help=argparse.SUPPRESS)
    delete = action("delete", _delete, "delete a profile and all its data")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    show = action("show", _show, "say where a profile is and what it holds", json=True)
    path = action("path", _path, "print the folder of a profile")
    for needed in (use, create, delete):
        needed.add_argument("name")
    for optional in (show, path):
        optional.add_argument("name", nargs="?", help="without it: the one in force")


run = run_action


def _list(args: argparse.Namespace, cli: Cli) -> int:
    chosen = active_profile()
    homes = list_profiles()
    if args.json:
        cli.json([_facts(home) for home in homes])
        return 0
    width = max(len(home.profile) for home in homes)
    for home in homes:
        mark = "*" if home.profile == chosen else " "
        cli.say(f"{mark} {home.profile:<{width}}  {home.display()}")
    return 0


def _use(args: argparse.Namespace, cli: Cli) -> int:
    home = choose_profile(args.name)
    cli.say(f"`hermes` without -p now uses {home.profile} ({home.display()})")
    if environment.variable("HERMES_HOME"):
        cli.note("note: HERMES_HOME is set and counts before this choice; unset it, or use -p")
    return 0


def _create(args: argparse.Namespace, cli: Cli) -> int:
    wanted = args.clone or args.clone_all or args.clone_from
    source = Home.resolve(args.clone_from) if args.clone_from else cli.home
    home = create_profile(args.name, source=source if wanted else None, everything=args.clone_all)
    copied = f" from {source.profile}" if wanted else ""
    cli.say(f"made the profile {args.name}{copied} ({home.display()})")
    cli.say(f"try: hermes -p {args.name} config edit")
    return 0


def _delete(args: argparse.Namespace, cli: Cli) -> int:
    if args.name == DEFAULT_PROFILE:
        raise UsageError("the default profile cannot be deleted")
    home = Home.resolve(args.name)
    if not args.yes:
        if not cli.interactive:
            raise UsageError("deleting a profile needs --yes when nobody can be asked")
        question = f"Delete {args.name} with all its sessions, memory and keys? Type its name: "
        if cli.ask(question).strip() != args.name:
            cli.say("nothing was deleted")
            return 1
    was_chosen = active_profile() == args.name
    delete_profile(args.name)
    cli.say(f"deleted the profile {args.name} ({home.display()})")
    if was_chosen:
        cli.say("`hermes` without -p uses the default profile again")
    return 0


def _show(args: argparse.Namespace, cli: Cli) -> int:
    home = Home.resolve(args.name) if args.name else cli.home
    facts = _facts(home)
    if args.json:
        cli.json(facts)
        return 0
    cli.say(f"{home.profile}{' (used without -p)' if facts['chosen'] else ''}")
    for name in ("home", "settings", "variables"):
        cli.say(f"  {name:<10} {facts[name] or 'none yet'}")
    return 0


def _facts(home: Home) -> dict[str, str | bool]:
    def when_there(file: bool, text: str) -> str:
        return text if file else ""

    return {
        "name": home.profile,
        "chosen": home.profile == active_profile(),
        "home": home.display(),
        "exists": home.root.is_dir(),
        "settings": when_there(home.config_file.is_file(), tilde(home.config_file)),
        "variables": when_there(home.env_file.is_file(), tilde(home.env_file)),
    }


def _path(args: argparse.Namespace, cli: Cli) -> int:
    home = Home.resolve(args.name) if args.name else cli.home
    cli.say(str(home.root))
    return 0
