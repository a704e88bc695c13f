"""`hermes memory`: what the agent remembers, where, for whom; and the provider it may have."""

import argparse

from hermes.cli.actions import Actions, run_action
from hermes.cli.commands.memory import change, look, overview, setup, trial

PARTS = (look, change, setup, overview, trial)
"""Each adds its actions, in the order of the help text."""

EPILOG = """\
examples:
  hermes memory                          what is stored, where, for whom
  hermes memory show editor              what is remembered about a word
  hermes memory forget "likes tea"       delete one thing for good
  hermes memory setup holographic        facts in a file of your own
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "See what the agent remembers, change and delete it, and choose a memory provider.\n\n"
        "Notes are files of the agent: `memory` and `user` about you, `project` and `chat`. A\n"
        "provider remembers more than that; at most one is in use."
    )
    parser.epilog = EPILOG
    actions = Actions(parser)
    parser.set_defaults(act=overview.overview, json=False)
    for part in PARTS:
        part.add_actions(actions)


run = run_action
