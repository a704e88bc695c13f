"""Every subcommand as data: importing this costs nothing, a command is loaded when it is used."""

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from hermes.cli.context import Cli


FILES = {"import": "import_"}
"""Commands that cannot be the name of a module."""


class Command(NamedTuple):
    name: str
    summary: str

    @property
    def module(self) -> str:
        return f"hermes.cli.commands.{FILES.get(self.name, self.name)}"

    def load(self) -> "CommandModule":
        return cast("CommandModule", import_module(self.module))


class CommandModule(Protocol):
    """What a module in `hermes.cli.commands` holds."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Describe the command and add its arguments."""

    def run(self, args: argparse.Namespace, cli: "Cli") -> int:
        """Do the work; the result is the exit code."""


COMMANDS = (
    Command("chat", "talk to the agent, or ask one thing with -q"),
    Command("setup", "set Hermes up, question by question or by options"),
    Command("config", "show, explain and change settings"),
    Command("auth", "add, list and remove keys and logins"),
    Command("model", "show and choose the model that answers"),
    Command("models", "list the models of a provider, with context and prices"),
    Command("fallback", "show and change the models that answer when the first cannot"),
    Command("status", "show what is set up and how it fares"),
    Command("tools", "show and choose the tools of the agent"),
    Command("approvals", "explain what a command needs approval for"),
    Command("skills", "find, install, change and share skills"),
    Command("memory", "show, edit and forget what is remembered; choose a provider"),
    Command("plugins", "install, enable and disable plugins"),
    Command("hooks", "show, try and revoke shell hooks"),
    Command("mcp", "add, test and configure MCP servers"),
    Command("prompt", "show what the model is told before a conversation"),
    Command("trajectory", "look at saved trajectories and convert them"),
    Command("profile", "make, choose, rename, export and import profiles"),
    Command("sessions", "look at past conversations"),
    Command("gateway", "connect chats: run, start, stop, status, install, setup"),
    Command("pairing", "see and let in strangers who ask by a code"),
    Command("webhook", "addresses that other programs call"),
    Command("cron", "schedule work, and see what became of it"),
    Command("checkpoints", "list, compare and undo file changes"),
    Command("backup", "write the home to one private file"),
    Command("import", "bring back what `hermes backup` wrote"),
    Command("local", "fetch and choose the embedded model"),
    Command("insights", "show how the agent was used, as charts"),
    Command("doctor", "find what is wrong, and mend what can be mended safely"),
    Command("logs", "read the log files"),
    Command("dump", "print a summary for a bug report"),
    Command("debug", "make a report file without secrets"),
    Command("run", "run a script written for the documented Python names"),
    Command("lab", "a scripted model server for trying things out"),
    Command("completion", "print a script that lets your shell complete"),
    Command("version", "show the version"),
    Command("update", "update the program, or go back to the version before"),
    Command("uninstall", "remove the program; your data only with --full"),
)
"""In the order of the help text."""

DEFAULT = "chat"


def find(name: str) -> Command | None:
    return next((command for command in COMMANDS if command.name == name), None)
