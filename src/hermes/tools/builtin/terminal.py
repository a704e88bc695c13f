"""The tool `terminal`: run a shell command."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from hermes.core.errors import ToolTimedOut
from hermes.core.model import ToolSpec
from hermes.core.tool import Concern, Effect, StructuredText, ToolContext
from hermes.security import examine_command, is_read_only, merge_concerns, sends_to_allowed
from hermes.terminal import CommandResult, plain_text, run_beside
from hermes.tools.registry import ToolDeps, tool
from hermes.util.lazy import late_pattern

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
_SEPARATORS = late_pattern(r"[;|&\n]+")
_PREFIXES = late_pattern(
    r"^(\s|!\s|\w+=\S*\s|(sudo|command|time|env|nice)\s|git (?=diff|grep)|\()*"
)


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
NO_SUDO = (
    "[commands cannot become root: they are kept from Hermes' own files. The user can change this"
    " with `hermes config set security.boundary none`]"
)


UPLOAD = "upload"  #: The class of commands that send something to another machine.


async def _examine(deps: ToolDeps, arguments: dict[str, Any]) -> Concern | None:
    command, folder = str(arguments.get("command", "")), _folder(deps, arguments)
    return command_concern(command, deps, folder, deps.place.variables())


def _edits(deps: ToolDeps, arguments: dict[str, Any]) -> str:
    from hermes.security import examine  # loads tree-sitter, which the start does not need

    command, folder = str(arguments.get("command", "")), _folder(deps, arguments)
    examined = examine(command, deps.guard, folder, deps.place.variables())
    return command if examined.edits else ""


def _folder(deps: ToolDeps, arguments: dict[str, Any]) -> str:
    cwd = deps.place.shell.cwd
    return deps.guard.resolve(str(arguments.get("workdir") or cwd), cwd)


def command_concern(
    command: str, deps: ToolDeps, folder: str, variables: Mapping[str, str]
) -> Concern | None:
    """Combine all concerns about `command` in a shell with these variables. An isolated backend is
    the boundary, so there only commands that no approval can allow count."""
    found = examine_command(command, deps.guard, folder, variables)
    allowed = deps.settings.security.egress_allow
    if any(each.kind == UPLOAD for each in found) and allowed:
        listed = sends_to_allowed(command, allowed, deps.guard, folder)
        found = [each for each in found if each.kind != UPLOAD or not listed]
    found += filter(None, (unprotected_concern(deps, "terminal", command),))
    concern = merge_concerns([each for each in found if each.refused or not deps.place.isolated])
    if concern is None or deps.guard.here:
        return concern
    # A rule for a folder of another machine does not apply to the same path on this one.
    return msgspec.structs.replace(concern, folder=f"{deps.place.name}:{folder}")


def unprotected_concern(deps: ToolDeps, tool_name: str, subject: str) -> Concern | None:
    """Return a concern where nothing keeps a program from Hermes' own files."""
    effects = deps.settings.approvals.effects
    if (effects.get(tool_name) or effects.get(Effect.EXECUTE)) == "allow" or deps.place.protected():
        return None
    return Concern(
        "unprotected command",
        subject,
        "nothing on this system keeps commands from Hermes' own settings and keys",
    )


def _set_default_timeout(deps: ToolDeps, spec: ToolSpec) -> ToolSpec:
    properties = spec.parameters["properties"]
    timeout = {
        "type": "integer",
        "default": int(deps.settings.terminal.timeout),
        "description": properties["timeout"]["description"],
    }
    parameters = {**spec.parameters, "properties": {**properties, "timeout": timeout}}
    return msgspec.structs.replace(spec, parameters=parameters)


@tool(
    toolset="terminal",
    effect=Effect.EXECUTE,
    adapt=_set_default_timeout,
    examine=_examine,
    edits=_edits,
    changes=lambda arguments: not is_read_only(str(arguments.get("command", ""))),
    serial=True,
    emoji="💻",
)
async def terminal(
    deps: ToolDeps,
    call: ToolContext,
    command: str,
    background: bool = False,
    timeout: int | None = None,
    workdir: str = "",
    pty: bool = False,
    notify_on_complete: bool = False,
    watch_patterns: tuple[str, ...] = (),
) -> str:
    """Run a shell command. The folder and exported variables persist between calls.

    background: for servers and long work; returns an id for the process tool
    timeout: seconds until the command is stopped
    workdir: folder for this command only
    pty: run it in a pseudo-terminal; its changes do not persist
    notify_on_complete: background only: report when it ends
    watch_patterns: background only: report when an output line contains one of these
    """
    shell, cwd = deps.place.shell, workdir or None
    if background:
        process_id = await deps.processes.start(
            command, cwd=cwd, pty=pty, notify=notify_on_complete, watch_patterns=watch_patterns
        )
        end = "action='wait' waits for its end"
        text = (
            f"[started in the background: {process_id}]\n"
            f"process(action='poll', session_id='{process_id}') shows its output; "
            f"{'you get a message when it ends' if notify_on_complete else end}"
        )
        return StructuredText(text, output=text, exit_code=0, error=None, session_id=process_id)
    before = shell.cwd
    wanted = int(deps.settings.terminal.timeout) if timeout is None else timeout
    seconds = min(max(wanted, 1), MAX_TIMEOUT)
    if pty:
        result = await run_beside(
            shell,
            command,
            timeout=seconds,
            cwd=cwd,
            on_output=call.output,
            cancel=call.cancel,
            limits=deps.limits,
        )
    else:
        result = await shell.run(
            command, timeout=seconds, cwd=cwd, on_output=call.output, cancel=call.cancel
        )
    output = plain_text(result.output)
    if deps.transform_output is not None:
        output = await deps.transform_output(output)
    if result.timed_out:
        raise ToolTimedOut(
            f"the command was stopped after {seconds} s. Its output:\n{output}",
            hint="give a longer timeout, or run it with background=true",
        )
    text = _format_result(command, result, output, shell.cwd if shell.cwd != before else "")
    return StructuredText(text, output=output, exit_code=result.exit_code, error=None)


def _format_result(command: str, result: CommandResult, output: str, moved_to: str) -> str:
    parts = [output or "[no output]"]
    if result.exit_code:
        note = exit_note(command, result.exit_code)
        parts.append(f"[exit code {result.exit_code}{': ' + note if note else ''}]")
    if result.truncated:
        parts.append("[the middle of the output was cut; send it to a file to read all of it]")
    if "no new privileges" in output:
        parts.append(NO_SUDO)
    if moved_to:
        parts.append(f"[now in {moved_to}]")
    return "\n".join(parts)
