"""`hermes profile`: several homes, each with its own settings, keys and memory."""

import argparse
import asyncio
from datetime import UTC, datetime
from pathlib import Path

from hermes.cli.commands.backup import output_file
from hermes.cli.context import Actions, Cli, Command
from hermes.config import environment
from hermes.config.home import (
    DEFAULT_PROFILE,
    Home,
    active_profile,
    choose_profile,
    create_profile,
    delete_profile,
    list_profiles,
    rename_profile,
    tilde,
)
from hermes.core.errors import HermesError, UsageError
from hermes.ops.backup import copy_home
from hermes.ops.profiles import (
    Alias,
    alias_folder,
    aliases,
    import_profile,
    is_on_path,
    make_alias,
    remove_aliases,
    rename_aliases,
)
from hermes.util.text import human_size, many

EPILOG = """\
examples:
  hermes profile create work --clone    with a copy of your settings and keys
  hermes -p work                        talk with it; `work` alone does the same
  hermes profile use work               use it without -p from now on
  hermes profile export work -o work.zip
  hermes profile import work.zip --name copy
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Make and choose profiles: each has its own settings, keys and memory."
    parser.epilog = EPILOG
    action = Actions(parser).add
    action("list", _list, "list the profiles; * marks the one used without -p", json=True)
    use = action("use", _use, "choose the profile used without -p")
    create = action("create", _create, "make a profile, and a command of its name")
    create.add_argument("--clone", action="store_true", help="copy config.yaml, .env and SOUL.md")
    create.add_argument("--clone-all", action="store_true", help="copy everything")
    create.add_argument("--clone-from", metavar="PROFILE", help="copy from this profile")
    create.add_argument("--no-alias", action="store_true", help="make no command of its name")
    delete = action("delete", _delete, "delete a profile and all its data")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    show = action("show", _show, "say where a profile is and what it holds", json=True)
    path = action("path", _path, "print the folder of a profile")
    alias = action(
        "alias",
        _alias,
        "make or remove a command that starts Hermes with a profile",
        description="Make a command that starts Hermes with a profile: a script in ~/.local/bin.",
    )
    alias.add_argument("--name", dest="alias", default="", metavar="NAME", help="another name")
    alias.add_argument("--remove", action="store_true", help="delete it")
    rename = action("rename", _rename, "give a profile another name")
    export = action("export", _export, "write a profile to one file")
    export.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="a new file, or a folder for it"
    )
    bring = action("import", _import, "make a profile from such a file")
    bring.add_argument("zip", type=Path, metavar="ZIP", help="the file")
    bring.add_argument("--name", dest="new", default="", metavar="NAME", help="another name")
    bring.add_argument("--no-alias", action="store_true", help="make no command of its name")
    for needed in (use, create, delete, alias, rename, export):
        needed.add_argument("name", metavar="PROFILE")
    rename.add_argument("new", metavar="NEW", help="the new name")
    for optional in (show, path):
        optional.add_argument(
            "name", nargs="?", metavar="PROFILE", help="without it: the one in force"
        )


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
    _offer_alias(args, cli, home)
    return 0


def _offer_alias(args: argparse.Namespace, cli: Cli, home: Home) -> None:
    """Create the command of a profile. A failure is only a note: the command is optional."""
    if not args.no_alias:
        try:
            _say_alias(make_alias(home), cli)
            return
        except HermesError as error:
            cli.note(f"no command was made: {error}")
    cli.say(f"try: hermes -p {home.profile} setup")


def _say_alias(alias: Alias, cli: Cli) -> None:
    cli.say(f"`{alias.path.name}` starts Hermes with it ({tilde(alias.path)})")
    if not is_on_path():
        cli.note(f"note: {tilde(alias_folder())} is not in PATH, so shells will not find it")


def _delete(args: argparse.Namespace, cli: Cli) -> int:
    if args.name == DEFAULT_PROFILE:
        raise UsageError("the default profile cannot be deleted")
    home = Home.resolve(args.name)
    if not args.yes:
        if not cli.interactive:
            raise UsageError("deleting a profile needs --yes without a terminal")
        question = f"Delete {args.name} with all its sessions, memory and keys? Type its name: "
        if cli.ask(question).strip() != args.name:
            cli.say("nothing was deleted")
            return 1
    was_chosen = active_profile() == args.name
    delete_profile(args.name)
    cli.say(f"deleted the profile {args.name} ({home.display()})")
    for alias in remove_aliases(args.name):
        cli.say(f"deleted the command {tilde(alias.path)}")
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
    for name in ("home", "settings", "variables", "aliases"):
        shown = facts[name]
        text = ", ".join(shown) if isinstance(shown, list) else shown
        cli.say(f"  {name:<10} {text or 'none yet'}")
    return 0


def _facts(home: Home) -> dict[str, str | bool | list[str]]:
    def when_there(file: bool, text: str) -> str:
        return text if file else ""

    return {
        "name": home.profile,
        "chosen": home.profile == active_profile(),
        "home": home.display(),
        "exists": home.root.is_dir(),
        "settings": when_there(home.config_file.is_file(), tilde(home.config_file)),
        "variables": when_there(home.env_file.is_file(), tilde(home.env_file)),
        "aliases": [tilde(alias.path) for alias in aliases(home.profile)],
    }


def _path(args: argparse.Namespace, cli: Cli) -> int:
    home = Home.resolve(args.name) if args.name else cli.home
    cli.say(str(home.root))
    return 0


def _alias(args: argparse.Namespace, cli: Cli) -> int:
    if not args.remove:
        _say_alias(make_alias(Home.resolve(args.name), args.alias), cli)
        return 0
    gone = remove_aliases(args.name, args.alias)
    for alias in gone:
        cli.say(f"deleted the command {tilde(alias.path)}")
    if not gone:
        cli.note(f"there is no such command for the profile {args.name}")
    return 0 if gone else 1


def _rename(args: argparse.Namespace, cli: Cli) -> int:
    home = rename_profile(args.name, args.new)
    cli.say(f"{args.name} is now called {args.new} ({home.display()})")
    for alias in rename_aliases(args.name, home):
        _say_alias(alias, cli)
    return 0


def _export(args: argparse.Namespace, cli: Cli) -> int:
    home, now = Home.resolve(args.name), datetime.now(UTC).astimezone()
    target = output_file(args.output, home, now)
    copied = asyncio.run(copy_home(home, target, now, profiles=False))
    files, size = len(copied.manifest.files), human_size(copied.bytes)
    cli.say(f"{many(files, 'file')} of {home.profile} in {tilde(copied.path)} ({size})")
    cli.note("the file holds the keys of the profile")
    return 0


def _import(args: argparse.Namespace, cli: Cli) -> int:
    home, count = import_profile(args.zip.expanduser(), args.new)
    cli.say(f"made the profile {home.profile} of {many(count, 'file')} ({home.display()})")
    _offer_alias(args, cli, home)
    return 0


COMMAND = Command(configure)
