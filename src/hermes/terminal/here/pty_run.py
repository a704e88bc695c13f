"""A command in a terminal of its own, in the foreground."""

import asyncio
import contextlib
from collections.abc import Callable

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolError
from hermes.terminal.base import CommandResult, Shell
from hermes.terminal.capture import Capture
from hermes.terminal.output import OutputLimits

TIMED_OUT = 124


async def run_in_terminal(
    shell: Shell,
    command: str,
    *,
    timeout: float,
    cwd: str | None,
    on_output: Callable[[str], None],
    cancel: CancelToken,
    limits: OutputLimits,
) -> CommandResult:
    """Like `Shell.run`, but in a terminal, and what it changes of the session stays its own."""
    with cancel.scope():
        capture = Capture(limits, on_output)
        program = await shell.start(command, cwd=cwd, on_output=capture.add, pty=True)
        code = None
        try:
            async with asyncio.timeout(timeout):
                with contextlib.suppress(ToolError):  # it has ended already
                    await program.close_input()
                code = await program.wait()
        except TimeoutError:
            code = None
        finally:
            if code is None:
                await program.stop()
            output, truncated = capture.finish()
        timed_out = code is None
        return CommandResult(TIMED_OUT if code is None else code, output, timed_out, truncated)
