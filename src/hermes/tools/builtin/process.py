"""The tool `process`: list, read, wait for, write to and end background commands."""

from typing import Any, Literal, assert_never

import msgspec

from hermes import security  # its names load with their first use: the parser is slow
from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.core.tool import Concern, Effect, ToolContext
from hermes.terminal import (
    HeadAndTail,
    OutputLimits,
    ProcessLogPage,
    ProcessOutput,
    ProcessState,
    cut_line,
    plain_text,
)
from hermes.terminal.processes import MAX_RUNNING
from hermes.tools.builtin.terminal import command_concern
from hermes.tools.registry import ToolDeps, tool
from hermes.util.lazy import late_pattern

Action = Literal["list", "poll", "log", "wait", "kill", "write", "submit", "close"]

MAX_WAIT = 3_600
MAX_COMMAND_CHARS = 120  #: For a command in a list.
MAX_STATEMENT = 4_000  #: Characters of an unfinished SQL statement that are kept.

_LINE_END = late_pattern(r"[\r\n\x03]")
_KEYS = late_pattern(r"[\r\n\x03\x04\x1a\x1c]*")
"""Enter, Ctrl-C, Ctrl-D, Ctrl-Z and Ctrl-\\. Earlier text of the line was examined already."""


@tool(
    name="process",
    toolset="terminal",
    effect=Effect.EXECUTE,
    changes=lambda arguments: arguments.get("action") in ("write", "submit"),
    serial=True,
    repeatable=True,
    emoji="⏳",
)
class Process:
    def __init__(self, deps: ToolDeps) -> None:
        self._deps, self._processes = deps, deps.processes
        self._unfinished: dict[str, str] = {}
        """Unfinished input line by process: a command may be written in several calls."""
        self._shells: dict[str, security.ShellState] = {}
        """Folder and variables of the shell that a process may be, after the input so far."""
        self._statements: dict[str, str] = {}
        """Input since the last semicolon: a statement of SQL may have several lines."""

    async def process(
        self,
        call: ToolContext,
        action: Action,
        session_id: str = "",
        data: str = "",
        timeout: int = 60,
        offset: int = 0,
        limit: int = 200,
    ) -> str:
        """Control background commands.

        poll: return new output. log: return lines of all output. wait: wait until it ends. write:
        send data to its input. submit: send data and Enter. close: close its input.

        session_id: proc_…
        timeout: seconds, for wait
        offset: first line, for log; 0 means the last ones
        """
        processes, limits = self._processes, self._deps.limits
        if action == "list":
            return _format_list(processes.list())
        if not session_id:
            raise ToolArgumentsInvalid(
                f"{action} needs a session_id", hint="action='list' shows those there are"
            )
        with call.cancel.scope():
            match action:
                case "poll":
                    return _format_output(processes.poll(session_id), limits)
                case "log":
                    page = processes.log(session_id, offset=offset, limit=max(limit, 1))
                    return _format_log(page, limits)
                case "wait":
                    seconds = min(max(timeout, 1), MAX_WAIT)
                    waited = await processes.wait(session_id, seconds, call.output)
                    return _format_output(waited, limits)
                case "kill":
                    return _format_state(await processes.kill(session_id))
                case "close":
                    await processes.close_input(session_id)
                case "submit":
                    await processes.submit(session_id, data)
                    self._follow(session_id, f"{data}\n")
                    self._keep_statement(session_id, f"{data}\n")
                case "write":
                    await processes.write(session_id, data)
                    self._follow(session_id, data)
                    self._keep_statement(session_id, data)
                case _:
                    assert_never(action)
        return "[done; poll shows the answer]"

    async def examine(self, arguments: dict[str, Any]) -> Concern | Effect | None:
        """Examine input like a terminal command, because the process may be a shell."""
        session_id, data = str(arguments.get("session_id", "")), str(arguments.get("data", ""))
        if arguments.get("action") in ("list", "poll", "log", "wait"):
            return Effect.READ
        if arguments.get("action") not in ("write", "submit") or _KEYS.fullmatch(data):
            return None
        try:
            shell = self._shell(session_id)
        except ToolError:
            return None  # no such process: the call reports it
        line = self._unfinished.get(session_id, "") + data
        statement = self._statements.get(session_id, "") + data
        command = self._processes.state(session_id).command
        found = security.examine_input(command, statement, self._deps.guard, shell.folder)
        if found is not None:
            isolated = self._deps.place.isolated
            return security.merge_concerns([each for each in found if each.refused or not isolated])
        concern = command_concern(line, self._deps, shell.folder, shell.variables)
        # What input does depends on the program and its folder by now.
        return concern and msgspec.structs.replace(concern, words=(), reach="unknown")

    def _shell(self, session_id: str) -> "security.ShellState":
        """Return where the shell of a process is now, as far as its input tells."""
        known = self._shells.get(session_id)
        if known is None:
            state, guard = self._processes.state(session_id), self._deps.guard
            started = security.ShellState(
                guard.resolve(state.cwd, state.cwd), self._deps.place.variables()
            )
            known = self._shells[session_id] = security.shell_after(state.command, guard, started)
        return known

    def _follow(self, session_id: str, data: str) -> None:
        """Keep the unfinished line, and apply the lines before it to the state of the shell."""
        *lines, rest = _LINE_END.split(self._unfinished.get(session_id, "") + data)
        self._unfinished[session_id] = rest
        if lines:
            shell = self._shell(session_id)
            self._shells[session_id] = security.shell_after(
                "\n".join(lines), self._deps.guard, shell
            )

    def _keep_statement(self, session_id: str, data: str) -> None:
        """Keep the unfinished statement, unless it was a concern and has been approved by now."""
        statement = f"{self._statements.get(session_id, '')}{data}".rpartition(";")[2]
        command = self._processes.state(session_id).command
        approved = security.examine_input(command, statement, self._deps.guard, "/")
        self._statements[session_id] = "" if approved else statement.lstrip()[-MAX_STATEMENT:]


