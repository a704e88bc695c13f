"""`hermes sessions`: find, read, carry, tidy and look after past conversations."""

import argparse

from hermes.cli.actions import Actions, run_action
from hermes.cli.commands.sessions import (
    browse,
    care,
    carry,
    change,
    find,
    look,
    remove,
    usage,
)

PARTS = (look, browse, find, usage, change, carry, remove, care)
"""Each adds its actions, in the order of the help text."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Find, read, export and tidy past conversations.\n\n"
        "A session is named by its id, the beginning of it, or its title."
    )
    actions = Actions(parser)
    for part in PARTS:
        part.add_actions(actions)


run = run_action
