"""What plugins are given of the program; `app` fills it in."""

import argparse
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

CommandHandler = Callable[[str], Awaitable[str]]
"""Runs a slash command with the text behind it and gives what to show. It never raises."""
SetUp = Callable[[argparse.ArgumentParser], None]
"""Adds arguments to the parser of a subcommand. Raises `PluginFailed`."""
Act = Callable[[argparse.Namespace], int]
"""Does the work of a subcommand; the result is the exit code. Raises `PluginFailed`."""


class Host(Protocol):
    """Called from the thread that loads plugins, when a plugin's `register` has succeeded.

    Names were checked before: they are valid and not taken.
    """

    def add_tool(self, plugin: str, **registration: Any) -> None:
        """`registration` are the arguments of `ToolRegistry.register`."""
        ...

    def add_command(self, name: str, handler: CommandHandler, description: str) -> None:
        """A slash command, without the slash."""
        ...

    def add_cli_command(self, name: str, help: str, setup_fn: SetUp, handler_fn: Act) -> None:  # noqa: A002 - the documented name
        """`hermes <name> …`"""
        ...

    def add_skill(self, plugin: str, name: str, path: Path) -> None:
        """A folder with SKILL.md, known as `plugin:name`."""
        ...

    def add_memory_provider(self, provider: Any) -> None: ...

    def add_context_engine(self, engine: Any) -> None: ...

    def inject_message(self, content: str, role: str) -> bool:
        """Puts a message into the running conversation; False where there is none that can take
        it (everywhere but in the terminal). Called from any thread."""
        ...
