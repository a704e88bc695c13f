"""`hermes dump`: a short summary for a bug report."""

import argparse
import asyncio

from hermes.cli.context import Cli
from hermes.ops.debug_report import summary
from hermes.ops.doctor.check import best_settings
from hermes.tui.text import safe

EPILOG = """\
examples:
  hermes dump
  hermes dump --show-keys    with the first and last four characters of long keys

Values of keys, personal paths, names and e-mail addresses are not in it. `hermes debug share`
makes a file with this and the ends of the log files.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print a summary for a bug report: versions, model, settings, keys."
    parser.epilog = EPILOG
    parser.add_argument(
        "--show-keys", action="store_true", help="show the ends of keys, to tell them apart"
    )


def run(args: argparse.Namespace, cli: Cli) -> int:
    text = asyncio.run(summary(cli.home, best_settings(cli.home), show_keys=args.show_keys))
    cli.say(safe(text))
    return 0
