"""`hermes backup`: the home in one private file."""

import argparse
import asyncio
from datetime import UTC, datetime
from pathlib import Path

from hermes.cli.commands.sessions.access import shown_progress
from hermes.cli.context import Cli
from hermes.config.home import Home, tilde
from hermes.core.errors import UsageError
from hermes.ops.backup import FULL, QUICK, Copied, copy_home
from hermes.ops.restore import Snapshots
from hermes.tui.text import safe
from hermes.util.text import human_size, many

DESCRIPTION = """\
Write the home to one file: settings, keys, sessions, memories, skills, plugins, and the profiles
that live in it. It may be in use meanwhile. Left out are caches, logs, models, checkpoints and the
files of sandboxes. The file holds your keys: it is readable by you alone."""
EPILOG = """\
examples:
  hermes backup                        hermes-backup-DATE-TIME.zip in this folder
  hermes backup -o ~/safe/hermes.zip
  hermes backup -q -l "before the big change"
                                       settings, keys, memories and skills only, kept as a
                                       snapshot in the home (the newest 20 stay)
  hermes import hermes.zip             bring it back, here or on another machine
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="a new file, or a folder for it"
    )
    parser.add_argument(
        "-q", "--quick", action="store_true", help="settings, keys, memories and skills only"
    )
    parser.add_argument("-l", "--label", default="", metavar="TEXT", help="what it is for")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace, cli: Cli) -> int:
    now = datetime.now(UTC).astimezone()
    passed_over: tuple[str, ...] = ()
    if args.quick and args.output is None:
        taken = Snapshots(cli.home).create(args.label, now)
        where, files, size = taken.path, taken.files, taken.bytes
    else:
        copied = asyncio.run(_copy(args, cli, now))
        where, files, size = copied.path, len(copied.manifest.files), copied.bytes
        passed_over = copied.passed_over
        _note_server(cli)
    if args.json:
        facts = {"path": str(where), "files": files, "bytes": size, "passed_over": passed_over}
        cli.json(facts)
        return 0
    cli.say(f"{many(files, 'file')} in {tilde(where)} ({human_size(size)})")
    for name in passed_over:
        cli.note(f"left out, it cannot be read or named: {safe(name)}")
    cli.note(f"to bring it back: hermes import {tilde(where)}")
    return 0


async def _copy(args: argparse.Namespace, cli: Cli, now: datetime) -> Copied:
    kind = QUICK if args.quick else FULL
    target = output_file(args.output, cli.home, now)
    progress = shown_progress(cli, "packing")
    return await copy_home(cli.home, target, now, kind=kind, label=args.label, progress=progress)


def output_file(asked: Path | None, home: Home, now: datetime) -> Path:
    """Where an archive goes: the file asked for, or one with a name that says what it is."""
    profile = "" if home.is_default else f"{home.profile}-"
    name = f"hermes-backup-{profile}{now:%Y%m%d-%H%M%S}.zip"
    if asked is None:
        return Path.cwd() / name
    try:
        path = asked.expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(f"cannot tell where {asked} is") from error
    return path / name if path.is_dir() else path


def _note_server(cli: Cli) -> None:
    if cli.load().settings.store.url:
        cli.note("note: sessions are on a PostgreSQL server and not in it; pg_dump copies those")
