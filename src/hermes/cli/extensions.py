"""Plugins and hooks at the command line."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from typing import TypeVar

from hermes.app.commands import COMMAND_REGISTRY
from hermes.app.extensions import Extensions, ReservedNames
from hermes.cli.context import Cli, Command
from hermes.cli.registry import COMMANDS
from hermes.config.loader import Loaded
from hermes.core.errors import HermesError, UsageError
from hermes.memory import describe_error

Consent = Callable[[str, str], Awaitable[bool]]
"""Asks whether a hook may run: its event and its command."""


def extended(loaded: Loaded, cli: Cli, consent: Consent | None = None) -> Extensions:
    """What plugins bring. Without `consent` nobody is asked about hooks."""
    slash = [name for each in COMMAND_REGISTRY for name in each.names]
    taken = ReservedNames(slash, [command.name for command in COMMANDS])
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


# Subcommands that plugins and the memory provider bring; looked for when no other fits.

T = TypeVar("T")
WITHOUT_ACTION = "_hermes_help"
"""Where the parsed arguments carry what shows the help."""


def find_command(name: str, profile: str | None) -> Command | None:
    cli = Cli.open(profile)
    loaded = cli.load()
    return _of_provider(name, loaded) or _of_plugin(name, loaded, cli)


def _of_plugin(name: str, loaded: Loaded, cli: Cli) -> Command | None:
    if not loaded.settings.plugins.enabled:
        return None
    found = extended(loaded, cli).cli_commands.get(name)
    return Command(found.setup, lambda args, _cli: found.act(args)) if found else None


def _of_provider(name: str, loaded: Loaded) -> Command | None:
    """`hermes <provider> …`, only while that provider is the one in use."""
    if name != loaded.settings.memory.provider:
        return None
    from hermes.memory import active_cli  # only the commands of a provider need the discovery

    active = active_cli(loaded)
    if active is None:
        return None
    _name, register = active

    def set_up(parser: argparse.ArgumentParser) -> None:
        _attempt(name, lambda: register(parser))
        parser.set_defaults(**{WITHOUT_ACTION: parser.format_help})

    return Command(set_up, lambda args, _cli: _attempt(name, lambda: _chosen(args)))


def _chosen(args: argparse.Namespace) -> int:
    """What `register_cli` put behind the subcommand: `func` by argparse's custom."""
    act = getattr(args, "func", None)
    if act is None:
        sys.stderr.write(getattr(args, WITHOUT_ACTION)())
        return UsageError.exit_code
    code = act(args)
    return code if isinstance(code, int) else 0


def _attempt(provider: str, work: Callable[[], T]) -> T:
    """In this thread: the command belongs to the user, who can end it with Ctrl-C."""
    try:
        return work()
    except (HermesError, BrokenPipeError):
        raise
    except Exception as error:  # whatever it is, it is the provider's
        raise HermesError(
            f"`hermes {provider}` of the memory provider {provider} failed:"
            f" {describe_error(error)}",
            hint="`hermes memory off` goes on without the provider",
        ) from error
