"""`hermes gateway`: chats on messaging platforms, the API server and scheduled work, always on."""

import argparse

from hermes.cli.actions import Actions, run_action
from hermes.cli.commands.gateway import install, look, process, setup

PARTS = (process, look, install, setup)
"""Each adds its actions, in the order of the help text."""

EPILOG = """\
examples:
  hermes gateway setup telegram          connect a platform, question by question
  hermes gateway run                     in this terminal, until Ctrl-C
  hermes gateway start                   in the background, or as the installed service
  hermes gateway install                 a service that starts with the machine
  hermes gateway status --json           who is connected, what waits

`status` exits with 1 when no gateway runs, `start` when none of its platforms could be connected.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "The gateway connects the agent to messaging platforms and runs scheduled work. There is\n"
        "one for each home; it may be stopped at any moment, nothing is lost."
    )
    parser.epilog = EPILOG
    actions = Actions(parser)
    for part in PARTS:
        part.add_actions(actions)


run = run_action