def _format_list(states: list[ProcessState]) -> str:
    if not states:
        return "[no background processes]"
    running = sum(state.state == "running" for state in states)
    lines = [f"{running} running, at most {MAX_RUNNING}; the latest ended ones are kept"]
    for state in states:
        marks = [f"pid {state.pid}"] if state.pid and state.state == "running" else []
        marks += ["pty"] if state.pty else []
        marks += ["notifies"] if state.notify else []
        marks += [f"watches {', '.join(state.watch_patterns)}"] if state.watch_patterns else []
        command = cut_line(" ".join(state.command.split()), MAX_COMMAND_CHARS)
        place = ", ".join([f"in {state.cwd}", f"{state.output_bytes} bytes of output", *marks])
        lines.append(f"{state.id} {_format_state(state)} {command}\n  {place}")
    return "\n".join(lines)


def _format_state(state: ProcessState) -> str:
    spent = f"{state.seconds:.0f} s"
    match state.state:
        case "running":
            return f"[running for {spent}]"
        case "exited":
            return f"[ended after {spent} with exit code {state.exit_code}]"
        case "killed":
            return f"[killed after {spent}]"
        case "lost":
            return f"[lost after {spent}: the place it ran in went away]"
        case _:
            assert_never(state.state)


def _format_output(output: ProcessOutput, limits: OutputLimits) -> str:
    window = HeadAndTail(limits)
    window.add(output.text.encode("utf-8", "replace"))
    text, _ = window.text()
    return f"{plain_text(text) or '[no new output]'}\n{_format_state(output.process)}"


def _format_log(page: ProcessLogPage, limits: OutputLimits) -> str:
    if not page.lines:
        nothing = f"[there are {page.total} lines]" if page.total else "[no output]"
        return f"{nothing}\n{_format_state(page.process)}"
    lines: list[str] = []
    expected = page.lines[0][0]
    for number, text in page.lines:
        if number > expected:
            lines.append(f"[… lines {expected} to {number - 1} were not kept …]")
        lines.append(cut_line(plain_text(text), limits.max_line_length))
        expected = number + 1
    shown = f"[lines {page.lines[0][0]} to {page.lines[-1][0]} of {page.total}]"
    return "\n".join([*lines, shown, _format_state(page.process)])
