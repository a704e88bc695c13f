"""A conversation: `hermes chat`."""

import argparse
from typing import Any

from hermes.cli.context import Cli
from hermes.cli.hermes_cli import HermesCLI
from hermes.config.environment import term_is_dumb
from hermes.config.loader import Loaded


async def converse(loaded: Loaded, args: argparse.Namespace, cli: Cli, talk: Any) -> int:
    """The exit code. `talk` leads it, when it is another `HermesCLI` than ours."""
    plainly = args.plain or loaded.settings.display.plain or term_is_dumb()
    leader: HermesCLI = talk or HermesCLI()
    code: int = await leader.talk(loaded, args, cli, plainly=plainly and not args.tui)
    return code
