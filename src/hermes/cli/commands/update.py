"""`hermes update` and `hermes uninstall`."""

from argparse import Namespace
from datetime import UTC, datetime

from hermes import __version__
from hermes.cli.context import YES, Cli, Command, OneOf, flag
from hermes.config.home import default_root, tilde
from hermes.config.installation import Checkout, Package, installation
from hermes.core.errors import UsageError
from hermes.ops import RemovablePart, Snapshots, UpdateFailed, Updater, removable_parts, remove_all
from hermes.tui import safe
from hermes.util.text import many

NEWER = 10
NO_SOURCE = "get the new version where you got this one, and install it over it"


async def run_update(args: Namespace, cli: Cli) -> int:
    found = installation()
    if args.json and not args.check:
        raise UsageError("--json goes with --check")
    if isinstance(found, Package):
        if args.rollback:
            hint = "install the earlier version from where you got this one"
            problem = f"{found.installer} installed Hermes, so {found.installer} goes back"
            raise UpdateFailed(problem, hint=hint)
        how = f". To update it, run:\n  {found.update}" if found.update else f"; {NO_SOURCE}"
        facts = {"installer": found.installer, "command": found.update}
        text = f"Hermes {__version__} was installed by {found.installer}{how}"
        cli.emit({"version": __version__, **facts}, text)
        return 0
    if not found.is_repository:
        raise UpdateFailed(
            f"{found.root} is not a git repository, so nothing says what is newer",
            hint="get the new version where you got this one; the home with your data stays",
        )
    return await _run(found, args, cli)


async def _run(checkout: Checkout, args: Namespace, cli: Cli) -> int:
    updater = Updater(checkout, cli.note)
    with updater.alone():
        if args.rollback:
            gone_back = await updater.rollback()
            cli.say(f"back at {gone_back.version} ({gone_back.before[:12]})")
            return 0
        news = await updater.news()
        lines = [f"Hermes {__version__} is up to date"]
        if news is not None:
            count = many(news.total, "commit")
            lines = [f"{__version__} → {news.version}: {count} from {news.upstream}"]
            lines += [f"  {safe(line)}" for line in news.changes or news.commits]
            if not news.changes and (more := news.total - len(news.commits)) > 0:
                lines.append(f"  … and {many(more, 'more commit')}")
        cli.emit({"version": __version__, "news": news}, lines)
        if news is None or args.check:
            return 0 if news is None else NEWER
        if cli.home.root.is_dir():
            # An older version may not read what a newer one wrote.
            kept = Snapshots(cli.home).create("before update", datetime.now(UTC).astimezone())
            cli.note(f"settings, keys, memories and skills are kept as snapshot {kept.id}")
        await updater.update(news)
    cli.say(f"updated to {news.version} ({news.target[:12]})")
    cli.note("to go back: hermes update --rollback")
    return 0


UPDATE = Command(
    "update",
    run_update,
    "",
    OneOf(
        flag("--check", help="only show what would come"),
        flag("--rollback", help="go back to the version before the last update"),
    ),
    flag("--json", help="with --check: as JSON"),
)


# `hermes uninstall`: remove the program, and the data only with --full.

WORD = "delete"


def run_uninstall(args: Namespace, cli: Cli) -> int:
    found = installation()
    gone = removable_parts(found, full=args.full)
    _show_removal(gone, found, full=args.full, cli=cli)
    if gone and not _confirm_removal(args, cli):
        cli.say("nothing was removed")
        return 1
    outcomes = list(remove_all(gone))
    for outcome in outcomes:
        if outcome.problem:
            cli.note(f"could not remove {tilde(outcome.part.path)}: {outcome.problem}")
        else:
            cli.say(f"removed {tilde(outcome.part.path)}")
    if isinstance(found, Package):
        cli.say(f"{found.installer} installed the program. To remove it, run:\n  {found.remove}")
    else:
        cli.say(f"the source is yours to delete: {tilde(found.root)}")
    return 1 if any(outcome.problem for outcome in outcomes) else 0


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
        cli.say("\n  ".join(["What stays:", *stays]))


def _confirm_removal(args: Namespace, cli: Cli) -> bool:
    if args.yes:
        return True
    if not cli.interactive:
        raise UsageError("removing it needs --yes without a terminal")
    if args.full:
        return cli.ask(f"This deletes all your data. Type {WORD} to continue: ").strip() == WORD
    return cli.confirm("Remove it?")


UNINSTALL = Command(
    "uninstall",
    run_uninstall,
    "",
    flag("--full", help="also the home: settings, keys, sessions, models"),
    YES,
)
