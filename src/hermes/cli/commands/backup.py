"""`hermes backup`: the home in one private file."""

from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

from hermes.cli.context import Cli, Command, arg, flag
from hermes.cli.output import progress_on
from hermes.config.home import Home, tilde
from hermes.core.errors import UsageError
from hermes.ops import (
    KEPT_SNAPSHOTS,
    Archive,
    Snapshots,
    check_fits,
    conflicts,
    contents,
    copy_home,
    finish_restore,
    has_unfinished_restore,
    open_archive,
    restore_archive,
)
from hermes.ops.backup import FULL, QUICK
from hermes.tui import safe
from hermes.util.text import human_size, many


async def run_backup(args: Namespace, cli: Cli) -> None:
    now = datetime.now(UTC).astimezone()
    passed_over: tuple[str, ...] = ()
    if args.quick and args.output is None:
        taken = Snapshots(cli.home).create(args.label, now)
        where, files, size = taken.path, taken.files, taken.bytes
    else:
        copied = await copy_home(
            cli.home,
            output_file(args.output, cli.home, now),
            now,
            kind=QUICK if args.quick else FULL,
            label=args.label,
            progress=progress_on(cli, "packing"),
        )
        where, files, size = copied.path, len(copied.manifest.files), copied.bytes
        passed_over = copied.passed_over
        if cli.load().settings.store.url:
            cli.note("note: sessions are on a PostgreSQL server, not in it; pg_dump copies those")
    cli.emit(
        {"path": str(where), "files": files, "bytes": size, "passed_over": passed_over},
        f"{many(files, 'file')} in {tilde(where)} ({human_size(size)})",
    )
    if not args.json:
        for name in passed_over:
            cli.note(f"left out, it cannot be read or named: {safe(name)}")
        cli.note(f"to bring it back: hermes import {tilde(where)}")


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


BACKUP = Command(
    "backup",
    run_backup,
    """\
Write the home to one file: settings, keys, sessions, memories, skills, plugins, and the profiles
that live in it. It may be in use meanwhile. Left out are caches, logs, models, checkpoints and the
files of sandboxes. The file holds your keys: it is readable by you alone.""",
    arg("-o", "--output", type=Path, metavar="FILE", help="a new file, or a folder for it"),
    flag("-q", "--quick", help="settings, keys, memories and skills only"),
    arg("-l", "--label", default="", metavar="TEXT", help="what it is for"),
    json=True,
    epilog="""\
examples:
  hermes backup                        hermes-backup-DATE-TIME.zip in this folder
  hermes backup -o ~/safe/hermes.zip
  hermes backup -q -l "before the big change"
                                       settings, keys, memories and skills only, kept as a
                                       snapshot in the home (the newest 20 stay)
  hermes import hermes.zip             bring it back, here or on another machine
""",
)


# `hermes import`: restore an archive of `hermes backup`.

SHOWN = 6


async def run_import(args: Namespace, cli: Cli) -> None:
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
            cli.note(f"what is here now is kept as {await _snapshot_replaced(cli, archive)}")
    done = restore_archive(cli.home, path)
    facts = done.manifest
    cli.say(
        f"{many(len(facts.files), 'file')} ({human_size(done.size)}) are back in"
        f" {cli.home.display()}: {_list_names(done.units)}"
    )
    label = f", {safe(facts.label)}" if facts.label else ""
    cli.say(f"they are from {safe(facts.created)} (Hermes {safe(facts.hermes)}{label})")
    cli.note("a Hermes that is running should be started anew")


async def _snapshot_replaced(cli: Cli, archive: Archive) -> str:
    """Save the files that the import replaces as a snapshot; return its path."""
    now = datetime.now(UTC).astimezone()
    kind = archive.manifest.kind
    snapshots = Snapshots(cli.home)
    if not contents(cli.home, kind).items:
        return "nothing"
    target = snapshots.new_file("before import", now)
    progress = progress_on(cli, "keeping")
    await copy_home(cli.home, target, now, kind=kind, label="before import", progress=progress)
    snapshots.prune(KEPT_SNAPSHOTS, spared=archive.where)
    return tilde(target)


def _list_names(units: list[str]) -> str:
    more = f" and {len(units) - SHOWN} more" if len(units) > SHOWN else ""
    return ", ".join(safe(unit) for unit in units[:SHOWN]) + more


IMPORT = Command(
    "import",
    run_import,
    """\
Bring back what `hermes backup` wrote. What the archive has takes the place of what is here under
the same name, a folder as a whole; everything else stays. All of it comes or nothing. What is
replaced is kept as a snapshot first.""",
    arg("zip", type=Path, metavar="ZIP", help="the archive"),
    flag("-f", "--force", help="replace what is here already"),
    epilog="""\
examples:
  hermes import hermes-backup-20260101-120000.zip
  hermes import hermes.zip --force       also over settings and sessions that are here
  hermes -p work import hermes.zip       into a profile

exit codes:
  0  done
  1  the archive is damaged, dangerous or from a later version; nothing was changed
  2  something is here already and --force was not given; nothing was changed
""",
)
