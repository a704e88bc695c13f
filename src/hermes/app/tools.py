"""The tools of a session and the policy in front of them."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import msgspec

from hermes.config.environment import child_environment
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.ports import Approver
from hermes.security.paths import Guard
from hermes.terminal.local import LocalShell
from hermes.terminal.local_files import LocalFiles
from hermes.terminal.output import OutputLimits
from hermes.tools.approval import Approvals
from hermes.tools.read_file import read_file_tool
from hermes.tools.search_files import search_files_tool
from hermes.tools.terminal import terminal_tool
from hermes.tools.toolbox import Toolbox
from hermes.tools.write_file import write_file_tool


class Workbench(msgspec.Struct, frozen=True):
    """The tools of one session, and the shell they share."""

    toolbox: Toolbox
    shell: LocalShell


def build_tools(
    loaded: Loaded, home: Home, working_folder: Path, redact: Callable[[str], str]
) -> Workbench:
    settings = loaded.settings
    output = settings.tool_output
    limits = OutputLimits(output.max_bytes, output.max_lines, output.max_line_length)
    environment = child_environment(settings.terminal.env_passthrough, loaded.saved)
    shell = LocalShell(environment, working_folder, limits)
    user_home = Path.home()
    files = LocalFiles(lambda: shell.cwd, user_home)
    own = tuple(dict.fromkeys((home.root, home.default_root)))
    guard = Guard(home=user_home, workspace=(working_folder,), own=own)

    def folder() -> str:
        return shell.cwd

    tools = (
        read_file_tool(files, guard, folder, limits, settings.file_read_max_chars),
        write_file_tool(files, guard, folder),
        search_files_tool(files, guard, folder, limits),
        terminal_tool(shell, guard, timeout=int(settings.terminal.timeout)),
    )
    toolbox = Toolbox(tools, home.cache / "tool-results", redact=redact)
    return Workbench(toolbox, shell)


def build_approvals(loaded: Loaded, home: Home, approver: Approver | None) -> Approvals:
    settings = loaded.settings

    async def remember(kind: str) -> None:
        # Editing keeps the user's comments, which takes a heavier YAML library: loaded on demand.
        edit = import_module("hermes.config.edit")
        await asyncio.to_thread(edit.add_value, home, ("command_allowlist",), kind)

    return Approvals(
        settings.approvals.mode,
        approver,
        settings.command_allowlist,
        settings.approvals.timeout,
        remember,
    )
