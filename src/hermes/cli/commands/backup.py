"""`hermes backup`: the home in one private file."""

import argparse
import asyncio
from datetime import UTC, datetime
from pathlib import Path

from hermes.cli.context import Cli, Command
from hermes.cli.output import progress_on
from hermes.config.home import Home, tilde
from hermes.core.errors import UsageError
from hermes.ops.backup import FULL, QUICK, Archive, BackupResult, contents, copy_home, open_archive
from hermes.ops.restore import (
    KEPT_SNAPSHOTS,
    Snapshots,
    check_fits,
    conflicts,
    finish_restore,
    has_unfinished_restore,
    restore_archive,
)
from hermes.tui.text import safe
from hermes.util.text import human_size, many

BACKUP_DESCRIPTION = """\
Write the home to one file: settings, keys, sessions, memories, skills, plugins, and the profiles
that live in it. It may be in use meanwhile. Left out are caches, logs, models, checkpoints and the
files of sandboxes. The file holds your keys: it is readable by you alone."""
BACKUP_EPILOG = """\
examples:
  hermes backup                        hermes-backup-DATE-TIME.zip in this folder
  hermes backup -o ~/safe/hermes.zip
  hermes backup -q -l "before the big change"
                                       settings, keys, memories and skills only, kept as a
                                       snapshot in the home (the newest 20 stay)
  hermes import hermes.zip             bring it back, here or on another machine
"""


def configure_backup(parser: argparse.ArgumentParser) -> None:
    parser.description = BACKUP_DESCRIPTION
    parser.epilog = BACKUP_EPILOG
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="a new file, or a folder for it"
    )
    parser.add_argument(
        "-q", "--quick", action="store_true", help="settings, keys, memories and skills only"
    )
    parser.add_argument("-l", "--label", default="", metavar="TEXT", help="what it is for")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run_backup(args: argparse.Namespace, cli: Cli) -> int:
    now = datetime.now(UTC).astimezone()
    passed_over: tuple[str, ...] = ()
    if args.quick and args.output is None:
        taken = Snapshots(cli.home).create(args.label, now)
        where, files, size = taken.path, taken.files, taken.bytes
    else:
        copied = asyncio.run(_copy(args, cli, now))
        where, files, size = copied.path, len(copied.manifest.files), copied.bytes
        passed_over = copied.passed_over
        _note_remote_store(cli)
    if args.json:
        facts = {"path": str(where), "files": files, "bytes": size, "passed_over": passed_over}
        cli.json(facts)
        return 0
    cli.say(f"{many(files, 'file')} in {tilde(where)} ({human_size(size)})")
    for name in passed_over:
        cli.note(f"left out, it cannot be read or named: {safe(name)}")
    cli.note(f"to bring it back: hermes import {tilde(where)}")
    return 0


async def _copy(args: argparse.Namespace, cli: Cli, now: datetime) -> BackupResult:
    kind = QUICK if args.quick else FULL
    target = output_file(args.output, cli.home, now)
    progress = progress_on(cli, "packing")
    return await copy_home(cli.home, target, now, kind=kind, label=args.label, progress=progress)


def output_file(asked: Path | None, home: Home, now: datetime) -> Path:
    """Return the path of an archive: the requested file, or one with a default name."""
    profile = "" if home.is_default else f"{home.profile}-"
    name = f"hermes-backup-{profile}{now:%Y%m%d-%H%M%S}.zip"
    if asked is None:
        return Path.cwd() / name
    try:
        path = asked.expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(f"cannot tell where {asked} is") from error
    return path / name if path.is_dir() else path


def _note_remote_store(cli: Cli) -> None:
    if cli.load().settings.store.url:
        cli.note("note: sessions are on a PostgreSQL server and not in it; pg_dump copies those")


BACKUP = Command(configure_backup, run_backup)


# `hermes import`: restore an archive of `hermes backup`.

SHOWN = 6
IMPORT_DESCRIPTION = """\
Bring back what `hermes backup` wrote. What the archive has takes the place of what is here under
the same name, a folder as a whole; everything else stays. All of it comes or nothing. What is
replaced is kept as a snapshot first."""
IMPORT_EPILOG = """\
examples:
  hermes import hermes-backup-20260101-120000.zip
  hermes import hermes.zip --force       also over settings and sessions that are here
  hermes -p work import hermes.zip       into a profile

exit codes:
  0  done
  1  the archive is damaged, dangerous or from a later version; nothing was changed
  2  something is here already and --force was not given; nothing was changed
"""


def configure_import(parser: argparse.ArgumentParser) -> None:
    parser.description = IMPORT_DESCRIPTION
    parser.epilog = IMPORT_EPILOG
    parser.add_argument("zip", type=Path, metavar="ZIP", help="the archive")
    parser.add_argument("-f", "--force", action="store_true", help="replace what is here already")


def run_import(args: argparse.Namespace, cli: Cli) -> int:
    path = args.zip.expanduser()
    if cli.home.root.is_dir() and has_unfinished_restore(cli.home):
        finish_restore(cli.home)
    with open_archive(path) as archive:
        check_fits(cli.home, archive)
        in_the_way = conflicts(cli.home, archive)
        if in_the_way and not args.force:
            raise UsageError(
                f"{cli.home.display()} has these already: {_list_names(in_the_way)}",
                hint="--force replaces them; a snapshot of what is here is kept",
            )
        archive.check_content()
        if in_the_way:
            cli.note(f"what is here now is kept as {_snapshot_replaced(cli, archive)}")
    done = restore_archive(cli.home, path)
    facts = done.manifest
    cli.say(
        f"{many(len(facts.files), 'file')} ({human_size(done.size)}) are back in"
        f" {cli.home.display()}: {_list_names(done.units)}"
    )
    label = f", {safe(facts.label)}" if facts.label else ""
    cli.say(f"they are from {safe(facts.created)} (Hermes {safe(facts.hermes)}{label})")
    cli.note("a Hermes that is running should be started anew")
    return 0


def _snapshot_replaced(cli: Cli, archive: Archive) -> str:
    """Save the files that the import replaces as a snapshot; return its path."""
    now = datetime.now(UTC).astimezone()
    kind = archive.manifest.kind
    shelf = Snapshots(cli.home)
    if not contents(cli.home, kind).items:
        return "nothing"
    target = shelf.new_file("before import", now)
    copying = copy_home(
        cli.home,
        target,
        now,
        kind=kind,
        label="before import",
        progress=progress_on(cli, "keeping"),
    )
    asyncio.run(copying)
    shelf.prune(KEPT_SNAPSHOTS, spared=archive.where)
    return tilde(target)


def _list_names(units: list[str]) -> str:
    more = f" and {len(units) - SHOWN} more" if len(units) > SHOWN else ""
    return ", ".join(safe(unit) for unit in units[:SHOWN]) + more


IMPORT = Command(configure_import, run_import)
