"""terminal: run a shell command."""

import re
from typing import Any

from hermes.core.errors import ToolTimedOut
from hermes.core.tool import Concern, Effect, Tool, ToolContext
from hermes.security.commands import examine_command, one_concern
from hermes.security.paths import Guard
from hermes.terminal.base import CommandResult, Shell

LONGEST_TIMEOUT = 3_600

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\^_])")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n|$)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def terminal_tool(shell: Shell, guard: Guard, *, timeout: int = 180, examined: bool = True) -> Tool:
    """`timeout` is the setting `terminal.timeout`.

    `examined` is False where the backend itself is the boundary (a container): no question then.
    """

    async def terminal(
        call: ToolContext, command: str, timeout: int = timeout, workdir: str = ""
    ) -> str:
        """Run a shell command. Folder and exported variables persist between calls.

        timeout: seconds until the command is stopped
        workdir: folder for this command only
        """
        before, seconds = shell.cwd, min(max(timeout, 1), LONGEST_TIMEOUT)
        result = await shell.run(
            command,
            timeout=seconds,
            cwd=workdir or None,
            on_output=call.output,
            cancel=call.cancel,
        )
        if result.timed_out:
            raise ToolTimedOut(
                f"the command was stopped after {seconds} s. Its output:\n{plain(result.output)}",
                hint="give a longer timeout, or start it with & and its output in a file",
            )
        return _report(result, shell.cwd if shell.cwd != before else "")

    def examine(arguments: dict[str, Any]) -> Concern | None:
        folder = str(arguments.get("workdir") or shell.cwd)
        command = str(arguments.get("command", ""))
        return one_concern(examine_command(command, guard, guard.real(folder, shell.cwd)))

    fields: dict[str, Any] = {"examine": examine} if examined else {}
    return Tool.from_function(
        terminal, effect=Effect.EXECUTE, toolset="terminal", serial=True, **fields
    )


def plain(output: str) -> str:
    """Output as a person would see it: no colours, no overwritten progress lines."""
    text = _ESCAPES.sub("", output).replace("\r\n", "\n")
    return _CONTROLS.sub("", _OVERWRITTEN.sub("", text)).rstrip()


def _report(result: CommandResult, moved_to: str) -> str:
    parts = [plain(result.output) or "[no output]"]
    if result.exit_code:
        parts.append(f"[exit code {result.exit_code}]")
    if moved_to:
        parts.append(f"[now in {moved_to}]")
    return "\n".join(parts)
