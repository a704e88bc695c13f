"""The registry of slash commands, which completion, help and chat menus read; command types."""

from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import msgspec

from hermes.config.schema import find, split_key
from hermes.config.settings import Settings
from hermes.core.messages import User

if TYPE_CHECKING:  # the registry is read before an app is needed
    from hermes.agent import Agent
    from hermes.app.app import App


class CommandGroup(StrEnum):
    SESSION = "Session"
    CONFIG = "Settings"
    TOOLS = "Tools"
    INFO = "Information"
    EXIT = "Leaving"


class Surface(StrEnum):
    EVERYWHERE = "everywhere"
    TERMINAL = "terminal"
    CHATS = "chats"  #: Messaging platforms.


class CommandDef(msgspec.Struct, frozen=True):
    name: str
    group: CommandGroup
    summary: str
    usage: str = ""  #: Syntax of the arguments.
    aliases: tuple[str, ...] = ()
    where: Surface = Surface.EVERYWHERE
    at_once: bool = False
    """True if it runs during a turn; other commands wait for the end of the turn."""
    words: tuple[str, ...] = ()  #: First words of the arguments, for completion.
    gateway_config_gate: str = ""  #: The setting that enables a terminal command in chats.

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    def is_in(self, place: Surface) -> bool:
        gated = place is Surface.CHATS and bool(self.gateway_config_gate)
        return gated or self.where in (Surface.EVERYWHERE, place)

    def is_open(self, place: Surface, settings: Settings) -> bool:
        """Whether the settings enable the command on the surface."""
        if place is not Surface.CHATS or not self.gateway_config_gate:
            return True
        return bool(find(settings, split_key(self.gateway_config_gate)))


_S, _C, _T, _I = CommandGroup.SESSION, CommandGroup.CONFIG, CommandGroup.TOOLS, CommandGroup.INFO
_HERE, _THERE = Surface.TERMINAL, Surface.CHATS

COMMAND_REGISTRY: tuple[CommandDef, ...] = (
    CommandDef("new", _S, "begin a new conversation; this one is kept", aliases=("reset",)),
    CommandDef("clear", _S, "clear the screen and begin a new conversation", where=_HERE),
    CommandDef("history", _S, "show the conversation so far", "[N]", where=_HERE),
    CommandDef("save", _S, "write the conversation to a file", "[FILE]", where=_HERE),
    CommandDef("retry", _S, "ask the last question again"),
    CommandDef("undo", _S, "take back the last question and its answer", "[N]"),
    CommandDef("title", _S, "show or change the title of the session", "[TITLE]", at_once=True),
    CommandDef("compress", _S, "summarise the conversation to make room", "[WHAT MATTERS MOST]"),
    CommandDef(
        "rollback", _S, "list, compare and undo file changes of this session",
        "[N | diff N | N FILE]", words=("diff",),
    ),
    CommandDef(
        "snapshot", _S, "save settings and data, or restore them",
        "create [LABEL] | list | restore NAME | prune [KEEP]", ("snap",), _HERE,
        words=("create", "list", "restore", "prune"),
    ),
    CommandDef("stop", _S, "stop the running turn, else the background work", at_once=True),
    CommandDef("queue", _S, "send a message after this turn", "MESSAGE", at_once=True),
    CommandDef(
        "approve", _S, "allow what the agent asks for", "[session | always]", where=_THERE,
        at_once=True, words=("session", "always"),
    ),
    CommandDef("deny", _S, "do not allow what the agent asks for", where=_THERE, at_once=True),
    CommandDef("steer", _S, "send a message into the running turn", "MESSAGE", at_once=True),
    CommandDef("resume", _S, "continue another conversation", "[ID or TITLE]"),
    CommandDef("sessions", _S, "list past conversations", "[WORDS]", where=_HERE),
    CommandDef("status", _S, "show the session, its model and what it used", at_once=True),
    CommandDef(
        "agents", _S, "show background tasks and processes", aliases=("tasks",), at_once=True
    ),
    CommandDef(
        "background", _S, "run a task in the background", "TASK", ("bg",), at_once=True
    ),
    CommandDef("btw", _S, "ask a side question that is not stored", "QUESTION", at_once=True),
    CommandDef("branch", _S, "continue in a copy of this conversation", "[TITLE]", ("fork",)),
    CommandDef("config", _C, "show settings, or one of them", "[KEY]", where=_HERE, at_once=True),
    CommandDef("model", _C, "show or change the model", "[[PROVIDER:]MODEL] [--global]"),
    CommandDef("personality", _C, "show or change how the agent talks", "[NAME | none]"),
    CommandDef(
        "verbose", _C, "how much of tool calls is shown", "[off | new | all | verbose]",
        where=_HERE, at_once=True, words=("off", "new", "all", "verbose"),
        gateway_config_gate="display.tool_progress_command",
    ),
    CommandDef(
        "fast", _C, "faster answers at a higher price, where the provider has them",
        "[normal | fast | status]", words=("normal", "fast", "status"),
    ),
    CommandDef(
        "reasoning", _C, "how hard the model thinks, and whether that is shown",
        "[none | minimal | low | medium | high | xhigh | show | hide]",
        words=("none", "minimal", "low", "medium", "high", "xhigh", "show", "hide"),
    ),
    CommandDef("skin", _C, "show or change colours and symbols", "[NAME]", (), _HERE, at_once=True),
    CommandDef(
        "statusbar", _C, "show or hide the status bar", "[on | off]", ("sb",), _HERE, at_once=True,
        words=("on", "off"),
    ),
    CommandDef(
        "details", _C, "show thinking and results in full or folded", "[full | collapsed | hidden]",
        where=_HERE, at_once=True, words=("full", "collapsed", "hidden"),
    ),
    CommandDef(
        "busy", _C, "what a message does while the agent works",
        "[interrupt | queue | steer | status]", where=_HERE, at_once=True,
        words=("interrupt", "queue", "steer", "status"),
    ),
    CommandDef(
        "sethome", _C, "make this chat the home channel of its platform", "", ("set-home",), _THERE
    ),
    CommandDef("pair", _C, "let another user in", "[CODE | list]", where=_THERE),
    CommandDef("restart", _C, "restart the gateway", where=_THERE, at_once=True),
    CommandDef(
        "update", _C, "update Hermes and restart the gateway", where=_THERE, at_once=True
    ),
    CommandDef("yolo", _C, "allow everything without asking, or ask again", at_once=True),
    CommandDef(
        "tools", _T, "list tools; switch toolsets for new conversations",
        "[list | enable NAME | disable NAME]", where=_HERE, words=("list", "enable", "disable"),
    ),
    CommandDef("toolsets", _T, "list toolsets", where=_HERE),
    CommandDef("skills", _T, "list skills, or look for some", "[WORDS]", where=_HERE),
    CommandDef("reload", _T, "read keys and settings again for new conversations", where=_HERE),
    CommandDef("reload-mcp", _T, "restart the MCP servers", aliases=("reload_mcp",)),
    CommandDef("plugins", _T, "list plugins", where=_HERE),
    CommandDef("help", _I, "list the commands, or explain one", "[COMMAND]", at_once=True),
    CommandDef(
        "commands", _I, "list the commands page by page", "[PAGE]", where=_THERE, at_once=True
    ),
    CommandDef(
        "platforms", _I, "show the state of the platforms", "", ("gateway",), _THERE, at_once=True
    ),
    CommandDef("usage", _I, "tokens, cache hits and cost of this session", at_once=True),
    CommandDef("insights", _I, "what was used over the last days", "[DAYS]"),
    CommandDef("paste", _I, "attach the picture in the clipboard", where=_HERE, at_once=True),
    CommandDef("image", _I, "attach a picture", "FILE", where=_HERE, at_once=True),
    CommandDef("copy", _I, "copy an answer to the clipboard", "[N]", where=_HERE, at_once=True),
    CommandDef("terminal-setup", _I, "what this terminal can do, and keys for it", where=_HERE),
    CommandDef("debug", _I, "show what to send with a bug report"),
    CommandDef("profile", _I, "show the profile and its folder", at_once=True),
    CommandDef("quit", CommandGroup.EXIT, "leave", aliases=("exit", "q"),
               where=_HERE, at_once=True),
)  # fmt: skip
"""In the order of the help text; the first match wins for an abbreviated name."""


