"""Where commands run and files live: this machine, a sandbox, a container, or a remote host.

The tools use the Protocols `Shell` and `Files`. Each backend is loaded only when it is chosen, and
the names below load with their first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.terminal.base import (
        CommandResult,
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
        Workspace,
    )
    from hermes.terminal.local.files import LocalFiles
    from hermes.terminal.local.lifeline import Lifeline
    from hermes.terminal.local.process import spawn
    from hermes.terminal.local.shell import LocalShell, ShellOptions
    from hermes.terminal.output import HeadAndTail, OutputLimits, cut_line, plain_text
    from hermes.terminal.processes import BackgroundProcesses, ProcessEvent, ProcessState
    from hermes.terminal.session_shell import EnvShell, run_in_terminal

__all__ = [
    "BackgroundProcesses", "CommandResult", "EnvShell", "FileInfo", "Files", "GrepLine",
    "GrepQuery", "GrepResult", "HeadAndTail", "Host", "Lifeline", "LocalFiles", "LocalShell",
    "Notify", "OutputLimits", "ProcessEvent", "ProcessState", "Running", "Shell", "ShellOptions",
    "TextPage", "Workspace", "cut_line", "plain_text", "run_in_terminal", "spawn",
]  # fmt: skip

_MODULES = {
    "base": (
        "CommandResult FileInfo Files GrepLine GrepQuery GrepResult Host Notify Running Shell"
        " TextPage Workspace"
    ),
    "local.files": "LocalFiles",
    "local.lifeline": "Lifeline",
    "local.process": "spawn",
    "local.shell": "LocalShell ShellOptions",
    "output": "HeadAndTail OutputLimits cut_line plain_text",
    "processes": "BackgroundProcesses ProcessEvent ProcessState",
    "session_shell": "EnvShell run_in_terminal",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import `name` from its module; importing a backend eagerly would slow down every start."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
