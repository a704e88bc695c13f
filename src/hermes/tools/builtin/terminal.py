"""The tool `terminal`: run a shell command."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

from hermes.core.errors import ToolTimedOut
from hermes.core.tool import Concern, Effect, Tool, ToolContext
from hermes.security import PathGuard, examine_command, is_read_only, merge_concerns
from hermes.terminal import (
    BackgroundProcesses,
    CommandResult,
    OutputLimits,
    Shell,
    plain_text,
    run_in_terminal,
)
from hermes.tools.registry import ToolDeps, ToolEntry

# Exit codes that look like failures but are not, or that hide what failed.
_PROGRAM_CODES = (
    (r"(e|f|z)?grep|rg|ag|ack", 1, "nothing matched; this is not an error"),
    (r"diff|cmp|colordiff", 1, "the files differ; this is not an error"),
    (r"test|\[|\[\[", 1, "the condition is false"),
    (r"which|type|pgrep|pidof", 1, "nothing found"),
    (r"timeout", 124, "`timeout` ended it"),
    (r"curl", 6, "the host name is not known"),
    (r"curl", 7, "the connection was refused"),
    (r"curl", 22, "the server answered with an error"),
    (r"curl", 28, "it took too long"),
    (r"pytest", 5, "no test was found"),
)
_GENERAL_CODES = {
    126: "found, but it cannot be executed",
    127: "command not found",
    137: "killed, often for lack of memory",
    139: "it crashed: segmentation fault",
    141: "the reader of its output ended first",
}
_SEPARATORS = re.compile(r"[;|&\n]+")
_PREFIXES = re.compile(r"^(\s|!\s|\w+=\S*\s|(sudo|command|time|env|nice)\s|git (?=diff|grep)|\()*")


def exit_note(command: str, code: int) -> str:
    """Explain an exit code, or return "". The last program of the command determines the code."""
    pieces = [piece for piece in _SEPARATORS.split(command) if piece.strip()]
    last = _PREFIXES.sub("", pieces[-1]) if pieces else ""
    program = re.split(r"[\s;)]", last, maxsplit=1)[0].rpartition("/")[2]
    for names, known, meaning in _PROGRAM_CODES:
        if code == known and re.fullmatch(names, program):
            return meaning
    return _GENERAL_CODES.get(code, "")


MAX_TIMEOUT = 3_600

Transform = Callable[[str], Awaitable[str]]


def terminal_tool(
    shell: Shell,
    processes: BackgroundProcesses,
    guard: PathGuard,
    *,
    timeout: int = 180,
    isolated: bool = False,
    transform: Transform | None = None,
    limits: OutputLimits | None = None,
) -> Tool:
    """Make the tool. `timeout` is the setting `terminal.timeout`, `limits` is `tool_output`.

    `isolated`: the backend is the boundary (a container), so only commands that no approval can
    allow are denied. `transform` lets plugins change the output of a command.
    """

    async def terminal(
        call: ToolContext,
        command: str,
        background: bool = False,
        timeout: int = timeout,
        workdir: str = "",
        pty: bool = False,
        notify_on_complete: bool = False,
        watch_patterns: tuple[str, ...] = (),
    ) -> str:
        """Run a shell command. Folder and exported variables persist between calls.

        background: for servers and long work; returns an id for the process tool
        timeout: seconds until the command is stopped
        workdir: folder for this command only
        pty: in a pseudo-terminal; what it changes does not persist
        notify_on_complete: background only: say when it ends
        watch_patterns: background only: say when an output line contains one of these
        """
        cwd = workdir or None
        if background:
            started = await processes.start(
                command, cwd=cwd, pty=pty, notify=notify_on_complete, watch_patterns=watch_patterns
            )
            return _started_text(started, notifies=notify_on_complete)
        before, seconds = shell.cwd, min(max(timeout, 1), MAX_TIMEOUT)
        if pty:
            result = await run_in_terminal(
                shell,
                command,
                timeout=seconds,
                cwd=cwd,
                on_output=call.output,
                cancel=call.cancel,
                limits=limits or OutputLimits(),
            )
        else:
            result = await shell.run(
                command, timeout=seconds, cwd=cwd, on_output=call.output, cancel=call.cancel
            )
        output = plain_text(result.output)
        if transform is not None:
            output = await transform(output)
        if result.timed_out:
            raise ToolTimedOut(
                f"the command was stopped after {seconds} s. Its output:\n{output}",
                hint="give a longer timeout, or run it with background=true",
            )
        return _format_result(command, result, output, shell.cwd if shell.cwd != before else "")

    async def examine(arguments: dict[str, Any]) -> Concern | None:
        folder = str(arguments.get("workdir") or shell.cwd)
        command = str(arguments.get("command", ""))
        return command_concern(command, guard, guard.resolve(folder, shell.cwd), isolated=isolated)

    kind: dict[str, Any] = {"effect": Effect.EXECUTE, "toolset": "terminal", "serial": True}
    return Tool.from_function(terminal, examine=examine, changes=_may_change, **kind)


def _may_change(arguments: dict[str, Any]) -> bool:
    return not is_read_only(str(arguments.get("command", "")))


def command_concern(
    command: str, guard: PathGuard, folder: str, *, isolated: bool
) -> Concern | None:
    """Combine all concerns about `command`; in an isolated backend only refusals count."""
    found = examine_command(command, guard, folder)
    return merge_concerns([concern for concern in found if concern.refused or not isolated])


def _started_text(process_id: str, *, notifies: bool) -> str:
    end = "you will be told when it ends" if notifies else "action='wait' waits for its end"
    return (
        f"[started in the background: {process_id}]\n"
        f"process(action='poll', session_id='{process_id}') shows its output; {end}"
    )


def _format_result(command: str, result: CommandResult, output: str, moved_to: str) -> str:
    parts = [output or "[no output]"]
    if result.exit_code:
        note = exit_note(command, result.exit_code)
        parts.append(f"[exit code {result.exit_code}{': ' + note if note else ''}]")
    if result.truncated:
        parts.append("[the middle of the output was cut; send it to a file to read all of it]")
    if moved_to:
        parts.append(f"[now in {moved_to}]")
    return "\n".join(parts)


def make(deps: ToolDeps) -> Tool:
    return terminal_tool(
        deps.place.shell,
        deps.processes,
        deps.guard,
        timeout=int(deps.settings.terminal.timeout),
        isolated=deps.place.isolated,
        transform=deps.transform_output,
        limits=deps.limits,
    )


ENTRY = ToolEntry("terminal", "terminal", make, emoji="💻")
