"""State of the display that commands change, and input of the user."""

from typing import Literal

import msgspec

from hermes.config.settings import Details, DisplaySettings, ToolProgress
from hermes.core.messages import Image, Text, User
from hermes.tui.skins import Skin
from hermes.tui.text import Depth, Paint

Level = Literal["full", "collapsed", "hidden"]
BusyMode = Literal["interrupt", "queue", "steer"]


class DisplayState:
    """How the conversation is shown. Commands change it; views read it at each use."""

    def __init__(self, settings: DisplaySettings, skin: Skin, depth: Depth) -> None:
        self._depth = depth
        self.set_skin(skin)
        self.tool_progress: ToolProgress = settings.tool_progress
        self.preview = settings.tool_preview_length
        self.reasoning = settings.show_reasoning
        sections, default = settings.sections, settings.details_mode
        self.thinking = _level(sections.thinking or default)
        self.results = _level(sections.tools or default)
        self.activity = _level(sections.activity or default)
        self.streaming = settings.streaming
        self.cost = settings.show_cost
        self.compact = settings.compact
        self.bell = settings.bell_on_complete
        self.status_bar = True
        self.busy: BusyMode = settings.busy_input_mode

    def set_detail(self, level: Level) -> None:
        """Set the level of thinking, tool results and activity."""
        self.thinking = self.results = self.activity = level

    def set_skin(self, skin: Skin) -> None:
        """Switch to a skin. Raises `ValueError` for an invalid colour."""
        self.paint = Paint(skin.colors, self._depth)
        self.skin = skin


async def no_command(_text: str) -> bool:
    """Stand in for the commands until they are known: every text is a message."""
    return False


async def unchanged(message: User) -> User:
    """Stand in for the expansion of references."""
    return message


def _level(details: Details) -> Level:
    return "full" if details == "expanded" else details


class UserInput(msgspec.Struct, frozen=True):
    """A message or command that the user sent."""

    text: str  #: The text as shown, with placeholders for long pastes.
    images: tuple[Image, ...] = ()
    expanded: str = ""  #: The text with the pastes, if it has placeholders.
    shown: bool = False  #: The text is on the screen already.

    @property
    def is_command(self) -> bool:
        return self.text.startswith("/") and not self.images

    @property
    def message(self) -> User:
        return User((Text(self.expanded or self.text), *self.images))
