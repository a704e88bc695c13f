"""Plugins and hooks at the command line."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout

from hermes.app.commands import COMMAND_REGISTRY
from hermes.app.extensions import Extensions, Taken
from hermes.cli.context import Cli
from hermes.cli.registry import COMMANDS
from hermes.config.loader import Loaded

Consent = Callable[[str, str], Awaitable[bool]]
"""Asks whether a hook may run: its event and its command."""


def extended(loaded: Loaded, cli: Cli, consent: Consent | None = None) -> Extensions:
    """What plugins bring. Without `consent` nobody is asked about hooks."""
    slash = [name for each in COMMAND_REGISTRY for name in each.names]
    taken = Taken(slash, [command.name for command in COMMANDS])
    return Extensions(cli.home, loaded, cli.note, ask=consent, taken=taken)


def looked_at(loaded: Loaded, cli: Cli) -> Extensions:
    """What plugins bring, only to see it. What they print is not mixed with what is shown."""
    with redirect_stdout(cli.stderr):
        extensions = extended(loaded, cli)
    asyncio.run(extensions.close())
    return extensions


def asked_in_lines(cli: Cli) -> Consent:
    async def consent(event: str, command: str) -> bool:
        cli.say(f"A hook of your settings wants to run at {event}:\n  {command}")
        return cli.ask("Let it, now and later? [y/N] ").strip().lower() in ("y", "yes")

    return consent
