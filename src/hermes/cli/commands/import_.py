"""`hermes import`: bring back what `hermes backup` wrote."""

import argparse
import asyncio
from datetime import UTC, datetime
from pathlib import Path

from hermes.cli.commands.sessions.access import shown_progress
from hermes.cli.context import Cli
from hermes.config.home import tilde
from hermes.core.errors import UsageError
from hermes.ops.backup import Archive, contents, copy_home, opened
from hermes.ops.restore import (
    KEPT,
    Snapshots,
    bring_back,
    check_fits,
    conflicts,
    finish,
    is_unfinished,
)
from hermes.tui.text import safe
from hermes.util.text import human_size, many

SHOWN = 6
DESCRIPTION = """\
Bring back what `hermes backup` wrote. What the archive has takes the place of what is here under
the same name, a folder as a whole; everything else stays. All of it comes or nothing. What is
replaced is kept as a snapshot first."""
EPILOG = """\
examples:
  hermes import hermes-backup-20260101-120000.zip
  hermes import hermes.zip --force       also over settings and sessions that are here
  hermes -p work import hermes.zip       into a profile

exit codes:
  0  done
  1  the archive is damaged, dangerous or from a later version; nothing was changed
  2  something is here already and --force was not given; nothing was changed
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument("zip", type=Path, metavar="ZIP", help="the archive")
    parser.add_argument("-f", "--force", action="store_true", help="replace what is here already")


def run(args: argparse.Namespace, cli: Cli) -> int:
    path = args.zip.expanduser()
    if cli.home.root.is_dir() and is_unfinished(cli.home):
        finish(cli.home)
    with opened(path) as archive:
        check_fits(cli.home, archive)
        in_the_way = conflicts(cli.home, archive)
        if in_the_way and not args.force:
            raise UsageError(
                f"{cli.home.display()} has these already: {_listed(in_the_way)}",
                hint="--force replaces them; a snapshot of what is here is kept",
            )
        archive.check_content()
        if in_the_way:
            cli.note(f"what is here now is kept as {_kept(cli, archive)}")
    done = bring_back(cli.home, path)
    facts = done.manifest
    cli.say(
        f"{many(len(facts.files), 'file')} ({human_size(done.size)}) are back in"
        f" {cli.home.display()}: {_listed(done.units)}"
    )
    label = f", {safe(facts.label)}" if facts.label else ""
    cli.say(f"they are from {safe(facts.created)} (Hermes {safe(facts.hermes)}{label})")
    cli.note("a Hermes that is running should be started anew")
    return 0


def _kept(cli: Cli, archive: Archive) -> str:
    """What is replaced, in an archive like the one that comes."""
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
        progress=shown_progress(cli, "keeping"),
    )
    asyncio.run(copying)
    shelf.prune(KEPT, spared=archive.where)
    return tilde(target)


def _listed(units: list[str]) -> str:
    more = f" and {len(units) - SHOWN} more" if len(units) > SHOWN else ""
    return ", ".join(safe(unit) for unit in units[:SHOWN]) + more
