"""Which program is started."""

import shlex
from collections.abc import Callable
from pathlib import Path

COMMAND_VARS = ("HERMES_COPILOT_ACP_COMMAND", "COPILOT_CLI_PATH")
ARGS_VAR = "HERMES_COPILOT_ACP_ARGS"

_PROGRAM = "copilot"
_SPEAK = ("--acp", "--stdio")
_NO_HANDS = ("--available-tools=none", "--disable-builtin-mcps", "--no-custom-instructions")
"""Leaves the model of the Copilot CLI without its own tools and texts: it cannot reach for them,
and each call is some 6,000 tokens shorter."""


def agent_command(variable: Callable[[str], str | None]) -> tuple[str, ...]:
    """The program and its arguments. `variable` gives a variable, or None when it is not set.

    Arguments the user wrote are taken as they are; those we add are only known to Copilot.
    """
    program = next(filter(None, map(variable, COMMAND_VARS)), _PROGRAM)
    if written := variable(ARGS_VAR):
        return (program, *shlex.split(written))
    is_copilot = Path(program).name.startswith(_PROGRAM)
    return (program, *_SPEAK, *(_NO_HANDS if is_copilot else ()))
