"""Plugins and hooks at the command line."""

from hermes.app.extensions import Extensions, Taken
from hermes.cli.context import Cli
from hermes.cli.registry import COMMANDS
from hermes.config.loader import Loaded

SLASH = ("rollback", "compress", "new", "reset", "quit", "exit", "q")
"""The slash commands of a conversation."""


def extended(loaded: Loaded, cli: Cli, *, ask: bool) -> Extensions:
    """What plugins bring. With `ask` the user is asked about hooks."""

    async def consent(event: str, command: str) -> bool:
        cli.say(f"A hook of your settings wants to run at {event}:\n  {command}")
        return cli.ask("Let it, now and later? [y/N] ").strip().lower() in ("y", "yes")

    taken = Taken(SLASH, [command.name for command in COMMANDS])
    asking = consent if ask else None
    return Extensions(cli.home, loaded, cli.note, ask=asking, taken=taken)
