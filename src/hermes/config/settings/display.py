"""What you see in the terminal, in chats and on the dashboard."""

from typing import Literal

from msgspec import field

from hermes.config.settings.base import Count, OffOr, Seconds, Section

ToolProgress = Literal["off", "new", "all", "verbose"]
Details = Literal["full", "expanded", "collapsed", "hidden"]
"""`expanded` is another word for `full`."""


class PlatformDisplay(Section, frozen=True):
    show_reasoning: bool | None = None
    """Show what the model thinks; unset follows display.show_reasoning."""
    streaming: bool | None = None
    """Show answers as they are written; unset follows streaming.enabled."""
    tool_progress: ToolProgress | None = None
    """Which tool calls are shown; unset follows display.tool_progress."""
    interim_assistant_messages: bool | None = None
    """Send what the agent says between tool calls; unset follows display."""


class DetailSections(Section, frozen=True):
    thinking: Details | None = None
    """How much of the thinking is shown; unset follows details_mode."""
    tools: Details | None = None  #: How much of tool results is shown; unset follows details_mode.
    activity: Details | None = None
    """`hidden`: not what running tools and subagents do; unset follows details_mode."""


class DisplaySettings(Section, frozen=True):
    tool_progress: ToolProgress = "all"  #: Which tool calls are shown.
    tool_progress_command: bool = False  #: Offer /verbose in chats too.
    tool_progress_overrides: dict[str, ToolProgress] = field(default_factory=dict)
    """tool_progress for single platforms (older form of `platforms`)."""
    platforms: dict[str, PlatformDisplay] = field(default_factory=dict)
    """What differs on a platform, by platform."""
    interim_assistant_messages: bool = True  #: Send what the agent says between tool calls.
    skin: str = "default"  #: Colours and symbols of the terminal.
    personality: str = "kawaii"  #: How the agent talks.
    compact: bool = False  #: Leave out blank lines and banners.
    resume_display: str = "full"  #: How much of a resumed session is shown.
    bell_on_complete: bool = False  #: Ring the terminal bell when a turn ends.
    show_reasoning: bool = False  #: Show what the model thinks.
    streaming: bool = True  #: Show answers as they are written.
    show_cost: bool = False  #: Show what a turn costs.
    tool_preview_length: Count = 0  #: Characters of a tool call that are shown; 0 fits the line.
    busy_input_mode: Literal["interrupt", "queue", "steer"] = "interrupt"
    """What a message does while the agent is at work: stop it, wait for its end, or be heard by it
    after its next step."""
    background_process_notifications: Literal["all", "result", "error", "off"] = "all"
    """Which news of background processes reach the chat."""
    details_mode: Details = "collapsed"
    """How much of thinking and of tool results the terminal shows."""
    plain: bool = False
    """Lines only, nothing painted again: for screen readers and simple terminals."""
    sections: DetailSections = DetailSections()
    mouse_tracking: bool = True  #: Let the TUI use the mouse.


class StreamingSettings(Section, frozen=True):
    enabled: bool = False  #: Show answers in chats as they are written.
    transport: OffOr = "edit"  #: How: `edit` changes one message again and again.
    edit_interval: Seconds = 0.3  #: Seconds between edits.
    buffer_threshold: Count = 40  #: Characters gathered before an edit.
    cursor: str = " ▉"  #: What stands at the end while more is coming.


class HumanDelaySettings(Section, frozen=True):
    mode: Literal["off", "natural", "custom"] = "off"  #: Pause between messages as a person would.
    min_ms: Count = 800  #: Shortest pause of `custom`.
    max_ms: Count = 2500  #: Longest pause of `custom`.
