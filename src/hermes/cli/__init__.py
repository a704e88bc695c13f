"""The command line: arguments, output, exit codes, and the start of conversations and services.

Each command is a module of `hermes.cli.commands`, which is imported when the command is called.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.cli.context import Cli
    from hermes.cli.scheduling import GatewayJobs
    from hermes.cli.session import open_session, subcommand_handlers
    from hermes.cli.terminal import LineMode
    # fmt: on
    # isort: on

__all__ = [
    "Cli", "GatewayJobs", "LineMode", "open_session", "subcommand_handlers",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
