"""`hermes version`."""

import argparse
import platform

from hermes import __version__
from hermes.cli.context import Cli


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show the version of hermes and of what it runs on."
    parser.add_argument("--json", action="store_true", help="as a JSON object")


def run(args: argparse.Namespace, cli: Cli) -> int:
    facts = {
        "hermes": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "home": str(cli.home.root),
    }
    if args.json:
        cli.json(facts)
    else:
        for name, value in facts.items():
            cli.say(f"{name:<8} {value}")
    return 0
