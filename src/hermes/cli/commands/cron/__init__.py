"""`hermes cron`: scheduled work."""

import argparse

from hermes.cli.actions import Actions, run_action
from hermes.cli.commands.cron import change, look, tick

EPILOG = """\
examples:
  hermes cron create "every 2h" "Summarise new mail" --deliver telegram
  hermes cron create "0 9 * * 1-5" "What is on today?" --name morning --skill calendar
  hermes cron create 30m "Remind me to stretch"
  hermes cron create 2030-01-31T09:00 "Wish Ada a happy birthday" --deliver telegram:CHAT
  hermes cron runs morning
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Jobs: at its time a new session gets the prompt, and its answer is delivered.\n"
        "They run while the gateway or a chat is open, or when `hermes cron tick` is called.\n\n"
        "A job is named by its id, the beginning of it, or its name."
    )
    parser.epilog = EPILOG
    actions = Actions(parser)
    for part in (look, change, tick):
        part.add_actions(actions)


run = run_action
