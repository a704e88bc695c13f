"""`hermes skills`: find, install, look after and share skills."""

import argparse

from hermes.cli.actions import Actions, run_action
from hermes.cli.commands.skills import (
    care,
    find,
    history,
    install,
    look,
    settings,
    share,
    snapshot,
    taps,
    update,
)

PARTS = (look, find, install, update, care, history, settings, share, snapshot, taps)
"""Each adds its actions, in the order of the help text."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Find, install, look after and share skills.\n\n"
        "A skill elsewhere is named by an identifier: official/<category>/<name>, owner/repo/path\n"
        "of GitHub, skills-sh/<owner>/<repo>/<skill>, the address of a site or a git repository\n"
        "(…/repo.git#branch:folder), or ./folder."
    )
    actions = Actions(parser)
    for part in PARTS:
        part.add_actions(actions)


run = run_action
