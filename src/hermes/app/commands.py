"""The registry of slash commands, which completion, help and chat menus read; command types."""

from collections.abc import Awaitable, Callable, Iterable
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
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
    synonyms: tuple[str, ...] = ()  #: Words that are no commands, for which it is suggested.
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


COMMAND_REGISTRY: tuple[CommandDef, ...] = msgspec.json.decode(
    Path(__file__).with_name("commands.json").read_bytes(), type=tuple[CommandDef, ...]
)
"""In the order of the help text; the first match wins for an abbreviated name."""


GATEWAY_KNOWN_COMMANDS = frozenset(
    name
    for each in COMMAND_REGISTRY
    if each.where is not Surface.TERMINAL or each.gateway_config_gate
    for name in (each.name, *each.aliases)
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


NEVER_SUGGESTED = frozenset(
    {"clear", "exit", "new", "q", "quit", "reset", "restart", "stop", "update", "yolo"}
)
"""Names that are not suggested for a similar word: they end or skip something at once."""
MIN_SIMILARITY = 0.75


def suggest_command(word: str, known: Iterable[CommandDef], others: Iterable[str] = ()) -> str:
    """Return the name that the user probably meant by an unknown `word`, or "".

    `others` are names of commands that are not in the registry.
    """
    name = _name(word)
    names: list[str] = [*others]
    for each in known:
        if name in each.synonyms:
            return each.name
        names += each.names
    safe = [each for each in names if each not in NEVER_SUGGESTED]
    return next(iter(get_close_matches(name, safe, 1, MIN_SIMILARITY)), "")


def _name(word: str) -> str:
    return word.strip().removeprefix("/").lower()


class CommandContext(Protocol):
    """The conversation in which a command was entered, on any surface."""

    app: "App"
    place: Surface

    @property
    def agent(self) -> "Agent":
        """The current agent of the conversation."""

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""

    async def continue_with(self, agent: "Agent") -> None:
        """Switch the surface to the conversation of `agent`."""

    async def ask(self, message: User) -> None:
        """Run a turn for `message` and show it."""

    def later(self, text: str) -> None:
        """Queue the text until the current turn has ended."""

    def show(self, markdown: str) -> None:
        """Show Markdown to the user at once."""


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
