"""`hermes update` and `hermes uninstall`."""

import argparse
import asyncio
from datetime import UTC, datetime

import msgspec

from hermes import __version__
from hermes.app.installation import Checkout, Package, installation
from hermes.cli.context import Cli, Command
from hermes.config.home import default_root, tilde
from hermes.core.errors import UsageError
from hermes.ops.restore import Snapshots
from hermes.ops.uninstall import RemovablePart, parts, remove_all
from hermes.ops.update import AvailableUpdate, UpdateFailed, Updater
from hermes.tui.text import safe
from hermes.util.text import many

NEWER = 10
NO_SOURCE = "get the new version where you got this one, and install it over it"
UPDATE_DESCRIPTION = """\
Update Hermes. The new version is built next to this one and replaces it only when it starts;
else everything stays as it is. Your settings, keys and sessions are not part of the program."""
UPDATE_EPILOG = """\
examples:
  hermes update --check        show what would come
  hermes update
  hermes update --rollback     back to the version before the last update

exit codes:
  0   up to date, or done
  10  --check: there is a newer version
  1   it did not work; nothing was changed
"""


def configure_update(parser: argparse.ArgumentParser) -> None:
    parser.description = UPDATE_DESCRIPTION
    parser.epilog = UPDATE_EPILOG
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--check", action="store_true", help="only show what would come")
    either.add_argument(
        "--rollback", action="store_true", help="go back to the version before the last update"
    )
    parser.add_argument("--json", action="store_true", help="with --check: as JSON")


def run_update(args: argparse.Namespace, cli: Cli) -> int:
    return run_update_for(installation(), args, cli)


def run_update_for(found: Checkout | Package, args: argparse.Namespace, cli: Cli) -> int:
    if args.json and not args.check:
        raise UsageError("--json goes with --check")
    if isinstance(found, Package):
        return _say_command(found, args, cli)
    if not found.is_repository:
        raise UpdateFailed(
            f"{found.root} is no git repository, so nothing says what is newer",
            hint="get the new version where you got this one; the home with your data stays",
        )
    return asyncio.run(_run(found, args, cli))


def _say_command(found: Package, args: argparse.Namespace, cli: Cli) -> int:
    if args.rollback:
        raise UpdateFailed(
            f"{found.installer} installed Hermes, so {found.installer} goes back",
            hint="install the earlier version from where you got this one",
        )
    if args.json:
        cli.json({"version": __version__, "installer": found.installer, "command": found.update})
        return 0
    if found.update:
        cli.say(f"Hermes {__version__} was installed by {found.installer}. To update it, run:")
        cli.say(f"  {found.update}")
    else:
        cli.say(f"Hermes {__version__} was installed by {found.installer}; {NO_SOURCE}")
    return 0


async def _run(checkout: Checkout, args: argparse.Namespace, cli: Cli) -> int:
    updater = Updater(checkout, cli.note)
    with updater.alone():
        if args.rollback:
            gone_back = await updater.rollback()
            cli.say(f"back at {gone_back.version} ({gone_back.before[:12]})")
            return 0
        news = await updater.news()
        if args.json:
            cli.json({"version": __version__, "news": msgspec.to_builtins(news)})
        elif news is None:
            cli.say(f"Hermes {__version__} is up to date")
        else:
            _show_update(news, cli)
        if news is None or args.check:
            return 0 if news is None else NEWER
        _snapshot_settings(cli)
        await updater.update(news)
    cli.say(f"updated to {news.version} ({news.target[:12]})")
    cli.note("to go back: hermes update --rollback")
    return 0


def _show_update(news: AvailableUpdate, cli: Cli) -> None:
    cli.say(f"{__version__} → {news.version}: {many(news.total, 'commit')} from {news.upstream}")
    for line in news.changes:
        cli.say(f"  {safe(line)}")
    for subject in () if news.changes else news.commits:
        cli.say(f"  {safe(subject)}")
    if not news.changes and news.total > len(news.commits):
        cli.say(f"  … and {many(news.total - len(news.commits), 'more commit')}")


def _snapshot_settings(cli: Cli) -> None:
    """Snapshot the settings: an older version may not read what a newer one wrote."""
    if cli.home.root.is_dir():
        kept = Snapshots(cli.home).create("before update", datetime.now(UTC).astimezone())
        cli.note(f"settings, keys, memories and skills are kept as snapshot {kept.id}")


UPDATE = Command(configure_update, run_update)


# `hermes uninstall`: remove the program, and the data only with --full.

WORD = "delete"
UNINSTALL_DESCRIPTION = """\
Remove Hermes from this machine. Shows what goes and what stays, and asks first. The home with your
settings, keys and sessions stays unless you say --full."""
UNINSTALL_EPILOG = """\
examples:
  hermes uninstall              the program; your data stays
  hermes backup -o ~/hermes.zip && hermes uninstall --full

exit codes:
  0  everything named is gone
  1  something could not be removed (it is named), or you said no
"""


def configure_uninstall(parser: argparse.ArgumentParser) -> None:
    parser.description = UNINSTALL_DESCRIPTION
    parser.epilog = UNINSTALL_EPILOG
    parser.add_argument(
        "--full", action="store_true", help="also the home: settings, keys, sessions, models"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run_uninstall(args: argparse.Namespace, cli: Cli) -> int:
    return run_uninstall_for(installation(), args, cli)


def run_uninstall_for(found: Checkout | Package, args: argparse.Namespace, cli: Cli) -> int:
    gone = parts(found, full=args.full)
    _show_removal(gone, found, full=args.full, cli=cli)
    if gone and not _confirm_removal(args, cli):
        cli.say("nothing was removed")
        return 1
    failed = False
    for outcome in remove_all(gone):
        if outcome.problem:
            failed = True
            cli.note(f"could not remove {tilde(outcome.part.path)}: {outcome.problem}")
        else:
            cli.say(f"removed {tilde(outcome.part.path)}")
    _say_rest(found, cli)
    return 1 if failed else 0


def _show_removal(
    gone: list[RemovablePart], found: Checkout | Package, *, full: bool, cli: Cli
) -> None:
    cli.say("What goes:" if gone else "There is nothing here to remove.")
    for part in gone:
        cli.say(f"  {tilde(part.path)}  ({part.what})")
    stays = []
    home = default_root()
    if not full and home.exists():
        stays.append(f"{tilde(home)}  (settings, keys, sessions; --full deletes it)")
    if isinstance(found, Checkout):
        stays.append(f"{tilde(found.root)}  (the source)")
    if stays:
        cli.say("What stays:")
    for line in stays:
        cli.say(f"  {line}")


def _confirm_removal(args: argparse.Namespace, cli: Cli) -> bool:
    if args.yes:
        return True
    if not cli.interactive:
        raise UsageError("removing it needs --yes without a terminal")
    if args.full:
        return cli.ask(f"This deletes all your data. Type {WORD} to go on: ").strip() == WORD
    return cli.ask("Remove it? [y/N] ").strip().lower() in ("y", "yes")


def _say_rest(found: Checkout | Package, cli: Cli) -> None:
    """Print what the user or another program has to remove."""
    if isinstance(found, Package):
        cli.say(f"{found.installer} installed the program. To remove it, run:\n  {found.remove}")
    else:
        cli.say(f"the source is yours to delete: {tilde(found.root)}")


UNINSTALL = Command(configure_uninstall, run_uninstall)
