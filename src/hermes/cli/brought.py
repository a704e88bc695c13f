"""Subcommands that plugins and the memory provider bring; looked for when no other fits."""

import argparse
import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec

from hermes.cli.context import Cli
from hermes.cli.extending import extended
from hermes.config.loader import Loaded
from hermes.core.errors import HermesError, UsageError
from hermes.memory import describe_error

T = TypeVar("T")
WITHOUT_ACTION = "_hermes_help"
"""Where the parsed arguments carry what shows the help."""


class Brought(msgspec.Struct, frozen=True):
    """Looks like a module of `hermes.cli.commands`."""

    setup: Callable[[argparse.ArgumentParser], None]
    act: Callable[[argparse.Namespace], int]

    def configure(self, parser: argparse.ArgumentParser) -> None:
        self.setup(parser)

    def run(self, args: argparse.Namespace, _cli: Cli) -> int:
        return self.act(args)


def find(name: str, profile: str | None) -> Brought | None:
    cli = Cli.open(profile)
    loaded = cli.load()
    return _of_provider(name, loaded) or _of_plugin(name, loaded, cli)


def _of_plugin(name: str, loaded: Loaded, cli: Cli) -> Brought | None:
    if not loaded.settings.plugins.enabled:
        return None
    found = extended(loaded, cli).cli_commands.get(name)
    return Brought(found.setup, found.act) if found else None


def _of_provider(name: str, loaded: Loaded) -> Brought | None:
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

    return Brought(set_up, lambda args: _attempt(name, lambda: _chosen(args)))


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
