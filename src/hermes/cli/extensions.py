"""Plugins, hooks and the subcommands they add, at the command line."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from typing import TypeVar

from hermes.app import COMMAND_REGISTRY, Extensions, ReservedNames
from hermes.cli.context import Cli, Command
from hermes.cli.main import COMMANDS
from hermes.config.loader import Loaded
from hermes.core.approval_text import hook_request, render_approval
from hermes.core.errors import HermesError, UsageError
from hermes.plugins import describe_error

HookApprover = Callable[[str, str], Awaitable[bool]]
"""Asks the user to approve a hook, given its event and its command."""


def load_extensions(
    loaded: Loaded, cli: Cli, approve_hook: HookApprover | None = None
) -> Extensions:
    """Load the plugins. Without `approve_hook` hooks that need approval do not run."""
    return Extensions(cli.home, loaded, cli.note, ask=approve_hook, taken=_reserved_names)


def _reserved_names() -> ReservedNames:
    slash = [name for each in COMMAND_REGISTRY for name in each.names]
    return ReservedNames(slash, [command.name for command in COMMANDS])


def inspect_extensions(loaded: Loaded, cli: Cli) -> Extensions:
    """Load the plugins to list what they add, then close them. Their output goes to stderr."""
    with redirect_stdout(cli.stderr):
        extensions = load_extensions(loaded, cli)
    asyncio.run(extensions.close())
    return extensions


def ask_hook_approval(cli: Cli) -> HookApprover:
    async def approve(event: str, command: str) -> bool:
        for line in render_approval(hook_request(event, command)).lines:
            cli.say(line)
        return cli.confirm("Allow it, now and later?")

    return approve


# Subcommands of plugins and of the memory provider. They are searched last.

T = TypeVar("T")
HELP_DEST = "_hermes_help"
"""Name of the parsed argument that holds the function for the help text."""


def find_command(name: str, profile: str | None) -> Command | None:
    cli = Cli.open(profile)
    loaded = cli.load()
    if (command := _provider_command(name, loaded)) or not loaded.settings.plugins.enabled:
        return command
    found = load_extensions(loaded, cli).cli_commands.get(name)
    return Command(name, lambda args, _cli: found.act(args), setup=found.setup) if found else None


def _provider_command(name: str, loaded: Loaded) -> Command | None:
    """Return `hermes <provider> …` if that provider is in use."""
    if name != loaded.settings.memory.provider:
        return None
    from hermes.memory import active_cli  # only the commands of a provider need the discovery

    active = active_cli(loaded)
    if active is None:
        return None
    _name, register = active

    def set_up(parser: argparse.ArgumentParser) -> None:
        _report_failure(name, lambda: register(parser))
        parser.set_defaults(**{HELP_DEST: parser.format_help})

    def run(args: argparse.Namespace, _cli: Cli) -> int:
        """Run the subcommand that `register_cli` set as `func`, as is usual with argparse."""
        act = getattr(args, "func", None)
        if act is None:
            sys.stderr.write(getattr(args, HELP_DEST)())
            return UsageError.exit_code
        code = _report_failure(name, lambda: act(args))
        return code if isinstance(code, int) else 0

    return Command(name, run, setup=set_up)


def _report_failure(provider: str, work: Callable[[], T]) -> T:
    """Call `work` in this thread, so that Ctrl-C ends it, and report its failure."""
    try:
        return work()
    except (HermesError, BrokenPipeError):
        raise
    except Exception as error:  # code of the provider can raise anything
        raise HermesError(
            f"`hermes {provider}` of the memory provider {provider} failed:"
            f" {describe_error(error)}",
            hint="to continue without the provider: hermes memory off",
        ) from error