GATEWAY_KNOWN_COMMANDS = frozenset(
    name for each in COMMAND_REGISTRY if each.is_in(Surface.CHATS) for name in each.names
)
"""Names and aliases of the commands that chats have."""


def resolve_command(
    word: str, place: Surface = Surface.TERMINAL, settings: Settings | None = None
) -> CommandDef | None:
    """Return the command for a word such as `/Mod`: by name or alias, else the first command whose
    name starts with it."""
    return exact_command(word, place, settings) or command_by_prefix(word, place, settings)


def exact_command(
    word: str, place: Surface = Surface.TERMINAL, settings: Settings | None = None
) -> CommandDef | None:
    name = _name(word)
    return next((each for each in commands_in(place, settings) if name in each.names), None)


def command_by_prefix(
    word: str, place: Surface = Surface.TERMINAL, settings: Settings | None = None
) -> CommandDef | None:
    name = _name(word)
    if not name:
        return None
    known = commands_in(place, settings)
    return next((each for each in known if each.name.startswith(name)), None)


def commands_in(place: Surface, settings: Settings | None = None) -> Iterable[CommandDef]:
    """Return the commands of a surface; with `settings`, only the enabled ones."""
    return (
        each
        for each in COMMAND_REGISTRY
        if each.is_in(place) and (settings is None or each.is_open(place, settings))
    )


def _name(word: str) -> str:
    return word.strip().removeprefix("/").lower()


class CommandContext(Protocol):
    """The conversation in which a command was entered, on any surface."""

    app: "App"
    place: Surface

    @property
    def agent(self) -> "Agent":
        """The current agent of the conversation."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        ...

    async def continue_with(self, agent: "Agent") -> None:
        """Switch the surface to the conversation of `agent`."""
        ...

    async def ask(self, message: User) -> None:
        """Run a turn for `message` and show it."""
        ...

    def later(self, text: str) -> None:
        """Queue the text until the current turn has ended."""
        ...

    def show(self, markdown: str) -> None:
        """Show Markdown to the user at once."""
        ...


class CommandCall(msgspec.Struct, frozen=True):
    """A command with its arguments and the conversation."""

    command: CommandDef
    arguments: str
    talk: CommandContext

    @property
    def words(self) -> list[str]:
        return self.arguments.split()

    @property
    def agent(self) -> "Agent":
        return self.talk.agent

    @property
    def app(self) -> "App":
        return self.talk.app


CommandHandler = Callable[[CommandCall], Awaitable[str]]
"""Runs a command and returns the answer as Markdown, or "". A `HermesError` is shown."""
