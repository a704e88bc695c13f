"""Every subcommand as data: importing this costs nothing, a command is loaded when it is used."""

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from hermes.cli.context import Command


class CommandEntry(NamedTuple):
    """A subcommand as `hermes --help` lists it, and where its code is."""

    name: str
    summary: str
    target: str = ""
    """`module:ATTRIBUTE` below `hermes.cli.commands`, unless it is `NAME:COMMAND`."""

    def load(self) -> "Command":
        """Import the module of the command."""
        module, _, attribute = (self.target or f"{self.name}:COMMAND").partition(":")
        return cast(
            "Command", getattr(import_module(f"{__package__}.commands.{module}"), attribute)
        )


COMMANDS = (
    CommandEntry("chat", "talk to the agent, or ask one thing with -q"),
    CommandEntry("setup", "set Hermes up, question by question or by options"),
    CommandEntry("config", "show, explain and change settings"),
    CommandEntry("auth", "add, list and remove keys and logins"),
    CommandEntry("model", "show and choose the model that answers", "model:MODEL"),
    CommandEntry(
        "models", "list the models of a provider, with context and prices", "models:MODELS"
    ),
    CommandEntry(
        "fallback", "show and change the models that answer when the first cannot", "model:FALLBACK"
    ),
    CommandEntry("status", "show what is set up and whether it works", "status:STATUS"),
    CommandEntry("tools", "show and choose the tools of the agent", "tools:TOOLS"),
    CommandEntry("approvals", "explain what a command needs approval for"),
    CommandEntry("skills", "find, install, change and share skills"),
    CommandEntry("memory", "show, edit and delete memories; choose a provider"),
    CommandEntry("plugins", "install, enable and disable plugins"),
    CommandEntry("hooks", "show, try and revoke shell hooks"),
    CommandEntry("mcp", "add, test and configure MCP servers"),
    CommandEntry("prompt", "show the system prompt and its size", "tools:PROMPT"),
    CommandEntry("trajectory", "show and convert saved trajectories"),
    CommandEntry("profile", "make, choose, rename, export and import profiles"),
    CommandEntry("sessions", "list, read and manage past conversations"),
    CommandEntry("gateway", "connect chats: run, start, stop, status, install, setup"),
    CommandEntry("pairing", "list and approve users who ask by a code"),
    CommandEntry("webhook", "addresses that other programs call"),
    CommandEntry("cron", "schedule jobs, and show past runs"),
    CommandEntry("checkpoints", "list, compare and undo file changes"),
    CommandEntry("backup", "write the home to one private file", "backup:BACKUP"),
    CommandEntry("import", "restore an archive of `hermes backup`", "backup:IMPORT"),
    CommandEntry("local", "fetch and choose the embedded model", "models:LOCAL"),
    CommandEntry("insights", "show how the agent was used, as charts"),
    CommandEntry("doctor", "find problems, and fix what can be fixed safely", "doctor:DOCTOR"),
    CommandEntry("logs", "read the log files"),
    CommandEntry("dump", "print a summary for a bug report", "doctor:DUMP"),
    CommandEntry("debug", "make a report file without secrets", "doctor:DEBUG"),
    CommandEntry("run", "run a script written for the documented Python names"),
    CommandEntry("lab", "a scripted model server for trying things out"),
    CommandEntry("completion", "print a script that lets your shell complete"),
    CommandEntry("version", "show the version", "status:VERSION"),
    CommandEntry("update", "update the program, or go back to the version before", "update:UPDATE"),
    CommandEntry("uninstall", "remove the program; your data only with --full", "update:UNINSTALL"),
)
"""In the order of the help text."""

DEFAULT = "chat"


def find(name: str) -> CommandEntry | None:
    """Return the built-in command of this name."""
    return next((command for command in COMMANDS if command.name == name), None)
