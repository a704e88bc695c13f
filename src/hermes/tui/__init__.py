"""The terminal interface: the prompt, the conversation, its output and skins.

Names are loaded at first use: the prompt must appear before the agent is imported.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.tui.clipboard import ImageAttachments
    from hermes.tui.conversation import Conversation, greet
    from hermes.tui.input import UserInput
    from hermes.tui.markdown import MarkdownStream
    from hermes.tui.picker import PickerItem, pick, take_typed_ahead
    from hermes.tui.plain import PlainConversation, Renderer, TerminalCommands, reference_expander
    from hermes.tui.skins import DisplayState, Skin, find_skin, skin_names
    from hermes.tui.terminal_ui import LayoutOverrides, TerminalUI, is_terminal_open
    from hermes.tui.text import (
        Depth, Paint, one_line, problem_lines, progress_lines, safe, terminal_depth, trouble_line,
        width, wrap,
    )
    # fmt: on
    # isort: on

__all__ = [
    "Conversation",
    "Depth",
    "DisplayState",
    "ImageAttachments",
    "LayoutOverrides",
    "MarkdownStream",
    "Paint",
    "PickerItem",
    "PlainConversation",
    "Renderer",
    "Skin",
    "TerminalCommands",
    "TerminalUI",
    "UserInput",
    "find_skin",
    "greet",
    "is_terminal_open",
    "one_line",
    "pick",
    "problem_lines",
    "progress_lines",
    "reference_expander",
    "safe",
    "skin_names",
    "take_typed_ahead",
    "terminal_depth",
    "trouble_line",
    "width",
    "wrap",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
