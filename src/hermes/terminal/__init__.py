"""Where commands run and files live: this machine, a sandbox, a container, or a remote host.

The tools use the Protocols `Shell` and `Files`. Each backend is loaded only when it is chosen, and
the names below load with their first use.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.terminal.base import (
        Argv, CommandResult, ExecutionEnvironment, FileInfo, Files, GrepLine, GrepQuery, GrepResult,
        Host, Notify, Running, Shell, Sink, TextPage, log_notice,
    )
    from hermes.terminal.boundary import Boundary, open_boundary
    from hermes.terminal.host_files import HostFiles
    from hermes.terminal.host_shell import HostShell
    from hermes.terminal.local.files import (
        LocalFiles, make_link, open_file, remove_file, replace_file,
    )
    from hermes.terminal.local.lifeline import Lifeline, process_family, stop_family
    from hermes.terminal.local.process import spawn
    from hermes.terminal.local.search import (
        FileWalk, IgnoreRule, find_repository, is_ignored, parse_gitignore, relative_to,
    )
    from hermes.terminal.local.shell import LocalShell, ShellOptions
    from hermes.terminal.output import HeadAndTail, OutputLimits, cut_line, plain_text
    from hermes.terminal.processes import (
        BackgroundProcesses, ProcessEvent, ProcessLogPage, ProcessOutput, ProcessState,
    )
    from hermes.terminal.remote import (
        DeferredHost, EngineClient, EngineResult, Mount, SyncedHost, credential_mounts,
        is_owner_gone, owner_mark, persistent_folder,
    )
    from hermes.terminal.sandbox import SANDBOX_PROBE, is_installed, probe_program
    from hermes.terminal.session_shell import SessionShell, run_beside
    from hermes.terminal.sync import Sync
    # fmt: on
    # isort: on

__all__ = [
    "SANDBOX_PROBE", "Argv", "BackgroundProcesses", "Boundary", "CommandResult", "DeferredHost",
    "EngineClient", "EngineResult", "ExecutionEnvironment", "FileInfo", "FileWalk", "Files",
    "GrepLine", "GrepQuery", "GrepResult", "HeadAndTail", "Host", "HostFiles", "HostShell",
    "IgnoreRule", "Lifeline", "LocalFiles", "LocalShell", "Mount", "Notify", "OutputLimits",
    "ProcessEvent", "ProcessLogPage", "ProcessOutput", "ProcessState", "Running", "SessionShell",
    "Shell", "ShellOptions", "Sink", "Sync", "SyncedHost", "TextPage", "credential_mounts",
    "cut_line", "find_repository", "is_ignored", "is_installed", "is_owner_gone", "log_notice",
    "make_link", "open_boundary", "open_file", "owner_mark", "parse_gitignore", "persistent_folder",
    "plain_text", "probe_program", "process_family", "relative_to", "remove_file", "replace_file",
    "run_beside", "spawn", "stop_family",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
