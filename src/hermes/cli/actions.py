"""The actions of a subcommand, such as `set` in `hermes config set`."""

import argparse
from collections.abc import Callable
from typing import Any

from hermes.cli.context import Cli

Act = Callable[[argparse.Namespace, Cli], int]


class Actions:
    """Adds actions to a subcommand's parser. Called without one, the subcommand shows its help."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        parser.set_defaults(act=_help, help_text=parser.format_help)
        self._parsers = parser.add_subparsers(title="actions", metavar="ACTION")

    def add(
        self, name: str, act: Act, summary: str, *, json: bool = False, **options: Any
    ) -> argparse.ArgumentParser:
        """The parser of a new action; with `json` it has the flag `--json`."""
        parser = self._parsers.add_parser(
            name,
            help=summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **{"description": summary, **options},
        )
        parser.set_defaults(act=act)
        if json:
            parser.add_argument("--json", action="store_true", help="as JSON")
        return parser


def run_action(args: argparse.Namespace, cli: Cli) -> int:
    """The `run` of a subcommand that has actions."""
    act: Act = args.act
    return act(args, cli)


def _help(args: argparse.Namespace, cli: Cli) -> int:
    cli.say(args.help_text().rstrip())
    return 0
