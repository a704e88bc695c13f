"""How a turn looks in its chat while it runs, by the settings of the platform."""

import msgspec

from hermes.config.settings import Settings
from hermes.config.settings.display import PlatformDisplay, ToolProgress
from hermes.core.messages import ToolCall

UNSET = PlatformDisplay()
MOST_PREVIEW = 60
SYMBOL = "⚙️"


class Showing(msgspec.Struct, frozen=True):
    streaming: bool = False
    interim: bool = True
    """What the agent says between tool calls is sent too."""
    reasoning: bool = False
    progress: ToolProgress = "all"
    edit_interval: float = 0.3
    threshold: int = 40
    """Characters gathered before the text is shown anew."""
    cursor: str = " ▉"
    reply_to: str = "first"
    """Which parts of an answer quote the message: `first`, `all` or `off`."""
    reactions: bool = False


def showing(settings: Settings, platform: str) -> Showing:
    display, streaming = settings.display, settings.streaming
    own = display.platforms.get(platform, UNSET)
    progress = own.tool_progress or display.tool_progress_overrides.get(platform)
    connection = getattr(settings.platforms, platform, None)
    return Showing(
        streaming=_first(own.streaming, streaming.enabled) and streaming.transport != "off",
        interim=_first(own.interim_assistant_messages, display.interim_assistant_messages),
        reasoning=_first(own.show_reasoning, display.show_reasoning),
        progress=progress or display.tool_progress,
        edit_interval=streaming.edit_interval,
        threshold=streaming.buffer_threshold,
        cursor=streaming.cursor,
        reply_to=str(getattr(connection, "reply_to_mode", "first") or "off"),
        reactions=bool(getattr(getattr(settings, platform, None), "reactions", False)),
    )


def _first(own: bool | None, general: bool) -> bool:
    return general if own is None else own


def tool_line(call: ToolCall, progress: ToolProgress) -> str:
    """`⚙️ terminal: ls -la`; everything it was given when the user wants to know."""
    if progress == "verbose":
        return f"{SYMBOL} **{call.name}** `{_one_line(call.arguments, 500)}`"
    try:
        given = msgspec.json.decode(call.arguments, type=dict[str, object])
    except msgspec.DecodeError:
        given = {}
    first = next((value for value in given.values() if value and isinstance(value, str)), "")
    preview = f": `{_one_line(first, MOST_PREVIEW)}`" if first else ""
    return f"{SYMBOL} **{call.name}**{preview}"


def _one_line(text: str, most: int) -> str:
    flat = " ".join(text.replace("`", "'").split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
