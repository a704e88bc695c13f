"""`hermes mcp`: servers that give the agent more tools."""

import argparse

from hermes.cli.actions import Actions, run_action
from hermes.cli.commands.mcp import add, choose, look, remove, sign_in, trial

PARTS = (add, look, trial, choose, remove, sign_in)
"""Each adds its actions, in the order of the help text."""

EPILOG = """\
examples:
  hermes mcp add time --command uvx --args mcp-server-time
  hermes mcp add tickets --url https://tickets.example.com/mcp --auth oauth
  hermes mcp list
  hermes mcp test time
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Add MCP servers, see what they offer, choose their tools, and sign in to them.\n\n"
        "A server is a program on this machine (--command) or a service behind a web address\n"
        "(--url). They stand in config.yaml under mcp_servers. Alone this shows the list."
    )
    parser.epilog = EPILOG
    actions = Actions(parser)
    parser.set_defaults(act=look.list_servers, json=False)
    for part in PARTS:
        part.add_actions(actions)


run = run_action
