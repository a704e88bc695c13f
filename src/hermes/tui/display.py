"""How the conversation is shown at present; commands change it while it runs."""

from typing import Literal

import msgspec

from hermes.config.settings.display import Details, DisplaySettings, ToolProgress
from hermes.core.messages import Image, Text, User
from hermes.tui.skins import Skin
from hermes.tui.text import Depth, Paint

Level = Literal["full", "collapsed", "hidden"]
BusyMode = Literal["interrupt", "queue", "steer"]


class DisplayState:
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
        """Of everything."""
        self.thinking = self.results = self.activity = level

    def set_skin(self, skin: Skin) -> None:
        """Raises `ValueError` for a colour that is none."""
        self.paint = Paint(skin.colors, self._depth)
        self.skin = skin


def _level(details: Details) -> Level:
    return "full" if details == "expanded" else details


# What the user sent.


class UserInput(msgspec.Struct, frozen=True):
    """Something the user sent."""

    text: str
    """As it is shown."""
    images: tuple[Image, ...] = ()
    expanded: str = ""
    """With what was pasted, where that is shown as a placeholder."""
    shown: bool = False
    """It stands on the screen already."""

    @property
    def is_command(self) -> bool:
        return self.text.startswith("/") and not self.images

    @property
    def message(self) -> User:
        return User((Text(self.expanded or self.text), *self.images))
