"""What a skin is: colours, symbols and words of the terminal."""

import msgspec
from msgspec import field


class Spinner(msgspec.Struct, frozen=True):
    """Shown while the agent works; a skin may leave any of it out."""

    waiting_faces: tuple[str, ...] = ("⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏")
    """Frames while the model is waited for."""
    thinking_faces: tuple[str, ...] = ()
    """Frames while it thinks; the others when there are none."""
    thinking_verbs: tuple[str, ...] = ("thinking",)
    """One of them for each turn."""
    wings: tuple[tuple[str, str], ...] = ()
    """What stands left and right of the verb, in turns."""


class Branding(msgspec.Struct, frozen=True):
    agent_name: str = "Hermes"
    welcome: str = ""
    """A line under the name at the start."""
    goodbye: str = ""
    """A line at the end."""
    response_label: str = ""
    """Stands before an answer."""
    prompt_symbol: str = "❯"
    help_header: str = ""
    """Stands above the list of commands."""


class Skin(msgspec.Struct, frozen=True):
    name: str = "default"
    description: str = ""
    colors: dict[str, str] = field(default_factory=dict)
    """By role; see `paint.DEFAULT_COLOURS`."""
    spinner: Spinner = Spinner()
    branding: Branding = Branding()
    tool_prefix: str = "●"
    """Stands before a tool call."""
    tool_emojis: dict[str, str] = field(default_factory=dict)
    """By tool, instead of the prefix."""


DEFAULT = Skin()
