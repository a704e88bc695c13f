"""`hermes debug share`: a file for a bug report, with everything secret and personal taken out."""

import argparse
import asyncio
from pathlib import Path

from hermes.cli.actions import Actions, run_action
from hermes.cli.context import Cli
from hermes.config.home import tilde
from hermes.core.errors import UsageError
from hermes.ops.debug_report import bundle_path, parts, write
from hermes.ops.doctor.check import best_settings
from hermes.util.text import human_size, many

EPILOG = """\
examples:
  hermes debug share
  hermes debug share --lines 500 -o report.tar.gz

Keys, tokens, passwords, e-mail addresses, telephone numbers, your name and the path of your folder
are taken out; conversations are not in it. Look through the file before you send it to anybody.
"""

MOST_LINES = 10_000
DAYS = 7

run = run_action


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Make a report of what is wrong, for somebody who can help."
    share = Actions(parser).add(
        "share",
        _share,
        "write a file with a summary and the ends of the log files",
        epilog=EPILOG,
    )
    share.add_argument(
        "--lines", type=int, default=200, metavar="N", help="lines of each log file (200)"
    )
    share.add_argument(
        "--expire",
        type=int,
        default=None,
        metavar="DAYS",
        help=f"how long an uploaded report is kept ({DAYS}); without an upload service it has no"
        " effect: the file stays until you delete it",
    )
    share.add_argument("--local", action="store_true", help="only the file, without the remark")
    share.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="a text, or an archive (.tar.gz)"
    )


def _share(args: argparse.Namespace, cli: Cli) -> int:
    if not 0 <= args.lines <= MOST_LINES:
        raise UsageError(f"--lines must be 0 to {MOST_LINES}")
    if args.expire is not None and args.expire < 1:
        raise UsageError("--expire must be at least 1 day")
    found = asyncio.run(parts(cli.home, best_settings(cli.home), args.lines))
    path = args.output.expanduser() if args.output else bundle_path(cli.home)
    write(path, found)
    cli.say(f"{tilde(path.absolute())} ({human_size(path.stat().st_size)}) holds")
    for part in found:
        cli.say(f"  {part.name:<12} {many(part.text.count(chr(10)) + 1, 'line')}")
    if not args.local:
        cli.say("Nothing was sent: there is no upload service. Look through the file, then attach")
        cli.say("it to your report. Secrets and personal things were taken out of it.")
        if args.expire is not None:
            cli.say("--expire has no effect on a file: delete it when it is no longer needed.")
    return 0
