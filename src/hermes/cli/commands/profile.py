"""`hermes profile`: several homes, each with its own settings, keys and memory."""

from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

from hermes import ops
from hermes.cli.commands.backup import output_file
from hermes.cli.context import YES, Cli, Command, arg, flag, table
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
from hermes.util.text import human_size, many

COMMAND = Command("profile")


NAME = arg("name", metavar="PROFILE")
ANY_NAME = arg("name", nargs="?", metavar="PROFILE", help="without it: the one in force")
NO_ALIAS = flag("--no-alias", help="make no command of its name")


@COMMAND.action("list", "list the profiles; * marks the one used without -p", json=True)
def _list(_args: Namespace, cli: Cli) -> None:
    chosen, homes = active_profile(), list_profiles()
    marks = {True: "*", False: " "}
    rows = [(f"{marks[home.profile == chosen]} {home.profile}", home.display()) for home in homes]
    cli.emit([_facts(home) for home in homes], table(rows))


@COMMAND.action("use", "choose the profile used without -p", NAME)
def _use(args: Namespace, cli: Cli) -> None:
    home = choose_profile(args.name)
    cli.say(f"`hermes` without -p now uses {home.profile} ({home.display()})")
    if environment.variable("HERMES_HOME"):
        cli.note("note: HERMES_HOME is set and counts before this choice; unset it, or use -p")


@COMMAND.action(
    "create",
    "make a profile, and a command of its name",
    flag("--clone", help="copy config.yaml, .env and SOUL.md"),
    flag("--clone-all", help="copy everything"),
    arg("--clone-from", metavar="PROFILE", help="copy from this profile"),
    NO_ALIAS,
    NAME,
)
def _create(args: Namespace, cli: Cli) -> None:
    wanted = args.clone or args.clone_all or args.clone_from
    source = Home.resolve(args.clone_from) if args.clone_from else cli.home
    home = create_profile(args.name, source=source if wanted else None, everything=args.clone_all)
    copied = f" from {source.profile}" if wanted else ""
    cli.say(f"made the profile {args.name}{copied} ({home.display()})")
    _offer_alias(args, cli, home)


def _offer_alias(args: Namespace, cli: Cli, home: Home) -> None:
    """Create the command of a profile. A failure is only a note: the command is optional."""
    if not args.no_alias:
        try:
            _say_alias(ops.make_alias(home), cli)
            return
        except HermesError as error:
            cli.note(f"no command was made: {error}")
    cli.say(f"try: hermes -p {home.profile} setup")


def _say_alias(alias: ops.Alias, cli: Cli) -> None:
    cli.say(f"`{alias.path.name}` starts Hermes with it ({tilde(alias.path)})")
    if not ops.is_on_path():
        cli.note(f"note: {tilde(ops.alias_folder())} is not in PATH, so shells will not find it")


@COMMAND.action("delete", "delete a profile and all its data", YES, NAME)
def _delete(args: Namespace, cli: Cli) -> int:
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
    for alias in ops.remove_aliases(args.name):
        cli.say(f"deleted the command {tilde(alias.path)}")
    if was_chosen:
        cli.say("`hermes` without -p uses the default profile again")
    return 0


@COMMAND.action("show", "say where a profile is and what it holds", ANY_NAME, json=True)
def _show(args: Namespace, cli: Cli) -> None:
    home = Home.resolve(args.name) if args.name else cli.home
    facts = _facts(home)
    lines = [f"{home.profile}{' (used without -p)' if facts['chosen'] else ''}"]
    for name in ("home", "settings", "variables", "aliases"):
        shown = facts[name]
        text = ", ".join(shown) if isinstance(shown, list) else shown
        lines.append(f"  {name:<10} {text or 'none yet'}")
    cli.emit(facts, lines)


def _facts(home: Home) -> dict[str, str | bool | list[str]]:
    return {
        "name": home.profile,
        "chosen": home.profile == active_profile(),
        "home": home.display(),
        "exists": home.root.is_dir(),
        "settings": tilde(home.config_file) if home.config_file.is_file() else "",
        "variables": tilde(home.env_file) if home.env_file.is_file() else "",
        "aliases": [tilde(alias.path) for alias in ops.aliases(home.profile)],
    }


@COMMAND.action("path", "print the folder of a profile", ANY_NAME)
def _path(args: Namespace, cli: Cli) -> None:
    home = Home.resolve(args.name) if args.name else cli.home
    cli.say(str(home.root))


@COMMAND.action(
    "alias",
    "make or remove a command that starts Hermes with a profile",
    arg("--name", dest="alias", default="", metavar="NAME", help="another name"),
    flag("--remove", help="delete it"),
    NAME,
)
def _alias(args: Namespace, cli: Cli) -> int:
    if not args.remove:
        _say_alias(ops.make_alias(Home.resolve(args.name), args.alias), cli)
        return 0
    gone = ops.remove_aliases(args.name, args.alias)
    for alias in gone:
        cli.say(f"deleted the command {tilde(alias.path)}")
    if not gone:
        cli.note(f"there is no such command for the profile {args.name}")
    return 0 if gone else 1


@COMMAND.action(
    "rename", "give a profile another name", NAME, arg("new", metavar="NEW", help="the new name")
)
def _rename(args: Namespace, cli: Cli) -> None:
    home = rename_profile(args.name, args.new)
    cli.say(f"{args.name} is now called {args.new} ({home.display()})")
    for alias in ops.rename_aliases(args.name, home):
        _say_alias(alias, cli)


@COMMAND.action(
    "export",
    "write a profile to one file",
    arg("-o", "--output", type=Path, metavar="FILE", help="a new file, or a folder for it"),
    NAME,
)
async def _export(args: Namespace, cli: Cli) -> None:
    home, now = Home.resolve(args.name), datetime.now(UTC).astimezone()
    target = output_file(args.output, home, now)
    copied = await ops.copy_home(home, target, now, profiles=False)
    files, size = len(copied.manifest.files), human_size(copied.bytes)
    cli.say(f"{many(files, 'file')} of {home.profile} in {tilde(copied.path)} ({size})")
    cli.note("the file holds the keys of the profile")


@COMMAND.action(
    "import",
    "make a profile from such a file",
    arg("zip", type=Path, metavar="ZIP", help="the file"),
    arg("--name", dest="new", default="", metavar="NAME", help="another name"),
    NO_ALIAS,
)
def _import(args: Namespace, cli: Cli) -> None:
    home, count = ops.import_profile(args.zip.expanduser(), args.new)
    cli.say(f"made the profile {home.profile} of {many(count, 'file')} ({home.display()})")
    _offer_alias(args, cli, home)
