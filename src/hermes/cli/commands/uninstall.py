"""`hermes uninstall`: the program goes; your data only when you say so."""

import argparse

from hermes.app.installation import Checkout, Package, installation
from hermes.cli.context import Cli
from hermes.config.home import default_root, tilde
from hermes.core.errors import UsageError
from hermes.ops.uninstall import Part, parts, remove_all

WORD = "delete"
DESCRIPTION = """\
Remove Hermes from this machine. Shows what goes and what stays, and asks first. The home with your
settings, keys and sessions stays unless you say --full."""
EPILOG = """\
examples:
  hermes uninstall              the program; your data stays
  hermes backup -o ~/hermes.zip && hermes uninstall --full

exit codes:
  0  everything named is gone
  1  something could not be removed (it is named), or you said no
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument(
        "--full", action="store_true", help="also the home: settings, keys, sessions, models"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace, cli: Cli) -> int:
    return run_for(installation(), args, cli)


def run_for(found: Checkout | Package, args: argparse.Namespace, cli: Cli) -> int:
    gone = parts(found, full=args.full)
    _show(gone, found, full=args.full, cli=cli)
    if gone and not _consents(args, cli):
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


def _show(gone: list[Part], found: Checkout | Package, *, full: bool, cli: Cli) -> None:
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


def _consents(args: argparse.Namespace, cli: Cli) -> bool:
    if args.yes:
        return True
    if not cli.interactive:
        raise UsageError("removing it needs --yes when nobody can be asked")
    if args.full:
        return cli.ask(f"This deletes all your data. Type {WORD} to go on: ").strip() == WORD
    return cli.ask("Remove it? [y/N] ").strip().lower() in ("y", "yes")


def _say_rest(found: Checkout | Package, cli: Cli) -> None:
    """What only another program, or the user, can do."""
    if isinstance(found, Package):
        cli.say(f"{found.installer} installed the program. To remove it, run:\n  {found.remove}")
    else:
        cli.say(f"the source is yours to delete: {tilde(found.root)}")
