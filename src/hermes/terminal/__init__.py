"""Where commands run and files live: this machine, a sandbox, a container, or a remote host.

The tools use the Protocols `Shell` and `Files`. Each backend is loaded only when it is chosen, and
the names below load with their first use.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.terminal.base import (
        CommandResult,
        ExecutionEnvironment,
        FileInfo,
        Files,
        GrepLine,
        GrepQuery,
        GrepResult,
        Host,
        Notify,
        Running,
        Shell,
        TextPage,
    )
    from hermes.terminal.local.files import LocalFiles
    from hermes.terminal.local.lifeline import Lifeline
    from hermes.terminal.local.process import spawn
    from hermes.terminal.local.shell import LocalShell, ShellOptions
    from hermes.terminal.output import HeadAndTail, OutputLimits, cut_line, plain_text
    from hermes.terminal.processes import BackgroundProcesses, ProcessEvent, ProcessState
    from hermes.terminal.session_shell import SessionShell, run_in_terminal

__all__ = [
    "BackgroundProcesses",
    "CommandResult",
    "ExecutionEnvironment",
    "FileInfo",
    "Files",
    "GrepLine",
    "GrepQuery",
    "GrepResult",
    "HeadAndTail",
    "Host",
    "Lifeline",
    "LocalFiles",
    "LocalShell",
    "Notify",
    "OutputLimits",
    "ProcessEvent",
    "ProcessState",
    "Running",
    "SessionShell",
    "Shell",
    "ShellOptions",
    "TextPage",
    "cut_line",
    "plain_text",
    "run_in_terminal",
    "spawn",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
