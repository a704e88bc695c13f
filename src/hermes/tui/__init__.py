"""The terminal interface: the prompt, the conversation, its output and skins.

Names are loaded at first use: the prompt must appear before the agent is imported.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.tui.clipboard import ImageAttachments
    from hermes.tui.commands import TerminalCommands
    from hermes.tui.conversation import Conversation, ReferenceExpander
    from hermes.tui.display import DisplayState
    from hermes.tui.markdown import MarkdownStream
    from hermes.tui.plain import PlainConversation
    from hermes.tui.skins import Skin, find_skin, skin_names
    from hermes.tui.terminal_ui import LayoutOverrides, TerminalUI

__all__ = [
    "Conversation", "DisplayState", "ImageAttachments", "LayoutOverrides", "MarkdownStream",
    "PlainConversation", "ReferenceExpander", "Skin", "TerminalCommands", "TerminalUI", "find_skin",
    "skin_names",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
